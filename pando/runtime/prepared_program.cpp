#include "pando/runtime/prepared_program.hpp"

#include <algorithm>

#include "pando/program/target.hpp"

namespace pando {

PreparedProgram::PreparedProgram(const Program& program, Target& target, bool queues_are_direct)
    : program_(program), queues_are_direct_(queues_are_direct) {
  for (const KernelSpec& spec : program.kernels) kernels_.push_back(target.prepare(spec));
  functions_.reserve(program.functions.size());
  for (const Function& function : program.functions) prepare(function);
}

void PreparedProgram::prepare(const Function& function) {
  PreparedFunction& prepared = functions_.emplace_back();
  prepared.instructions.reserve(function.instructions.size());
  std::size_t most_pointers = 0;
  for (const Instruction& instruction : function.instructions) {
    PreparedInstruction& p = prepared.instructions.emplace_back(prepare(instruction));
    p.first_operand = prepared.num_operands;
    prepared.num_operands += p.num_operands;
    const std::size_t pointers = pointers_of(instruction);
    p.first_frame = p.first_pointer + static_cast<int>(pointers);
    most_pointers = std::max(most_pointers, pointers + instruction.callee_frames.size());
  }
  num_pointers_ += most_pointers;
  prepared.device = function.devices.front();
  if (function.streams.empty()) return;
  prepared.device = -1;
  prepared.streams.resize(static_cast<std::size_t>(program_.devices), nullptr);
  for (std::size_t i = 0; i < function.streams.size(); ++i) {
    prepared.streams[static_cast<std::size_t>(function.devices[i])] = &function.streams[i];
  }
}

PreparedInstruction PreparedProgram::prepare(const Instruction& instruction) {
  using Kind = Instruction::Kind;
  PreparedInstruction p;
  p.instruction = &instruction;
  p.num_operands = static_cast<int>(instruction.operands.size());
  p.first_pointer = static_cast<int>(num_pointers_);
  num_rows_ = std::max(num_rows_, static_cast<std::size_t>(instruction.row + 1));
  const auto target = static_cast<std::size_t>(instruction.target);
  switch (instruction.kind) {
    case Kind::Kernel:
      p.kernel = kernels_[target].get();
      p.has_scratch = p.kernel->scratch_bytes() > 0;
      if (queues_are_direct_) p.host_kernel = &dynamic_cast<const HostKernel&>(*p.kernel);
      break;
    case Kind::Loop:
      if (program_.functions[target].devices.size() > 1) p.counter = num_loop_counters_++;
      break;
    case Kind::HostLoad:
    case Kind::HostStore:
      p.bytes = static_cast<std::size_t>(program_.streams[target].bytes());
      break;
    case Kind::RemoteLoadStart:
      num_transfers_ =
          std::max(num_transfers_, static_cast<std::size_t>(instruction.other_target) + 1);
      [[fallthrough]];
    case Kind::RemoteLoad:
    case Kind::RemoteLoadWait:
    case Kind::RemoteStore:
      p.bytes = static_cast<std::size_t>(program_.remote_buffers[target].slot_bytes());
      break;
    case Kind::Copy:
    case Kind::Receive:
      p.bytes = static_cast<std::size_t>(instruction.count);
      break;
    case Kind::If:
      prepare_branch(p);
      break;
    case Kind::Call:
    case Kind::Print:
    case Kind::HostCall:
    case Kind::Collective:
    case Kind::Send:
      break;
  }
  return p;
}

void PreparedProgram::prepare_branch(PreparedInstruction& p) const {
  const Instruction& branch = *p.instruction;
  const Function& then = program_.functions[static_cast<std::size_t>(branch.target)];
  const Function& otherwise = program_.functions[static_cast<std::size_t>(branch.other_target)];
  p.num_conditions =
      p.num_operands - static_cast<int>(branch.count) - static_cast<int>(otherwise.num_arguments);
  if (p.num_conditions == 1) return;
  // One for each device that runs a part of it, in the order of the devices.
  int next = 0;
  for (std::int32_t device = 0; device < program_.devices; ++device) {
    const auto runs = [&](const Function& function) {
      return std::binary_search(function.devices.begin(), function.devices.end(), device);
    };
    p.conditions.push_back(next);
    if (runs(then) || runs(otherwise)) ++next;
  }
}

std::size_t PreparedProgram::pointers_of(const Instruction& instruction) const {
  const auto arguments = [&](std::int32_t function) {
    return program_.functions[static_cast<std::size_t>(function)].num_arguments;
  };
  std::int32_t passed = 0;
  if (instruction.kind == Instruction::Kind::Loop) {
    passed = arguments(instruction.target);
  } else if (instruction.kind == Instruction::Kind::If) {
    passed = std::max(arguments(instruction.target), arguments(instruction.other_target));
  }
  return instruction.operands.size() + static_cast<std::size_t>(passed);
}

}  // namespace pando
