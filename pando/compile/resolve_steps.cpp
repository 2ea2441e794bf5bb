#include "pando/compile/resolve_steps.hpp"

#include "pando/base/error.hpp"
#include "pando/ir/loop_arguments.hpp"
#include "pando/steps/step_devices.hpp"

namespace pando {
namespace {

/// Where the storage is if its row does not lie in memory.
OperandRef own_place(const StepFunction& function, const StepOperand& operand) {
  using Space = OperandRef::Space;
  const Storage& storage = function.storage_of(operand);
  const auto device = static_cast<std::uint16_t>(storage.device);
  switch (storage.kind) {
    case Storage::Kind::Argument:
      return {Space::Argument, device, storage.slot, operand.offset};
    case Storage::Kind::Global:
      return {Space::Global, device, 0, storage.offset + operand.offset};
    case Storage::Kind::Local:
      break;
  }
  return {Space::Frame, device, 0, storage.offset + operand.offset};
}

OperandRef place(const StepFunction& function, const StepOperand& operand) {
  if (operand.storage < 0) return {};
  const Storage& storage = function.storage_of(operand);
  if (storage.row < 0) return own_place(function, operand);
  const auto device = static_cast<std::uint16_t>(storage.device);
  return {OperandRef::Space::Row, device, storage.row, operand.offset};
}

Instruction resolve(const StepFunction& function, const StepInstruction& step) {
  Instruction result;
  result.kind = step.kind;
  result.target = step.target;
  result.other_target = step.other_target;
  result.operands.reserve(step.operands.size());
  for (const StepOperand& operand : step.operands) {
    result.operands.push_back(place(function, operand));
  }
  if (step.row >= 0) {
    result.operands[result.destination()] = own_place(function, step.destination());
  }
  if (step.is_call()) result.callee_frames.resize(function.frame_bytes.size());
  for (const std::int32_t frame : step.callee_frames) {
    const Storage& storage = function.storage_of({frame});
    result.callee_frames[static_cast<std::size_t>(storage.device)] = storage.offset;
  }
  result.count = step.count;
  result.num_carried = step.num_carried;
  result.ends_early = step.ends_early;
  result.row = step.row;
  result.writes_row = step.writes_row;
  result.source = step.source;
  result.device = step.device;
  return result;
}

/// By slot: what the arguments of a function take.
std::vector<std::int64_t> argument_bytes(const StepFunction& function) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(function.num_arguments));
  for (const Storage& storage : function.storages) {
    if (storage.kind != Storage::Kind::Argument) continue;
    bytes[static_cast<std::size_t>(storage.slot)] = storage.bytes;
  }
  return bytes;
}

/// What the runtime needs of a loop that ends early.
void complete_loop(const StepProgram& program, Instruction& loop) {
  const auto body = static_cast<std::size_t>(loop.target);
  const std::vector<std::int64_t> bytes = argument_bytes(program.functions[body]);
  const auto first = bytes.begin() + kLoopControlInputs;
  loop.carried_bytes.assign(first, first + loop.num_carried);
  loop.other_target = argument_device(program.functions[body], program.functions[body].num_inputs);
}

Function resolve(const StepProgram& program, StepFunction& steps) {
  internal_check(steps.is_planned(), "a function must be planned before it is resolved");
  Function function;
  function.name = steps.name;
  function.instructions.reserve(steps.instructions.size());
  for (const StepInstruction& step : steps.instructions) {
    Instruction& in = function.instructions.emplace_back(resolve(steps, step));
    if (in.ends_early) complete_loop(program, in);
  }
  function.devices = steps.devices;
  function.streams = std::move(steps.streams);
  function.carried_signals = std::move(steps.carried_signals);
  function.frame_bytes = std::move(steps.frame_bytes);
  function.num_arguments = steps.num_arguments;
  return function;
}

}  // namespace

Program resolve(StepProgram& steps) {
  Program program = std::move(steps.tables);
  program.functions.reserve(steps.functions.size());
  for (StepFunction& function : steps.functions) {
    program.functions.push_back(resolve(steps, function));
  }
  return program;
}

}  // namespace pando
