#include "pando/runtime/host_transfers.hpp"

#include "pando/base/error.hpp"
#include "pando/runtime/print_tensor.hpp"

namespace pando {
namespace {

/// What malloc, and so NumPy, aligns arrays to. Elements of less aligned ones may not even be
/// aligned to their own size, as kernels want: those are copied.
constexpr std::uintptr_t kHostAlignment = 16;

}  // namespace

void HostTransfers::set_arrays(const std::vector<StreamCursor>& streams, bool may_read_in_place) {
  streams_ = streams;
  may_read_in_place_ = may_read_in_place;
}

std::byte* HostTransfers::next_element(const PreparedInstruction& p) {
  const auto stream = static_cast<std::size_t>(p.instruction->target);
  const StreamCursor& cursor = streams_[stream];
  const std::int64_t element = positions_[stream]++ % cursor.count;
  return cursor.data + element * cursor.stride;
}

void HostTransfers::move_queued(const StreamCursor& cursor, const std::byte* from, std::byte* to,
                                std::size_t bytes, VirtualDevice& device) {
  std::byte* const part = cursor.queue->begin(cursor.part, device.check());
  const bool is_load = from == nullptr;
  device.queue().copy(is_load ? part : from, is_load ? to : part, bytes,
                      is_load ? CopyKind::HostToDevice : CopyKind::DeviceToHost);
  Queue& queue = device.queue();
  if (!queue.is_direct()) queue.wait(queue.record(), device.check());
  cursor.queue->end(cursor.part);
}

void HostTransfers::load(const PreparedInstruction& p, std::byte* to, VirtualDevice& device) {
  const auto stream = static_cast<std::size_t>(p.instruction->target);
  if (streams_[stream].queue != nullptr) {
    ++positions_[stream];
    move_queued(streams_[stream], nullptr, to, p.bytes, device);
    if (p.instruction->row >= 0) rows_.move(p.instruction->row, to);
    if (profile_ != nullptr) profile_->count_host(device.index(), true, p.bytes);
    return;
  }
  std::byte* const element = next_element(p);
  const std::int32_t row = p.instruction->row;
  const bool in_place = row >= 0 && may_read_in_place_ &&
                        reinterpret_cast<std::uintptr_t>(element) % kHostAlignment == 0;
  if (!in_place) device.queue().copy(element, to, p.bytes, CopyKind::HostToDevice);
  if (row >= 0) rows_.move(row, in_place ? element : to);
  if (profile_ != nullptr) profile_->count_host(device.index(), true, p.bytes);
}

void HostTransfers::store(const PreparedInstruction& p, const std::byte* from,
                          VirtualDevice& device) {
  const auto stream = static_cast<std::size_t>(p.instruction->target);
  if (streams_[stream].queue != nullptr) {
    ++positions_[stream];
    move_queued(streams_[stream], from, nullptr, p.bytes, device);
  } else {
    device.queue().copy(from, next_element(p), p.bytes, CopyKind::DeviceToHost);
  }
  if (profile_ != nullptr) profile_->count_host(device.index(), false, p.bytes);
}

void HostTransfers::print(const Instruction& print, const std::byte* value,
                          VirtualDevice& device) const {
  PrintDesc desc = program_.prints[static_cast<std::size_t>(print.target)];
  if (program_.replicas > 1) desc.title += str_cat("_replica_", replica_);
  if (device.queue().is_direct()) return print_tensor(desc, value);
  const std::size_t bytes =
      static_cast<std::size_t>(num_elements(desc.shape)) * dtype_bytes(desc.dtype);
  print_tensor(desc, device.to_host().read(device.queue(), value, bytes, device.check()));
}

void HostTransfers::call(const Instruction& instruction, std::byte* const* operands,
                         VirtualDevice& device) {
  const auto target = static_cast<std::size_t>(instruction.target);
  const HostCallDesc& desc = program_.host_calls[target];
  std::shared_ptr<HostCall>& call = calls_[target];
  if (call == nullptr) call = std::make_shared<HostCall>(desc);
  Queue& queue = device.queue();
  const auto finish_copies = [&] {
    if (!queue.is_direct()) queue.wait(queue.record(), device.check());
  };
  for (std::size_t i = 0; i < desc.inputs.size(); ++i) {
    std::vector<std::byte>& to = call->input(i);
    if (!to.empty()) queue.copy(operands[i], to.data(), to.size(), CopyKind::DeviceToHost);
    if (profile_ != nullptr) profile_->count_host(device.index(), false, to.size());
  }
  finish_copies();
  try {
    functions_[target]->call(call, device.check());
  } catch (...) {
    call.reset();
    throw;
  }
  for (std::size_t i = 0; i < desc.outputs.size(); ++i) {
    const std::vector<std::byte>& from = call->output(i);
    std::byte* const to = operands[desc.inputs.size() + i];
    if (!from.empty()) queue.copy(from.data(), to, from.size(), CopyKind::HostToDevice);
    if (profile_ != nullptr) profile_->count_host(device.index(), true, from.size());
  }
  finish_copies();
}

}  // namespace pando
