#include "pando/runtime/executor.hpp"

#include <algorithm>
#include <optional>

#include "pando/base/float_state.hpp"

namespace pando {

Executor::Executor(const ReplicaParts& parts, VirtualDevice& device)
    : parts_(parts),
      prepared_(parts.prepared),
      device_(device),
      memory_(parts.memory),
      profile_(parts.profile),
      resolved_(prepared_.program().functions.size()),
      pointers_(prepared_.num_pointers()) {
  for (const std::int32_t entry : prepared_.program().entry_functions()) resolve(entry);
}

void Executor::resolve(int entry_function) {
  const PreparedFunction& prepared = prepared_.function(entry_function);
  resolved_[static_cast<std::size_t>(entry_function)].resize(
      static_cast<std::size_t>(prepared.num_operands));
  if (prepared.device >= 0) {
    if (prepared.device != device_.index()) return;
    for (const PreparedInstruction& p : prepared.instructions) resolve(entry_function, p);
    return;
  }
  const std::vector<StreamStep>* stream =
      prepared.streams[static_cast<std::size_t>(device_.index())];
  if (stream == nullptr) return;
  for (const StreamStep& step : *stream) {
    if (step.kind != StreamStep::Kind::Run) continue;
    resolve(entry_function, prepared.instructions[static_cast<std::size_t>(step.index)]);
  }
}

void Executor::resolve(int entry_function, const PreparedInstruction& p) {
  std::byte** pointer =
      resolved_[static_cast<std::size_t>(entry_function)].data() + p.first_operand;
  for (const OperandRef& ref : p.instruction->operands) {
    if (ref.space == OperandRef::Space::Row) {
      parts_.memory.rows().follow(ref.slot, ref.offset, pointer);
    } else {
      *pointer = memory_.address(ref, memory_.frames(), nullptr);
    }
    ++pointer;
  }
}

void Executor::run(int entry_function) {
  std::optional<FlushDenormals> flush;
  if (parts_.flush_denormals) flush.emplace();
  run_function(entry_function, memory_.frames(), nullptr);
  device_.finish();
}

void Executor::run_function(int function, std::byte* const* frames, std::byte* const* arguments) {
  const PreparedFunction& prepared = prepared_.function(function);
  const std::vector<std::byte*>& resolved = resolved_[static_cast<std::size_t>(function)];
  const Activation running{function, prepared, frames, arguments,
                           resolved.empty() ? nullptr : resolved.data()};
  if (prepared.device >= 0) {
    if (prepared.device != device_.index()) return;
    for (std::size_t i = 0; i < prepared.instructions.size(); ++i) run_instruction(running, i);
    return;
  }
  const std::vector<StreamStep>* stream =
      prepared.streams[static_cast<std::size_t>(device_.index())];
  if (stream == nullptr) return;
  for (const StreamStep& step : *stream) {
    switch (step.kind) {
      case StreamStep::Kind::Run:
        run_instruction(running, static_cast<std::size_t>(step.index));
        break;
      case StreamStep::Kind::Signal:
        parts_.signals->signal(device_.index(), step.index);
        break;
      case StreamStep::Kind::Wait:
        parts_.signals->wait(device_.index(), step.index);
        break;
    }
  }
}

void Executor::run_instruction(const Activation& running, std::size_t index) {
  const PreparedInstruction& p = running.prepared.instructions[index];
  std::byte* const* pointers = nullptr;
  if (running.resolved != nullptr) {
    pointers = running.resolved + p.first_operand;
  } else {
    std::byte** operands = pointers_.data() + p.first_pointer;
    const OperandRef* refs = p.instruction->operands.data();
    for (int k = 0; k < p.num_operands; ++k) {
      operands[k] = memory_.address(refs[k], running.frames, running.arguments);
    }
    pointers = operands;
  }
  device_.stop().poll();
  if (profile_ == nullptr) return execute(p, pointers, running.frames);
  profile_->begin(device_.index(), running.function, index);
  execute(p, pointers, running.frames);
  device_.finish();  // else its time would be that of the call
  profile_->end(device_.index());
}

void Executor::run_kernel(const PreparedInstruction& p, std::byte* const* operands) {
  if (parts_.finite_checks == nullptr) return start_kernel(p, operands);
  const GivenToKernel given = parts_.finite_checks->given_to(*p.instruction, operands);
  start_kernel(p, operands);
  parts_.finite_checks->check(*p.instruction, operands, given);
}

void Executor::start_kernel(const PreparedInstruction& p, std::byte* const* operands) {
  std::byte* scratch = p.has_scratch ? operands[p.num_operands - 1] : nullptr;
  if (p.host_kernel != nullptr) return p.host_kernel->run(operands, scratch);
  const auto count = static_cast<std::size_t>(p.num_operands - (p.has_scratch ? 1 : 0));
  device_.queue().run(*p.kernel, {operands, count}, scratch);
}

void Executor::execute(const PreparedInstruction& p, std::byte* const* operands,
                       std::byte* const* frames) {
  const Instruction& instruction = *p.instruction;
  switch (instruction.kind) {
    case Instruction::Kind::Kernel:
      run_kernel(p, operands);
      break;
    case Instruction::Kind::Call:
      run_function(instruction.target, callee_frames(p, frames), operands);
      break;
    case Instruction::Kind::Loop:
      run_loop(p, operands, frames);
      break;
    case Instruction::Kind::If:
      run_if(p, operands, frames);
      break;
    case Instruction::Kind::HostLoad:
      parts_.host.load(p, operands[0], device_);
      break;
    case Instruction::Kind::HostStore:
      parts_.host.store(p, operands[0], device_);
      break;
    case Instruction::Kind::RemoteLoad:
    case Instruction::Kind::RemoteLoadStart:
    case Instruction::Kind::RemoteLoadWait:
    case Instruction::Kind::RemoteStore:
      parts_.remote.run(p, operands, device_);
      break;
    case Instruction::Kind::Copy:
      device_.queue().copy(operands[0], operands[1], p.bytes, CopyKind::WithinDevice);
      break;
    case Instruction::Kind::Send:
      break;  // the signal behind it carries the point of the queue that the receiver waits for
    case Instruction::Kind::Receive:
      device_.queue().copy(operands[0], operands[1], p.bytes, CopyKind::BetweenDevices);
      break;
    case Instruction::Kind::Print:
      parts_.host.print(instruction, operands[0], device_);
      break;
    case Instruction::Kind::HostCall:
      parts_.host.call(instruction, operands, device_);
      break;
    case Instruction::Kind::Collective:
      parts_.collectives.run(static_cast<std::size_t>(instruction.target), operands[0], operands[1],
                             device_);
      break;
  }
}

std::byte* const* Executor::callee_frames(const PreparedInstruction& call,
                                          std::byte* const* frames) {
  const std::vector<std::int64_t>& offsets = call.instruction->callee_frames;
  std::byte** result = pointers_.data() + call.first_frame;
  for (std::size_t d = 0; d < offsets.size(); ++d) result[d] = frames[d] + offsets[d];
  return result;
}

void Executor::run_loop(const PreparedInstruction& prepared, std::byte* const* operands,
                        std::byte* const* frames) {
  const Instruction& loop = *prepared.instruction;
  const auto carried = static_cast<std::size_t>(loop.num_carried);
  std::byte* const* buffers_a = operands + 3;
  std::byte* const* buffers_b = buffers_a + carried;
  std::byte* const* others = buffers_b + carried;
  const std::size_t num_others = loop.operands.size() - 3 - 2 * carried;
  std::byte** arguments = arguments_of(prepared);
  const Function& body = prepared_.program().functions[static_cast<std::size_t>(loop.target)];
  std::byte* const* body_frames = callee_frames(prepared, frames);
  ProgramMemory::LoopCounter counter{operands[0], operands[1]};
  // Devices count for themselves.
  if (prepared.counter >= 0) counter = memory_.loop_counter(device_.index(), prepared.counter);
  Queue& queue = device_.queue();
  const bool has_signals = loop.count > 0 && !body.carried_signals.empty();
  if (has_signals) parts_.signals->before_loop(body, device_.index());
  // The last of a known number of iterations writes A, of an unknown one the first reads it.
  const std::int64_t parity = loop.ends_early ? 0 : loop.count;
  std::int64_t i = 0;
  for (; i < loop.count && (!loop.ends_early || goes_on(loop, operands)); ++i) {
    queue.write(counter.iterator, static_cast<std::int32_t>(i));
    queue.write(counter.condition, std::byte{1});
    const bool reads_a = (parity - i) % 2 == 0;
    std::size_t n = 0;
    arguments[n++] = counter.iterator;
    arguments[n++] = counter.condition;
    for (std::size_t k = 0; k < carried; ++k)
      arguments[n++] = reads_a ? buffers_a[k] : buffers_b[k];
    for (std::size_t k = 0; k < num_others; ++k) arguments[n++] = others[k];
    arguments[n++] = operands[2];
    for (std::size_t k = 0; k < carried; ++k)
      arguments[n++] = reads_a ? buffers_b[k] : buffers_a[k];
    run_function(loop.target, body_frames, arguments);
  }
  if (has_signals) parts_.signals->after_loop(body, device_.index());
  if (!loop.ends_early || i % 2 == 0) return;
  // Other devices may still read what is overwritten here.
  if (body.devices.size() > 1) parts_.signals->meet(body.devices, device_.index());
  collect_results(loop, operands);
}

bool Executor::goes_on(const Instruction& loop, std::byte* const* operands) {
  const Function& body = prepared_.program().functions[static_cast<std::size_t>(loop.target)];
  const int decider = loop.other_target;
  if (device_.index() != decider) return parts_.signals->decision(device_.index(), decider);
  device_.stop().poll();
  const bool yes = device_.queue().read<std::byte>(operands[2], device_.check()) != std::byte{0};
  for (const std::int32_t other : body.devices) {
    if (other != decider) parts_.signals->decide(decider, other, yes);
  }
  return yes;
}

void Executor::collect_results(const Instruction& loop, std::byte* const* operands) {
  const Function& body = prepared_.program().functions[static_cast<std::size_t>(loop.target)];
  const auto carried = static_cast<std::size_t>(loop.num_carried);
  for (std::size_t k = 0; k < carried; ++k) {
    // A device that runs nothing of the loop leaves its values to the first that does.
    const std::int32_t owner = loop.operands[3 + k].device;
    const bool runs = std::binary_search(body.devices.begin(), body.devices.end(), owner);
    if (device_.index() != (runs ? owner : body.devices.front())) continue;
    device_.queue().copy(operands[3 + carried + k], operands[3 + k],
                         static_cast<std::size_t>(loop.carried_bytes[k]), CopyKind::WithinDevice);
  }
}

bool Executor::condition_of(const PreparedInstruction& branch, std::byte* const* operands) const {
  int position = 0;
  if (!branch.conditions.empty()) {
    position = branch.conditions[static_cast<std::size_t>(device_.index())];
  }
  return device_.queue().read<std::byte>(operands[position], device_.check()) != std::byte{0};
}

void Executor::run_if(const PreparedInstruction& prepared, std::byte* const* operands,
                      std::byte* const* frames) {
  const Instruction& branch = *prepared.instruction;
  const auto then_count = static_cast<std::size_t>(branch.count);
  const bool taken = condition_of(prepared, operands);
  const int function = taken ? branch.target : branch.other_target;
  const std::vector<Function>& functions = prepared_.program().functions;
  const auto& then_function = functions[static_cast<std::size_t>(branch.target)];
  const auto& chosen = functions[static_cast<std::size_t>(function)];
  const std::size_t num_outputs =
      static_cast<std::size_t>(then_function.num_arguments) - then_count;
  const std::size_t num_inputs = static_cast<std::size_t>(chosen.num_arguments) - num_outputs;
  const auto conditions = static_cast<std::size_t>(prepared.num_conditions);
  const std::size_t first_input = taken ? conditions : conditions + then_count;
  const std::size_t first_output = branch.operands.size() - num_outputs;
  std::byte** arguments = arguments_of(prepared);
  std::copy_n(operands + first_input, num_inputs, arguments);
  std::copy_n(operands + first_output, num_outputs, arguments + num_inputs);
  run_function(function, callee_frames(prepared, frames), arguments);
}

}  // namespace pando
