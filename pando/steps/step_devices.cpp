#include "pando/steps/step_devices.hpp"

#include <algorithm>
#include <iterator>

#include "pando/base/error.hpp"

namespace pando {
namespace {

const StepFunction& function_at(const StepProgram& program, std::int32_t index) {
  return program.functions[static_cast<std::size_t>(index)];
}

}  // namespace

std::vector<std::int32_t> devices_of(const StepProgram& program,
                                     const StepInstruction& instruction) {
  if (!instruction.is_call()) return {instruction.device};
  const std::vector<std::int32_t>& devices = function_at(program, instruction.target).devices;
  if (instruction.kind != Instruction::Kind::If) return devices;
  const std::vector<std::int32_t>& others = function_at(program, instruction.other_target).devices;
  std::vector<std::int32_t> all;
  std::set_union(devices.begin(), devices.end(), others.begin(), others.end(),
                 std::back_inserter(all));
  return all;
}

std::vector<PassedArgument> passed_arguments(const StepProgram& program,
                                             const StepInstruction& call) {
  std::vector<PassedArgument> passed;
  passed.reserve(call.operands.size());
  const auto add = [&](std::int32_t function, std::int32_t first, std::int32_t end) {
    for (std::int32_t slot = first; slot < end; ++slot) passed.push_back({function, slot});
  };
  const StepFunction& callee = function_at(program, call.target);
  if (call.kind == Instruction::Kind::Call) {
    add(call.target, 0, callee.num_arguments);
  } else if (call.kind == Instruction::Kind::Loop) {
    const auto carried = static_cast<std::int32_t>(call.num_carried);
    add(call.target, 0, 2);
    add(call.target, callee.num_inputs, callee.num_inputs + 1);
    add(call.target, 2, 2 + carried);
    add(call.target, 2, 2 + carried);
    add(call.target, 2 + carried, callee.num_inputs);
  } else {
    const StepFunction& otherwise = function_at(program, call.other_target);
    const std::size_t arguments =
        static_cast<std::size_t>(callee.num_arguments + otherwise.num_inputs);
    passed.resize(call.operands.size() - std::min(call.operands.size(), arguments));
    add(call.target, 0, callee.num_inputs);
    add(call.other_target, 0, otherwise.num_inputs);
    add(call.target, callee.num_inputs, callee.num_arguments);
  }
  return passed;
}

std::int32_t argument_device(const StepFunction& function, std::int32_t slot) {
  const auto storage = std::find_if(
      function.storages.begin(), function.storages.end(),
      [&](const Storage& s) { return s.kind == Storage::Kind::Argument && s.slot == slot; });
  internal_check(storage != function.storages.end(), "an argument has no storage");
  // Where devices share memory it may lie in that of one that does not run the function.
  const auto& devices = function.devices;
  const bool runs = std::binary_search(devices.begin(), devices.end(), storage->device);
  return runs ? storage->device : devices.front();
}

bool is_on_every_device(const StepFunction& function, std::int32_t storage) {
  const Storage& s = function.storages[static_cast<std::size_t>(storage)];
  return function.num_carried.has_value() && function.devices.size() > 1 &&
         s.kind == Storage::Kind::Argument && s.slot < 2;
}

}  // namespace pando
