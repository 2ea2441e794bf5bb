#include "pando/runtime/program_memory.hpp"

#include <algorithm>

namespace pando {
namespace {

/// A loop counter is two cache lines.
constexpr std::int64_t kCounterBytes = 128;
constexpr std::int64_t kConditionOffset = 64;

std::int64_t frame_bytes_of(const Program& program, std::size_t device) {
  std::int64_t bytes = 0;
  for (const std::int32_t entry : program.entry_functions()) {
    const Function& function = program.functions[static_cast<std::size_t>(entry)];
    bytes = std::max(bytes, function.frame_bytes[device]);
  }
  return bytes;
}

}  // namespace

ProgramMemory::ProgramMemory(const PreparedProgram& prepared, Device& device)
    : rows_(prepared.num_rows()) {
  const Program& program = prepared.program();
  const std::int64_t counter_bytes = prepared.num_loop_counters() * kCounterBytes;
  for (std::size_t i = 0; i < program.persistent_bytes.size(); ++i) {
    const auto index = static_cast<int>(i);
    const std::int64_t persistent = program.persistent_bytes[i];
    frame_bytes_.push_back(frame_bytes_of(program, i));
    blocks_.push_back(device.allocate(index, persistent + frame_bytes_.back(), "device memory"));
    persistent_.push_back(blocks_.back()->data());
    frames_.push_back(persistent_.back() + persistent);
    if (counter_bytes == 0) continue;
    loop_counters_.push_back(device.allocate(index, counter_bytes, "iterators of loops"));
  }
}

void ProgramMemory::discard(const PersistentTensor& tensor) const {
  const std::int64_t bytes =
      num_elements(tensor.shape) * static_cast<std::int64_t>(dtype_bytes(tensor.dtype));
  blocks_[static_cast<std::size_t>(tensor.device)]->discard(address(tensor), bytes);
}

void ProgramMemory::discard_frames() const {
  for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i]->discard(frames_[i], frame_bytes_[i]);
}

ProgramMemory::LoopCounter ProgramMemory::loop_counter(int device, std::int32_t index) const {
  std::byte* place =
      loop_counters_[static_cast<std::size_t>(device)]->data() + index * kCounterBytes;
  return {place, place + kConditionOffset};
}

std::int64_t ProgramMemory::resident_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& block : blocks_) bytes += block->resident_bytes();
  return bytes;
}

}  // namespace pando
