#include "pando/runtime/persistent_transfers.hpp"

namespace pando {

void PersistentTransfers::move(std::size_t index, const StopCheck& check,
                               const std::function<void(Queue&, std::byte*)>& ask) const {
  const PersistentTensor& tensor = program_.persistent[index];
  Queue& queue = devices_[static_cast<std::size_t>(tensor.device)]->queue();
  try {
    ask(queue, memory_.address(tensor));
    queue.wait(queue.record(), check);
  } catch (...) {
    queue.abandon();
    throw;
  }
}

void PersistentTransfers::read(std::size_t index, std::byte* to, std::size_t bytes,
                               const StopCheck& check) const {
  move(index, check, [&](Queue& queue, const std::byte* tensor) {
    if (bytes > 0) queue.copy(tensor, to, bytes, CopyKind::DeviceToHost);
  });
}

void PersistentTransfers::write(std::size_t index, const std::byte* from, std::size_t bytes,
                                const StopCheck& check) {
  ++writes_;
  const PersistentTensor& desc = program_.persistent[index];
  const auto all = static_cast<std::size_t>(num_elements(desc.shape)) * dtype_bytes(desc.dtype);
  move(index, check, [&](Queue& queue, std::byte* tensor) {
    if (bytes > 0) queue.copy(from, tensor, bytes, CopyKind::HostToDevice);
    if (bytes < all) queue.fill_with_zeros(tensor + bytes, all - bytes);
  });
}

}  // namespace pando
