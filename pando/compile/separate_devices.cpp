#include "pando/compile/separate_devices.hpp"

#include "pando/compile/device_streams.hpp"
#include "pando/compile/loop_arguments.hpp"
#include "pando/compile/step_effects.hpp"
#include "pando/compile/storage_lifetimes.hpp"

namespace pando {
namespace {

Access access_of(const Storage& storage, bool write) {
  using Kind = AccessSpace::Kind;
  switch (storage.kind) {
    case Storage::Kind::Argument:
      return {{Kind::Argument, storage.slot}, 0, 1, write};
    case Storage::Kind::Global:
      return {{Kind::Global}, storage.offset, storage.offset + storage.bytes, write};
    case Storage::Kind::Local:
      break;
  }
  return {{Kind::Frame}, storage.offset, storage.offset + storage.bytes, write};
}

std::vector<Access> accesses_of(const StepFunction& function, const StepInstruction& instruction,
                                StepEffects& effects) {
  std::vector<Access> accesses;
  for (const StepOperand& operand : instruction.operands) {
    if (operand.storage < 0) continue;
    accesses.push_back(access_of(function.storage_of(operand), !operand.read_only));
  }
  if (instruction.callee_frame >= 0) {
    accesses.push_back(access_of(function.storage_of({instruction.callee_frame}), true));
  }
  for (const AccessSpace& effect : effects.of(instruction)) accesses.push_back({effect});
  return accesses;
}

/// In every other iteration of a loop, a carried input lies where the output of the same number
/// lies in the rest.
std::int32_t slot_in_pass(const StepFunction& function, std::int32_t slot, int pass) {
  const std::int32_t carried = function.num_carried.value_or(0);
  const std::int32_t first_output = function.num_inputs + kLoopControlOutputs;
  if (pass % 2 == 0) return slot;
  if (slot >= kLoopControlInputs && slot < kLoopControlInputs + carried) {
    return slot - kLoopControlInputs + first_output;
  }
  return slot >= first_output ? slot - first_output + kLoopControlInputs : slot;
}

void separate_devices(const StepProgram& program, StepFunction& function, StepEffects& effects) {
  DeviceStreams streams(function.devices);
  const int passes = function.num_carried.has_value() ? DeviceStreams::kLoopPasses : 1;
  for (int pass = 0; pass < passes; ++pass) {
    streams.begin_pass();
    for (const StepInstruction& in : function.instructions) {
      std::vector<Access> accesses = accesses_of(function, in, effects);
      for (Access& access : accesses) {
        if (access.space.kind != AccessSpace::Kind::Argument) continue;
        access.space.index = slot_in_pass(function, access.space.index, pass);
      }
      streams.add(devices_of(program, in), accesses);
    }
  }
  function.streams = streams.finish();
  function.carried_signals = streams.carried_signals();
}

}  // namespace

void separate_devices(StepProgram& program) {
  StepEffects effects(program);
  for (StepFunction& function : program.functions) {
    if (function.devices.size() > 1) separate_devices(program, function, effects);
  }
}

}  // namespace pando
