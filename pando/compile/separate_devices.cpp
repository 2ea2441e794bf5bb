#include "pando/compile/separate_devices.hpp"

#include <set>

#include "pando/compile/device_streams.hpp"
#include "pando/compile/step_effects.hpp"
#include "pando/ir/loop_arguments.hpp"
#include "pando/steps/step_devices.hpp"

namespace pando {
namespace {

Access access_of(const Storage& storage, bool write) {
  using SpaceKind = AccessSpace::Kind;
  switch (storage.kind) {
    case Storage::Kind::Argument:
      return {{SpaceKind::Argument, storage.slot}, 0, 1, write};
    case Storage::Kind::Global:
      return {{SpaceKind::Global, storage.device},
              storage.offset,
              storage.offset + storage.bytes,
              write};
    case Storage::Kind::Local:
      break;
  }
  return {
      {SpaceKind::Frame, storage.device}, storage.offset, storage.offset + storage.bytes, write};
}

std::vector<Access> accesses_of(const StepFunction& function, const StepInstruction& instruction,
                                StepEffects& effects) {
  std::vector<Access> accesses;
  for (const StepOperand& operand : instruction.operands) {
    if (operand.storage < 0) continue;
    accesses.push_back(access_of(function.storage_of(operand), !operand.read_only));
  }
  for (const std::int32_t frame : instruction.callee_frames) {
    accesses.push_back(access_of(function.storage_of({frame}), true));
  }
  for (const AccessSpace& effect : effects.of(instruction)) accesses.push_back({effect});
  const bool is_send = instruction.kind == Instruction::Kind::Send;
  if (is_send || instruction.kind == Instruction::Kind::Receive) {
    // The receiver waits for the send itself, not only for what made the value.
    const auto kind = static_cast<std::int32_t>(Instruction::Kind::Send);
    accesses.push_back({{AccessSpace::Kind::Effect, kind, instruction.other_target}});
  }
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

/// The bodies of loops that end early.
std::set<std::int32_t> tested_bodies(const StepProgram& program) {
  std::set<std::int32_t> bodies;
  for (const StepFunction& function : program.functions) {
    for (const StepInstruction& in : function.instructions) {
      if (in.ends_early) bodies.insert(in.target);
    }
  }
  return bodies;
}

/// `tests_condition`: the device of the condition that the function gives reads it at the end.
void separate_devices(const StepProgram& program, StepFunction& function, StepEffects& effects,
                      bool tests_condition) {
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
    if (!tests_condition) continue;
    const std::int32_t slot = function.num_inputs;
    streams.add({argument_device(function, slot)},
                {{{AccessSpace::Kind::Argument, slot}, 0, 1, false}});
  }
  function.streams = streams.finish();
  const auto count = static_cast<std::int32_t>(function.instructions.size());
  for (std::vector<StreamStep>& stream : function.streams) {
    // The test itself is the loop's.
    std::erase(stream, StreamStep{StreamStep::Kind::Run, count});
  }
  function.carried_signals = streams.carried_signals();
}

}  // namespace

void separate_devices(StepProgram& program) {
  StepEffects effects(program);
  const std::set<std::int32_t> tested = tested_bodies(program);
  for (std::size_t i = 0; i < program.functions.size(); ++i) {
    StepFunction& function = program.functions[i];
    const bool is_tested = tested.contains(static_cast<std::int32_t>(i));
    if (function.devices.size() > 1) separate_devices(program, function, effects, is_tested);
  }
}

}  // namespace pando
