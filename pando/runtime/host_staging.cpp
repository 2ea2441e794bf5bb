#include "pando/runtime/host_staging.hpp"

#include <cstdint>

namespace pando {

const std::byte* HostStaging::read(Queue& queue, const std::byte* memory, std::size_t bytes,
                                   const StopCheck& check) {
  std::byte* copy = room(bytes, check);
  queue.copy(memory, copy, bytes, CopyKind::DeviceToHost);
  queue.wait(queue.record(), check);
  return copy;
}

std::byte* HostStaging::room(std::size_t bytes, const StopCheck& check) {
  if (reader_ != nullptr) reader_->wait(read_at_, check);
  reader_ = nullptr;
  if (block_ == nullptr || bytes > capacity_) {
    block_.reset();
    block_ = device_.allocate_host(static_cast<std::int64_t>(bytes), "transfers to the host");
    capacity_ = bytes;
  }
  return block_->data();
}

void HostStaging::copy_to(Queue& queue, std::byte* memory, std::size_t bytes) {
  queue.copy(block_->data(), memory, bytes, CopyKind::HostToDevice);
  reader_ = &queue;
  read_at_ = queue.record();
}

}  // namespace pando
