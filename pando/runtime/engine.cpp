#include "pando/runtime/engine.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/base/float_state.hpp"
#include "pando/base/spin.hpp"

namespace pando {
namespace {

constexpr int kInstructionsPerPoll = 16;
constexpr double kSecondsPerPoll = 0.02;

/// The iterator of a loop and its condition, in lines of their own.
constexpr std::int64_t kCounterBytes = 128;
constexpr std::int64_t kConditionOffset = 64;

std::int64_t frame_bytes_of(const Program& program) {
  std::int64_t bytes = 0;
  for (int entry : {program.main_function, program.weights_from_host_function,
                    program.weights_to_host_function}) {
    if (entry < 0) continue;
    bytes = std::max(bytes, program.functions[static_cast<std::size_t>(entry)].frame_bytes);
  }
  return bytes;
}

}  // namespace

Engine::Engine(const Program& program, Target& target, Device& device, bool profile,
               std::function<bool()> should_stop, Communicator* communicator, RemoteTier remote)
    : program_(program),
      device_(device),
      kernels_use_host_memory_(target.kernels_use_host_memory()),
      memory_(device.allocate(program.persistent_bytes + frame_bytes_of(program), "device memory")),
      persistent_(memory_->data()),
      frame_(persistent_ + program.persistent_bytes),
      remote_(std::move(remote.memories)),
      communicator_(communicator),
      should_stop_(std::move(should_stop)) {
  if (!program.collectives.empty()) {
    internal_check(communicator != nullptr, "a program with collectives needs a communicator");
    collectives_ = std::make_unique<ProgramCollectives>(program, *communicator);
  }
  if (profile) {
    profile_ = std::make_unique<RunProfile>(program, remote_is_slow() ? remote.io_threads : 0);
  }
  for (const KernelSpec& spec : program.kernels) kernels_.push_back(target.prepare(spec));
  prepare_remote(remote);
  prepare_queues();
  functions_.resize(program.functions.size());
  pointers_.resize(static_cast<std::size_t>(program.devices));
  for (std::size_t i = 0; i < functions_.size(); ++i) prepare_function(i);
  if (num_counters_ > 0) {
    loop_counters_ = device.allocate(num_counters_ * kCounterBytes, "iterators of loops");
  }
  resolve_entry(program.main_function);
  resolve_entry(program.weights_from_host_function);
  resolve_entry(program.weights_to_host_function);
  if (program.devices > 1) prepare_team();
}

void Engine::prepare_queues() {
  signalled_ = std::vector<std::atomic<Queue::Event>>(static_cast<std::size_t>(program_.devices));
  for (int device = 0; device < program_.devices; ++device) {
    queues_.push_back(device_.make_queue());
    to_host_.emplace_back(device_);
    from_host_.emplace_back(device_);
    stop_checks_.emplace_back([this, device] { check_stop(device); });
  }
}

void Engine::prepare_team() {
  const auto on_failure = [this](const std::exception_ptr& error) {
    if (communicator_ != nullptr) communicator_->fail(error);
  };
  device_team_ = std::make_unique<DeviceTeam>(static_cast<int>(program_.devices),
                                              team_spins(program_.devices * program_.replicas),
                                              should_stop_, on_failure);
}

bool Engine::remote_is_slow() const {
  return std::any_of(remote_.begin(), remote_.end(),
                     [](const auto& memory) { return memory->is_slow(); });
}

void Engine::prepare_remote(const RemoteTier& tier) {
  if (remote_.empty()) {
    std::vector<const RemoteBufferDesc*> buffers;
    buffers.reserve(program_.remote_buffers.size());
    for (const RemoteBufferDesc& buffer : program_.remote_buffers) buffers.push_back(&buffer);
    remote_ = make_ram_memories(buffers, device_);
  }
  internal_check(remote_.size() == program_.remote_buffers.size(),
                 "one memory per remote buffer is wanted");
  if (remote_is_slow()) {
    io_ = std::make_unique<IoQueue>(tier.io_threads, tier.staging_bytes, profile_.get());
  }
  for (const Function& function : program_.functions) {
    for (const Instruction& instruction : function.instructions) {
      rows_.resize(std::max(rows_.size(), static_cast<std::size_t>(instruction.row + 1)));
      if (instruction.kind != Instruction::Kind::RemoteLoadStart) continue;
      const auto transfer = static_cast<std::size_t>(instruction.other_target);
      tickets_.resize(std::max(tickets_.size(), transfer + 1), 0);
      while (loads_.size() < tickets_.size()) loads_.emplace_back(device_);
    }
  }
}

void Engine::prepare_function(std::size_t index) {
  const Function& function = program_.functions[index];
  PreparedFunction& prepared = functions_[index];
  const int first_pointer = static_cast<int>(pointers_.front().size());
  int operands = 0, most_pointers = 0;
  for (const Instruction& instruction : function.instructions) {
    PreparedInstruction p;
    p.instruction = &instruction;
    p.first_operand = operands;
    p.num_operands = static_cast<int>(instruction.operands.size());
    p.first_pointer = first_pointer;
    most_pointers = std::max(most_pointers, pointers_of(instruction));
    operands += p.num_operands;
    const auto target = static_cast<std::size_t>(instruction.target);
    if (instruction.kind == Instruction::Kind::Kernel) {
      p.kernel = kernels_[target].get();
      p.has_scratch = p.kernel->scratch_bytes() > 0;
      if (queue_of(0).is_direct()) p.host_kernel = &dynamic_cast<const HostKernel&>(*p.kernel);
    } else if (instruction.kind == Instruction::Kind::HostLoad ||
               instruction.kind == Instruction::Kind::HostStore) {
      p.stream_bytes = static_cast<std::size_t>(program_.streams[target].bytes());
    } else if (instruction.kind == Instruction::Kind::Loop) {
      if (program_.functions[target].devices.size() > 1) {
        p.first_counter = num_counters_;
        num_counters_ += static_cast<std::int32_t>(program_.devices);
      }
    } else if (instruction.kind == Instruction::Kind::RemoteLoad ||
               instruction.kind == Instruction::Kind::RemoteLoadStart ||
               instruction.kind == Instruction::Kind::RemoteLoadWait ||
               instruction.kind == Instruction::Kind::RemoteStore) {
      p.stream_bytes = remote_[target]->slot_bytes();
    }
    prepared.instructions.push_back(p);
  }
  for (auto& pointers : pointers_)
    pointers.resize(pointers.size() + static_cast<std::size_t>(most_pointers));
  if (function.streams.empty()) return;
  prepared.streams.resize(static_cast<std::size_t>(program_.devices), nullptr);
  for (std::size_t i = 0; i < function.streams.size(); ++i) {
    prepared.streams[static_cast<std::size_t>(function.devices[i])] = &function.streams[i];
  }
}

/// Counts its operands and the arguments that it passes on.
int Engine::pointers_of(const Instruction& instruction) const {
  const auto arguments = [&](std::int32_t function) {
    return program_.functions[static_cast<std::size_t>(function)].num_arguments;
  };
  std::int32_t passed = 0;
  if (instruction.kind == Instruction::Kind::Loop) {
    passed = arguments(instruction.target);
  } else if (instruction.kind == Instruction::Kind::If) {
    passed = std::max(arguments(instruction.target), arguments(instruction.other_target));
  }
  return static_cast<int>(instruction.operands.size()) + passed;
}

void Engine::resolve_entry(int function) {
  if (function < 0) return;
  const auto index = static_cast<std::size_t>(function);
  PreparedFunction& prepared = functions_[index];
  const std::vector<Instruction>& instructions = program_.functions[index].instructions;
  for (const Instruction& instruction : instructions) {
    for (const OperandRef& ref : instruction.operands) {
      const bool is_row = ref.space == OperandRef::Space::Row;
      if (is_row) {
        rows_[static_cast<std::size_t>(ref.slot)].uses.push_back(
            {index, prepared.pointers.size(), ref.offset});
      }
      prepared.pointers.push_back(is_row ? nullptr : address(ref, frame_, nullptr));
    }
  }
  prepared.resolved = true;
}

std::byte* Engine::address(const OperandRef& ref, std::byte* frame,
                           std::byte* const* arguments) const {
  switch (ref.space) {
    case OperandRef::Space::Frame:
      return frame + ref.offset;
    case OperandRef::Space::Argument:
      return arguments[ref.slot] + ref.offset;
    case OperandRef::Space::Global:
      return persistent_ + ref.offset;
    case OperandRef::Space::Row:
      return rows_[static_cast<std::size_t>(ref.slot)].place + ref.offset;
    case OperandRef::Space::None:
      break;
  }
  return nullptr;
}

void Engine::run(const std::vector<StreamCursor>& streams, bool outputs_apart) {
  streams_ = streams;
  may_read_host_in_place_ = outputs_apart && kernels_use_host_memory_;
  run_entry(program_.main_function);
}

void Engine::run_weights_from_host() { run_entry(program_.weights_from_host_function); }
void Engine::run_weights_to_host() { run_entry(program_.weights_to_host_function); }

void Engine::run_entry(int function) {
  positions_.assign(program_.streams.size(), 0);
  if (function < 0) return;
  const auto run_device = [&](int device) {
    const FlushDenormals flush;
    run_function(function, frame_, nullptr, device);
    finish_device(device);
  };
  if (profile_ != nullptr) profile_->begin_run(function == program_.main_function);
  if (io_ != nullptr) io_->retry();
  double finishing_since = 0;
  try {
    if (device_team_ == nullptr) {
      run_device(0);
    } else {
      device_team_->run(run_device);
    }
    if (io_ != nullptr) {
      finishing_since = steady_seconds();
      io_->finish(check_of(0));
    }
  } catch (...) {
    // Work under way uses memory that is no longer its own.
    for (const auto& queue : queues_) queue->abandon();
    if (io_ != nullptr) io_->abandon();
    if (profile_ != nullptr) profile_->end_run(0);
    throw;
  }
  if (profile_ != nullptr) {
    profile_->end_run(io_ == nullptr ? 0 : steady_seconds() - finishing_since);
  }
}

void Engine::run_function(int function, std::byte* frame, std::byte* const* arguments, int device) {
  const auto index = static_cast<std::size_t>(function);
  const PreparedFunction& prepared = functions_[index];
  if (prepared.streams.empty()) {
    if (program_.functions[index].devices.front() != device) return;
    for (std::size_t i = 0; i < prepared.instructions.size(); ++i) {
      run_instruction(function, i, frame, arguments, device);
    }
    return;
  }
  const std::vector<StreamStep>* stream = prepared.streams[static_cast<std::size_t>(device)];
  if (stream == nullptr) return;
  for (const StreamStep& step : *stream) {
    switch (step.kind) {
      case StreamStep::Kind::Run:
        run_instruction(function, static_cast<std::size_t>(step.index), frame, arguments, device);
        break;
      case StreamStep::Kind::Signal:
        signal_device(device, step.index);
        break;
      case StreamStep::Kind::Wait:
        wait_for_device(device, step.index);
        break;
    }
  }
}

void Engine::run_instruction(int function, std::size_t index, std::byte* frame,
                             std::byte* const* arguments, int device) {
  const PreparedFunction& prepared = functions_[static_cast<std::size_t>(function)];
  const PreparedInstruction& p = prepared.instructions[index];
  std::byte* const* pointers = nullptr;
  if (prepared.resolved) {
    pointers = prepared.pointers.data() + p.first_operand;
  } else {
    std::byte** operands = pointers_[static_cast<std::size_t>(device)].data() + p.first_pointer;
    for (int k = 0; k < p.num_operands; ++k) {
      operands[k] = address(p.instruction->operands[static_cast<std::size_t>(k)], frame, arguments);
    }
    pointers = operands;
  }
  if (should_stop_ || device_team_ != nullptr) poll_stop(device);
  if (profile_ == nullptr) return execute(p, pointers, frame, device);
  profile_->begin(device, function, index);
  execute(p, pointers, frame, device);
  finish_device(device);  // else its time would be that of the call
  profile_->end(device);
}

void Engine::finish_device(int device) {
  Queue& queue = queue_of(device);
  if (!queue.is_direct()) queue.wait(queue.record(), check_of(device));
}

void Engine::signal_device(int device, int other) {
  Queue& queue = queue_of(device);
  if (!queue.is_direct()) signalled_[static_cast<std::size_t>(device)] = queue.record();
  device_team_->signal(device, other);
}

void Engine::take_signal(int device, int other) {
  device_team_->wait(device, other);
  Queue& queue = queue_of(device);
  // Perhaps a later point than this signal's: no circle, as that work was asked for before.
  if (!queue.is_direct()) {
    queue.wait_for(queue_of(other), signalled_[static_cast<std::size_t>(other)]);
  }
}

void Engine::wait_for_device(int device, int other) {
  if (profile_ == nullptr) return take_signal(device, other);
  const double start = steady_seconds();
  take_signal(device, other);
  profile_->exchanged(device, steady_seconds() - start);
}

void Engine::send_first_signals(const Function& body, int device) {
  for (const CarriedSignals& signals : body.carried_signals) {
    if (signals.from != device) continue;
    for (std::int32_t i = 0; i < signals.count; ++i) signal_device(device, signals.to);
  }
}

void Engine::take_last_signals(const Function& body, int device) {
  for (const CarriedSignals& signals : body.carried_signals) {
    if (signals.to != device) continue;
    for (std::int32_t i = 0; i < signals.count; ++i) wait_for_device(device, signals.from);
  }
}

void Engine::run_kernel(const PreparedInstruction& p, std::byte* const* operands, int device) {
  std::byte* scratch = p.has_scratch ? operands[p.num_operands - 1] : nullptr;
  if (p.host_kernel != nullptr) return p.host_kernel->run(operands, scratch);
  const auto count = static_cast<std::size_t>(p.num_operands - (p.has_scratch ? 1 : 0));
  queue_of(device).run(*p.kernel, {operands, count}, scratch);
}

void Engine::execute(const PreparedInstruction& p, std::byte* const* operands, std::byte* frame,
                     int device) {
  const Instruction& instruction = *p.instruction;
  switch (instruction.kind) {
    case Instruction::Kind::Kernel:
      run_kernel(p, operands, device);
      break;
    case Instruction::Kind::Call:
      run_function(instruction.target, frame + instruction.callee_frame, operands, device);
      break;
    case Instruction::Kind::Loop:
      run_loop(p, operands, frame, device);
      break;
    case Instruction::Kind::If:
      run_if(p, operands, frame, device);
      break;
    case Instruction::Kind::HostLoad:
    case Instruction::Kind::HostStore:
      move_host(p, operands[0], device);
      break;
    case Instruction::Kind::RemoteLoad:
    case Instruction::Kind::RemoteLoadStart:
    case Instruction::Kind::RemoteLoadWait:
    case Instruction::Kind::RemoteStore:
      timed_transfer(p, operands, device);
      break;
    case Instruction::Kind::Copy:
      queue_of(device).copy(operands[0], operands[1], static_cast<std::size_t>(instruction.count),
                            CopyKind::WithinDevice);
      break;
    case Instruction::Kind::Print:
      print(program_.prints[static_cast<std::size_t>(instruction.target)], operands[0], device);
      break;
    case Instruction::Kind::Collective:
      exchange(instruction, operands, device);
      break;
  }
}

void Engine::run_loop(const PreparedInstruction& prepared, std::byte* const* operands,
                      std::byte* frame, int device) {
  const Instruction& loop = *prepared.instruction;
  const auto carried = static_cast<std::size_t>(loop.num_carried);
  std::byte* const* buffers_a = operands + 3;
  std::byte* const* buffers_b = buffers_a + carried;
  std::byte* const* others = buffers_b + carried;
  const std::size_t num_others = loop.operands.size() - 3 - 2 * carried;
  std::byte** arguments = arguments_of(prepared, device);
  const Function& body = program_.functions[static_cast<std::size_t>(loop.target)];
  std::byte* iterator = operands[0];
  std::byte* condition = operands[1];
  if (prepared.first_counter >= 0) {
    // Devices count for themselves: each has an iterator and a condition of its own.
    iterator = loop_counters_->data() + (prepared.first_counter + device) * kCounterBytes;
    condition = iterator + kConditionOffset;
  }
  Queue& queue = queue_of(device);
  if (loop.count > 0) send_first_signals(body, device);
  for (std::int64_t i = 0; i < loop.count; ++i) {
    queue.write(iterator, static_cast<std::int32_t>(i));
    queue.write(condition, std::byte{1});
    const bool reads_a = (loop.count - i) % 2 == 0;
    std::size_t n = 0;
    arguments[n++] = iterator;
    arguments[n++] = condition;
    for (std::size_t k = 0; k < carried; ++k)
      arguments[n++] = reads_a ? buffers_a[k] : buffers_b[k];
    for (std::size_t k = 0; k < num_others; ++k) arguments[n++] = others[k];
    arguments[n++] = operands[2];
    for (std::size_t k = 0; k < carried; ++k)
      arguments[n++] = reads_a ? buffers_b[k] : buffers_a[k];
    run_function(loop.target, frame + loop.callee_frame, arguments, device);
  }
  if (loop.count > 0) take_last_signals(body, device);
}

void Engine::run_if(const PreparedInstruction& prepared, std::byte* const* operands,
                    std::byte* frame, int device) {
  const Instruction& branch = *prepared.instruction;
  const auto then_count = static_cast<std::size_t>(branch.count);
  const bool taken =
      queue_of(device).read<std::byte>(operands[0], check_of(device)) != std::byte{0};
  const int function = taken ? branch.target : branch.other_target;
  const auto& then_function = program_.functions[static_cast<std::size_t>(branch.target)];
  const auto& chosen = program_.functions[static_cast<std::size_t>(function)];
  const std::size_t num_outputs =
      static_cast<std::size_t>(then_function.num_arguments) - then_count;
  const std::size_t num_inputs = static_cast<std::size_t>(chosen.num_arguments) - num_outputs;
  const std::size_t first_input = taken ? 1 : 1 + then_count;
  const std::size_t first_output = branch.operands.size() - num_outputs;
  std::byte** arguments = arguments_of(prepared, device);
  std::copy_n(operands + first_input, num_inputs, arguments);
  std::copy_n(operands + first_output, num_outputs, arguments + num_inputs);
  run_function(function, frame + branch.callee_frame, arguments, device);
}

void Engine::check_stop(int device) const {
  if (device_team_ != nullptr && device_team_->stopped()) throw DeviceStopped();
  if (device == 0 && should_stop_ && should_stop_()) throw Interrupted();
}

void Engine::poll_stop(int device) {
  if (device_team_ != nullptr && device_team_->stopped()) throw DeviceStopped();
  if (device != 0 || !should_stop_) return;
  if (++polls_ < kInstructionsPerPoll) return;
  polls_ = 0;
  const double now = steady_seconds();
  if (now - last_poll_ < kSecondsPerPoll) return;
  last_poll_ = now;
  if (should_stop_()) throw Interrupted();
}

}  // namespace pando
