#include "pando/runtime/program_memory.hpp"

#include <algorithm>

namespace pando {
namespace {

std::int64_t frame_bytes_of(const Program& program) {
  std::int64_t bytes = 0;
  for (const int entry : entry_functions(program)) {
    bytes = std::max(bytes, program.functions[static_cast<std::size_t>(entry)].frame_bytes);
  }
  return bytes;
}

}  // namespace

ProgramMemory::ProgramMemory(const PreparedProgram& prepared, Device& device)
    : rows_(prepared.num_rows()) {
  const Program& program = prepared.program();
  block_ = device.allocate(program.persistent_bytes + frame_bytes_of(program), "device memory");
  const std::int64_t counter_bytes = prepared.num_loop_counters() * DeviceMemory::kCounterBytes;
  if (counter_bytes > 0) {
    loop_counters_ = device.allocate(program.devices * counter_bytes, "iterators of loops");
  }
  std::byte* const persistent = block_->data();
  for (std::int64_t i = 0; i < program.devices; ++i) {
    std::byte* const counters =
        loop_counters_ == nullptr ? nullptr : loop_counters_->data() + i * counter_bytes;
    devices_.emplace_back(persistent, persistent + program.persistent_bytes, counters, rows_);
  }
}

}  // namespace pando
