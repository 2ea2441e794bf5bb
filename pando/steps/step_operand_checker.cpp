#include <algorithm>

#include "pando/steps/step_checker.hpp"
#include "pando/steps/step_devices.hpp"
#include "pando/steps/step_words.hpp"

namespace pando {

using Kind = Instruction::Kind;

namespace {

bool overlap(const StepOperand& a, const program_check::Extent& a_bytes, const StepOperand& b,
             const program_check::Extent& b_bytes) {
  return a.storage >= 0 && a.storage == b.storage &&
         a.offset + a_bytes.begin < b.offset + b_bytes.end &&
         b.offset + b_bytes.begin < a.offset + a_bytes.end;
}

}  // namespace

void OperandChecker::run() {
  for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
    at_ = static_cast<std::int32_t>(i);
    check(function_.instructions[i]);
  }
}

void OperandChecker::check(const StepInstruction& in) const {
  check_fields(in);
  check_target(in);
  for (const StepOperand& operand : in.operands) {
    if (operand.storage < 0) continue;
    require(static_cast<std::size_t>(operand.storage) < function_.storages.size(),
            "there is no storage %", operand.storage);
    const Storage& place = storage(operand.storage);
    require(operand.offset >= 0 && operand.offset <= place.bytes, "an operand begins ",
            operand.offset, " bytes into %", operand.storage, ", which has ", place.bytes);
    require(operand.read_only || place.is_writable, "it writes %", operand.storage,
            ", which is read_only");
    if (!in.is_call()) check_device(in, operand);
  }
  check_operands(in);
}

void OperandChecker::check_fields(const StepInstruction& in) const {
  const StepClauses clauses = clauses_of(in.kind);
  require(in.count >= 0 && in.count <= program_check::kMostBytes, "its count is ", in.count);
  require(in.count == 0 || !clauses.count.empty() || (clauses.is_transfer && in.count == 1),
          "it has no count");
  require(in.other_target == 0 || !clauses.other_target.empty(), "it has one target");
  require(in.num_carried == 0 || in.kind == Kind::Loop, "only loops carry values");
  require(!in.ends_early || in.kind == Kind::Loop, "only loops end early");
  require(!in.constant_row || clauses.is_transfer, "it has no row of a remote buffer");
  require(in.row == -1 || (in.row >= 0 && in.is_load()), "it is no load, so it has no row");
  require(in.in_place.empty() || in.kind == Kind::Kernel, "only kernels write over inputs");
  require(in.in_place_output == 0 || !in.in_place.empty(), "it writes over no input");
  require(!in.writes_row || (in.row >= 0 && in.kind == Kind::RemoteLoad),
          "only rows of remote buffers are written");
  require(in.callee_frames.empty() || in.is_call(), "it calls nothing, so it has no frame");
  require(in.source >= -1 && in.source < static_cast<std::int64_t>(program_.tables.sources.size()),
          "there is no source ", in.source);
  const auto& devices = function_.devices;
  require(in.device >= -1 && in.device < static_cast<std::int64_t>(program_.device_numbers.size()),
          "there is no device ", in.device);
  require(devices.empty() || std::binary_search(devices.begin(), devices.end(), in.device),
          "device ", in.device, " is none of the function's");
  for (const std::int32_t frame : in.callee_frames) {
    require(frame >= 0 && static_cast<std::size_t>(frame) < function_.storages.size(),
            "there is no storage %", frame);
    require(storage(frame).kind == Storage::Kind::Local, "the frame %", frame, " is not local");
  }
}

/// A receive names what the send on the other device sends.
void OperandChecker::check_device(const StepInstruction& in, const StepOperand& operand) const {
  const std::int32_t device = storage(operand.storage).device;
  const bool is_sent = in.kind == Kind::Receive && &operand == in.operands.data();
  if (is_sent || in.kind == Kind::Send || in.kind == Kind::Receive) {
    const std::int32_t wanted = is_sent ? in.target : in.device;
    return require(device == wanted, "wanted %", operand.storage, " on device ", wanted,
                   "; given on device ", device);
  }
  if (!separates_devices() || is_on_every_device(function_, operand.storage)) return;
  require(device == in.device, "it is on device ", in.device, " and uses %", operand.storage,
          " of device ", device);
}

/// Whether operands must lie where they are used.
bool OperandChecker::separates_devices() const {
  return function_.is_planned() && !program_.devices_share_memory;
}

void OperandChecker::check_target(const StepInstruction& in) const {
  const Program& tables = program_.tables;
  const auto require_target = [&](std::int32_t target, std::size_t count, const char* what) {
    require(target >= 0 && static_cast<std::size_t>(target) < count, "there is no ", what, " ",
            target);
  };
  switch (in.kind) {
    case Kind::Kernel:
      return require_target(in.target, tables.kernels.size(), "kernel");
    case Kind::If:
      require_target(in.other_target, index_, "function before this one with the number");
      [[fallthrough]];
    case Kind::Call:
    case Kind::Loop:
      return require_target(in.target, index_, "function before this one with the number");
    case Kind::HostLoad:
    case Kind::HostStore:
      return require_target(in.target, tables.streams.size(), "stream");
    case Kind::RemoteLoad:
    case Kind::RemoteStore:
    case Kind::RemoteLoadStart:
    case Kind::RemoteLoadWait:
      require(in.other_target >= 0, "a transfer below 0");
      return require_target(in.target, tables.remote_buffers.size(), "remote buffer");
    case Kind::Print:
      return require_target(in.target, tables.prints.size(), "print");
    case Kind::HostCall:
      return require_target(in.target, tables.host_calls.size(), "host call");
    case Kind::Collective:
      return require_target(in.target, tables.collectives.size(), "collective");
    case Kind::Send:
    case Kind::Receive:
      require(in.other_target >= 0, "a number below 0");
      return require_target(in.target, program_.device_numbers.size(), "device");
    case Kind::Copy:
      return;
  }
}

void OperandChecker::check_operands(const StepInstruction& in) const {
  switch (in.kind) {
    case Kind::Kernel:
      return check_kernel(in);
    case Kind::Call:
      return check_call(in);
    case Kind::Loop:
      return check_loop(in);
    case Kind::If:
      return check_branch(in);
    case Kind::Copy:
      require_operands(in, 2);
      reads(in, 0, {0, in.count});
      return writes(in, 1, {0, in.count});
    case Kind::Send:
      require_operands(in, 1);
      return reads(in, 0, {0, in.count});
    case Kind::Receive:
      require_operands(in, 2);
      reads(in, 0, {0, in.count});
      return writes(in, 1, {0, in.count});
    case Kind::Print: {
      const PrintDesc& print = program_.tables.prints[static_cast<std::size_t>(in.target)];
      require_operands(in, 1);
      return reads(in, 0, {0, program_check::checked_bytes(print.dtype, print.shape)});
    }
    case Kind::HostCall:
      return check_host_call(in);
    case Kind::Collective: {
      const CollectiveDesc& desc = program_.tables.collectives[static_cast<std::size_t>(in.target)];
      require_operands(in, 2);
      reads(in, 0, {0, program_check::checked_bytes(desc.dtype, {desc.input_elements})});
      return writes(in, 1, {0, program_check::checked_bytes(desc.dtype, {desc.output_elements})});
    }
    default:
      return check_transfer(in);
  }
}

void OperandChecker::require_operands(const StepInstruction& in, std::size_t count) const {
  require(in.operands.size() == count, "wanted ", count, " operands, given ", in.operands.size());
}

void OperandChecker::reads(const StepInstruction& in, std::size_t operand, Extent extent) const {
  const StepOperand& at = in.operands[operand];
  if (at.storage < 0) return;
  const std::int64_t bytes = storage(at.storage).bytes;
  require(extent.end <= bytes - at.offset && -extent.begin <= at.offset, "operand ", operand,
          " reaches from ", at.offset + extent.begin, " to ", at.offset + extent.end, " of the ",
          bytes, " bytes of %", at.storage);
}

void OperandChecker::writes(const StepInstruction& in, std::size_t operand, Extent extent) const {
  reads(in, operand, extent);
  const StepOperand& at = in.operands[operand];
  require(at.storage < 0 || !at.read_only, "operand ", operand, " is written, so it is no 'in'");
}

void OperandChecker::passes(const StepInstruction& in, std::size_t operand, std::int32_t callee,
                            std::size_t argument) const {
  const std::vector<ArgumentNeed>& needs = needs_[static_cast<std::size_t>(callee)];
  require(argument < needs.size() && operand < in.operands.size(), "other operands than function ",
          callee, " has arguments");
  require(in.operands[operand].storage >= 0, "operand ", operand, " is not connected");
  const ArgumentNeed& need = needs[argument];
  const std::int32_t device = storage(in.operands[operand].storage).device;
  require(!separates_devices() || device == need.device, "operand ", operand, " is on device ",
          device, "; function ", callee, " wants it on device ", need.device);
  if (need.is_written) return writes(in, operand, {0, need.bytes});
  reads(in, operand, {0, need.bytes});
}

void OperandChecker::check_kernel(const StepInstruction& in) const {
  const std::vector<Extent>& extents = extents_[static_cast<std::size_t>(in.target)];
  const KernelSpec& spec = program_.tables.kernels[static_cast<std::size_t>(in.target)];
  // One more: scratch.
  if (in.operands.size() != extents.size() + 1) require_operands(in, extents.size());
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    const Extent extent = i < extents.size() ? extents[i] : Extent{};
    if (i < spec.inputs.size()) {
      reads(in, i, extent);
    } else {
      writes(in, i, extent);
    }
  }
  for (const std::int32_t input : in.in_place) {
    const auto index = static_cast<std::size_t>(input);
    const auto output = static_cast<std::size_t>(in.in_place_output);
    require(index < spec.inputs.size() && output < spec.outputs.size() &&
                spec.inputs[index] == spec.outputs[output],
            "it cannot write over input ", input, ", which is not as output ", in.in_place_output);
  }
  for (const ProductInput& product : spec.products) {
    if (product.place < 0) continue;
    const std::size_t place = spec.inputs.size() + static_cast<std::size_t>(product.place);
    for (std::size_t i = 0; i < extents.size(); ++i) {
      require(
          i == place || !overlap(in.operands[i], extents[i], in.operands[place], extents[place]),
          "operand ", i, " lies where it makes a product");
    }
  }
}

void OperandChecker::check_host_call(const StepInstruction& in) const {
  const HostCallDesc& call = program_.tables.host_calls[static_cast<std::size_t>(in.target)];
  require_operands(in, call.inputs.size() + call.outputs.size());
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    const bool is_input = i < call.inputs.size();
    const OperandDesc& desc = is_input ? call.inputs[i] : call.outputs[i - call.inputs.size()];
    const Extent extent{0, program_check::checked_bytes(desc.dtype, desc.shape)};
    require(in.operands[i].storage >= 0, "operand ", i, " is not connected");
    is_input ? reads(in, i, extent) : writes(in, i, extent);
  }
}

void OperandChecker::check_transfer(const StepInstruction& in) const {
  const Program& tables = program_.tables;
  const auto target = static_cast<std::size_t>(in.target);
  if (in.kind == Kind::HostLoad || in.kind == Kind::HostStore) {
    const StreamDesc& stream = tables.streams[target];
    const Extent extent{0, program_check::checked_bytes(stream.dtype, stream.shape)};
    require_operands(in, 1);
    require(stream.host_to_device == (in.kind == Kind::HostLoad), "the stream '", stream.id,
            "' goes the other way");
    require(in.operands[0].storage >= 0, "the operand is not connected");
    return in.kind == Kind::HostLoad ? writes(in, 0, extent) : reads(in, 0, extent);
  }
  const RemoteBufferDesc& buffer = tables.remote_buffers[target];
  const Extent extent{0, program_check::checked_bytes(buffer.dtype, buffer.shape)};
  const bool is_wait = in.kind == Kind::RemoteLoadWait;
  const std::size_t value = is_wait ? 0 : 1;
  require_operands(in, value + 1);
  for (const StepOperand& operand : in.operands) {
    require(operand.storage >= 0, "an operand is not connected");
  }
  if (!is_wait) reads(in, 0, {0, sizeof(std::uint32_t)});
  return in.kind == Kind::RemoteStore ? reads(in, value, extent) : writes(in, value, extent);
}

void OperandChecker::check_call(const StepInstruction& in) const {
  require_operands(in, needs_[static_cast<std::size_t>(in.target)].size());
  for (std::size_t i = 0; i < in.operands.size(); ++i) passes(in, i, in.target, i);
}

/// How many they are: one, or one on each device that runs a part of the branch.
std::size_t OperandChecker::check_conditions(const StepInstruction& in,
                                             std::size_t arguments) const {
  const std::vector<std::int32_t> devices = devices_of(program_, in);
  const bool is_one = in.operands.size() == arguments + 1;
  const std::size_t most = std::max<std::size_t>(1, devices.size());
  if (!is_one || separates_devices()) require_operands(in, most + arguments);
  const std::size_t conditions = in.operands.size() - arguments;
  for (std::size_t i = 0; i < conditions; ++i) {
    reads(in, i, {0, 1});
    const std::int32_t at = in.operands[i].storage;
    if (!separates_devices() || at < 0 || is_on_every_device(function_, at)) continue;
    require(storage(at).device == devices[i], "wanted the condition %", at, " on device ",
            devices[i], "; given on device ", storage(at).device);
  }
  return conditions;
}

/// Operands: iterator, condition, the body's condition, two places for each carried value, then
/// what all iterations share.
void OperandChecker::check_loop(const StepInstruction& in) const {
  const StepFunction& body = program_.functions[static_cast<std::size_t>(in.target)];
  require(in.num_carried >= 0 && body.num_carried == in.num_carried,
          "its body carries other values");
  const auto carried = static_cast<std::size_t>(in.num_carried);
  require_operands(in, static_cast<std::size_t>(body.num_arguments));
  const std::size_t inputs = static_cast<std::size_t>(body.num_inputs);
  passes(in, 0, in.target, 0);
  passes(in, 1, in.target, 1);
  passes(in, 2, in.target, inputs);
  for (std::size_t k = 0; k < carried; ++k) {
    for (const std::size_t operand : {3 + k, 3 + carried + k}) {
      passes(in, operand, in.target, 2 + k);
      passes(in, operand, in.target, inputs + 1 + k);
    }
  }
  for (std::size_t k = 2 + carried; k < inputs; ++k) passes(in, 1 + carried + k, in.target, k);
}

void OperandChecker::check_branch(const StepInstruction& in) const {
  const StepFunction& then = program_.functions[static_cast<std::size_t>(in.target)];
  const StepFunction& otherwise = program_.functions[static_cast<std::size_t>(in.other_target)];
  require(in.count == then.num_inputs, "it gives ", in.count, " operands to a branch with ",
          then.num_inputs, " inputs");
  require(then.num_arguments - then.num_inputs == otherwise.num_arguments - otherwise.num_inputs,
          "its branches have different outputs");
  const auto then_inputs = static_cast<std::size_t>(then.num_inputs);
  const auto else_inputs = static_cast<std::size_t>(otherwise.num_inputs);
  const auto outputs = static_cast<std::size_t>(then.num_arguments - then.num_inputs);
  const std::size_t arguments = then_inputs + else_inputs + outputs;
  const std::size_t conditions = check_conditions(in, arguments);
  for (std::size_t i = 0; i < then_inputs; ++i) passes(in, conditions + i, in.target, i);
  for (std::size_t i = 0; i < else_inputs; ++i) {
    passes(in, conditions + then_inputs + i, in.other_target, i);
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    const std::size_t operand = conditions + then_inputs + else_inputs + i;
    passes(in, operand, in.target, then_inputs + i);
    passes(in, operand, in.other_target, else_inputs + i);
  }
}

}  // namespace pando
