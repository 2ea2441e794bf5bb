#include "pando/compile/step_effects.hpp"

#include <algorithm>

namespace pando {
namespace {

using Kind = Instruction::Kind;

AccessSpace effect(Instruction::Kind kind, std::int32_t target) {
  return {AccessSpace::Kind::Effect, static_cast<std::int32_t>(kind), target};
}

/// The instruction calls nothing.
std::vector<AccessSpace> own_effects(const StepInstruction& instruction) {
  switch (instruction.kind) {
    case Kind::Kernel:
    case Kind::Copy:
    case Kind::Send:
    case Kind::Receive:
    case Kind::RemoteLoadWait:
    case Kind::Call:
    case Kind::Loop:
    case Kind::If:
      return {};
    case Kind::HostLoad:
    case Kind::HostStore:
      return {effect(Kind::HostLoad, instruction.target)};
    case Kind::RemoteLoad:
    case Kind::RemoteLoadStart:
      return {effect(Kind::RemoteLoad, instruction.target)};
    case Kind::RemoteStore:
      return {effect(Kind::RemoteLoad, instruction.target),
              effect(Kind::RemoteStore, instruction.target)};
    case Kind::Print:
    case Kind::HostCall:
    case Kind::Collective:  // all replicas meet in one order, whichever device does it
      return {effect(instruction.kind, 0)};
  }
  return {};
}

}  // namespace

const std::set<AccessSpace>& StepEffects::of_function(std::int32_t function) {
  const auto index = static_cast<std::size_t>(function);
  while (functions_.size() <= index) {
    std::set<AccessSpace> effects;
    for (const StepInstruction& in : program_.functions[functions_.size()].instructions) {
      effects.merge(of(in));
    }
    functions_.push_back(std::move(effects));
  }
  return functions_[index];
}

std::set<AccessSpace> StepEffects::of(const StepInstruction& instruction) {
  if (!instruction.is_call()) {
    const std::vector<AccessSpace> own = own_effects(instruction);
    return {own.begin(), own.end()};
  }
  std::set<AccessSpace> effects = of_function(instruction.target);
  if (instruction.kind == Instruction::Kind::If) {
    const std::set<AccessSpace>& others = of_function(instruction.other_target);
    effects.insert(others.begin(), others.end());
  }
  return effects;
}

bool StepEffects::has(const StepInstruction& instruction, const AccessSpace& effect) {
  if (instruction.is_call()) {
    return of_function(instruction.target).contains(effect) ||
           (instruction.kind == Instruction::Kind::If &&
            of_function(instruction.other_target).contains(effect));
  }
  const std::vector<AccessSpace> own = own_effects(instruction);
  return std::find(own.begin(), own.end(), effect) != own.end();
}

bool StepEffects::may_transfer_row(const StepInstruction& other, const StepInstruction& load,
                                   Instruction::Kind kind) {
  if (other.constant_row && load.constant_row && *other.constant_row != *load.constant_row) {
    return false;
  }
  return has(other, effect(kind, load.target));
}

}  // namespace pando
