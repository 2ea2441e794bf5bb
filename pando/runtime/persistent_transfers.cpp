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
  const PersistentTensor& tensor = program_.persistent[index];
  if (tensor.is_staged()) run_(tensor.restore_function);
  move(index, check, [&](Queue& queue, const std::byte* from) {
    if (bytes > 0) queue.copy(from, to, bytes, CopyKind::DeviceToHost);
  });
}

void PersistentTransfers::write(std::size_t index, const std::byte* from, std::size_t bytes,
                                const StopCheck& check) const {
  const PersistentTensor& tensor = program_.persistent[index];
  const auto all = static_cast<std::size_t>(num_elements(tensor.shape)) * dtype_bytes(tensor.dtype);
  move(index, check, [&](Queue& queue, std::byte* to) {
    if (bytes > 0) queue.copy(from, to, bytes, CopyKind::HostToDevice);
    if (bytes < all) queue.fill_with_zeros(to + bytes, all - bytes);
  });
  if (tensor.make_function >= 0) run_(tensor.make_function);
}

void PersistentTransfers::prepare_again() const {
  for (const PersistentTensor& tensor : program_.persistent) {
    if (tensor.make_function >= 0 && !tensor.is_staged()) run_(tensor.make_function);
  }
}

/// Of a staged tensor, what was made of it.
void PersistentTransfers::discard(std::size_t index) const {
  const PersistentTensor& tensor = program_.persistent[index];
  if (!tensor.is_staged()) return memory_.discard(tensor);
  const Function& maker = program_.functions[static_cast<std::size_t>(tensor.make_function)];
  for (const Instruction& in : maker.instructions) {
    for (const PersistentTensor& made : program_.persistent) {
      const OperandRef& place = in.operands.back();
      if (made.is_prepared && made.device == place.device && made.offset == place.offset) {
        memory_.discard(made);
      }
    }
  }
}

}  // namespace pando
