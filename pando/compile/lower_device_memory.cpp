// What every virtual device needs: its variables, and its share of the frames.
#include <algorithm>

#include "pando/compile/function_lowering.hpp"
#include "pando/program/phases.hpp"

namespace pando {
namespace {

/// Of what two branches need (MemoryReport or DeviceMemoryUse); `unknown` if nobody knows.
template <class Memory>
std::int32_t source_of_larger(const Memory* one, const Memory* other, std::int32_t unknown) {
  const Memory* const larger = one->peak_frame_bytes >= other->peak_frame_bytes ? one : other;
  return larger->source_at_peak < 0 ? unknown : larger->source_at_peak;
}

}  // namespace

std::int64_t ProgramLowering::callee_device_bytes(const Instruction& instruction,
                                                  std::int32_t device) const {
  const auto of_function = [&](std::int32_t function) {
    const MemoryReport& memory = function_memory_[static_cast<std::size_t>(function)];
    return memory.devices[static_cast<std::size_t>(device)].peak_frame_bytes;
  };
  const std::int64_t bytes = of_function(instruction.target);
  if (instruction.kind != Instruction::Kind::If) return bytes;
  return std::max(bytes, of_function(instruction.other_target));
}

std::int32_t ProgramLowering::source_at_peak(const Instruction& instruction) const {
  if (!has_phases_inside(program_, instruction)) return instruction.source;
  const auto memory = [&](std::int32_t function) {
    return &function_memory_[static_cast<std::size_t>(function)];
  };
  return source_of_larger(memory(instruction.target), memory(instruction.other_target),
                          instruction.source);
}

std::int32_t ProgramLowering::source_at_peak(const Instruction& instruction,
                                             std::int32_t device) const {
  if (!has_phases_inside(program_, instruction)) return instruction.source;
  const auto memory = [&](std::int32_t function) {
    const MemoryReport& whole = function_memory_[static_cast<std::size_t>(function)];
    return &whole.devices[static_cast<std::size_t>(device)];
  };
  return source_of_larger(memory(instruction.target), memory(instruction.other_target),
                          instruction.source);
}

/// Variables belong to the device whose instruction is the first to name them.
std::vector<std::int64_t> ProgramLowering::persistent_device_bytes() const {
  if (devices_.size() == 1) return {program_.persistent_bytes};
  std::vector<std::int64_t> bytes(devices_.size());
  std::vector<bool> counted(program_.persistent.size());
  const auto count = [&](std::size_t i, std::int32_t device) {
    if (counted[i]) return;
    counted[i] = true;
    const PersistentTensor& tensor = program_.persistent[i];
    const auto size = num_elements(tensor.shape) * std::int64_t(dtype_bytes(tensor.dtype));
    bytes[static_cast<std::size_t>(device)] += align_bytes(size);
  };
  for (const Function& function : program_.functions) {
    for (const Instruction& instruction : function.instructions) {
      for (const OperandRef& operand : instruction.operands) {
        if (operand.space != OperandRef::Space::Global) continue;
        const auto after = std::upper_bound(
            program_.persistent.begin(), program_.persistent.end(), operand.offset,
            [](std::int64_t at, const PersistentTensor& tensor) { return at < tensor.offset; });
        count(static_cast<std::size_t>(after - program_.persistent.begin()) - 1,
              instruction.device);
      }
    }
  }
  for (std::size_t i = 0; i < counted.size(); ++i) count(i, 0);
  return bytes;
}

std::vector<DeviceMemoryUse> FunctionLowering::measure_devices(
    const MemoryReport& whole, const std::vector<Storage*>& planned) const {
  std::vector<DeviceMemoryUse> devices(program_.devices_.size());
  if (devices.size() == 1) {
    devices[0].peak_frame_bytes = whole.peak_frame_bytes;
    devices[0].alive_at_peak = whole.alive_at_peak;
    devices[0].source_at_peak = whole.source_at_peak;
    return devices;
  }
  for (std::size_t d = 0; d < devices.size(); ++d) {
    devices[d] = measure_device(static_cast<std::int32_t>(d), planned);
  }
  return devices;
}

/// The frame of a callee counts as far as the callee's temporaries are this device's.
DeviceMemoryUse FunctionLowering::measure_device(std::int32_t device,
                                                 const std::vector<Storage*>& planned) const {
  struct TensorLife {
    LiveTensor tensor;
    int first, last;
  };
  std::vector<TensorLife> uses;
  std::set<const Storage*> frames;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].callee_frame < 0) continue;
    const Storage& frame = storages_[static_cast<std::size_t>(pending_[i].callee_frame)];
    frames.insert(&frame);
    const std::int64_t bytes = program_.callee_device_bytes(pending_[i].instruction, device);
    if (bytes == 0) continue;
    const int time = static_cast<int>(i);
    uses.push_back({live_tensor(frame), time, time});
    uses.back().tensor.bytes = bytes;
  }
  for (const Storage* s : planned) {
    if (s->device == device && !frames.contains(s)) {
      uses.push_back({live_tensor(*s), s->first, s->last});
    }
  }
  std::vector<std::int64_t> change(pending_.size() + 1);
  for (const TensorLife& use : uses) {
    change[static_cast<std::size_t>(use.first)] += align_bytes(use.tensor.bytes);
    change[static_cast<std::size_t>(use.last) + 1] -= align_bytes(use.tensor.bytes);
  }
  DeviceMemoryUse memory;
  std::int64_t alive = 0;
  int peak = -1;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    alive += change[i];
    if (alive <= memory.peak_frame_bytes) continue;
    memory.peak_frame_bytes = alive;
    peak = static_cast<int>(i);
  }
  if (peak >= 0) {
    memory.source_at_peak =
        program_.source_at_peak(pending_[static_cast<std::size_t>(peak)].instruction, device);
  }
  std::vector<const LiveTensor*> alive_at_peak;
  for (const TensorLife& use : uses) {
    if (use.first <= peak && peak <= use.last) alive_at_peak.push_back(&use.tensor);
  }
  std::sort(alive_at_peak.begin(), alive_at_peak.end(),
            [](const LiveTensor* a, const LiveTensor* b) { return a->bytes > b->bytes; });
  for (const LiveTensor* tensor : alive_at_peak) memory.alive_at_peak.add(*tensor);
  return memory;
}

}  // namespace pando
