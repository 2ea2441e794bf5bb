// Loads and stores of the host and of remote rows, prints, and calls of the host.
#include <cstring>

#include "pando/compile/lower_ops.hpp"

namespace pando {
namespace {

using Kind = Instruction::Kind;

std::optional<std::int64_t> constant_row(const Tensor* offset, const FrameBuilder& frame) {
  const Tensor* root = frame.placements().of(offset).root;
  const bool is_number = root->kind() == TensorKind::Constant && root->data != nullptr &&
                         root->data->bytes == sizeof(std::int32_t) &&
                         (root->dtype() == DType::Int32 || root->dtype() == DType::UInt32);
  if (!is_number) return std::nullopt;
  std::int32_t row = 0;
  std::memcpy(&row, root->data->data, sizeof row);
  return row;
}

void lower_host_load(const Op& op, FrameBuilder& frame) {
  StepInstruction load;
  load.kind = Kind::HostLoad;
  load.target = frame.tables().stream(op);
  load.operands = {frame.bind(op.output(0)).operand};
  frame.emit(std::move(load), &op);
}

void lower_host_store(const Op& op, FrameBuilder& frame) {
  StepInstruction store;
  store.kind = Kind::HostStore;
  store.target = frame.tables().stream(op);
  store.operands = {frame.bind_contiguous(op.input(0), op).operand.as_read_only()};
  frame.emit(std::move(store), &op);
}

/// All but the operand that is loaded or stored.
StepInstruction remote_transfer(const Op& op, Kind kind, FrameBuilder& frame) {
  StepInstruction transfer;
  transfer.kind = kind;
  transfer.operands = {frame.bind_contiguous(op.input(1), op).operand.as_read_only()};
  transfer.target = frame.tables().remote_buffer(op);
  transfer.count = op.input(1)->dtype() == DType::UInt32 ? 1 : 0;
  transfer.constant_row = constant_row(op.input(1), frame);
  return transfer;
}

void lower_remote_store(const Op& op, FrameBuilder& frame) {
  StepInstruction store = remote_transfer(op, Kind::RemoteStore, frame);
  store.operands.push_back(frame.bind_contiguous(op.input(0), op).operand.as_read_only());
  frame.emit(std::move(store), &op);
}

void lower_remote_load(const Op& op, FrameBuilder& frame) {
  StepInstruction load = remote_transfer(op, Kind::RemoteLoad, frame);
  const BoundTensor output = frame.bind(op.output(0));
  const bool direct = output.desc.is_contiguous();
  const BoundTensor target =
      direct ? output : frame.new_tensor(op.output(0)->info, op.output(0)->name(), op);
  load.operands.push_back(target.operand);
  frame.emit(std::move(load), &op);
  if (!direct) frame.emit_copy(target, output, &op);
}

void lower_print(const Op& op, FrameBuilder& frame) {
  const Tensor* tensor = op.input(0);
  const BoundTensor value = frame.bind_contiguous(tensor, op);
  if (op.attributes.flag("print_self")) {
    PrintDesc print;
    print.dtype = tensor->dtype();
    print.shape = tensor->shape();
    print.format = op.attributes;
    print.title = op.attributes.has("title") ? op.attributes.text("title")
                                             : str_cat("print_", tensor->name());
    StepInstruction instruction;
    instruction.kind = Kind::Print;
    instruction.target = frame.tables().print(std::move(print));
    instruction.operands = {value.operand.as_read_only()};
    frame.emit(std::move(instruction), &op);
  }
  if (op.num_outputs() == 1) frame.emit_copy(value, frame.bind(op.output(0)), &op);
}

void lower_host_call(const Op& op, FrameBuilder& frame) {
  HostCallDesc desc;
  desc.function = op.attributes.text("function");
  StepInstruction call;
  call.kind = Kind::HostCall;
  for (const Tensor* input : op.inputs()) {
    desc.inputs.push_back(OperandDesc::contiguous(input->dtype(), input->shape()));
    call.operands.push_back(frame.bind_contiguous(input, op).operand.as_read_only());
  }
  std::vector<std::pair<BoundTensor, BoundTensor>> copies;
  for (const Tensor* output : op.outputs()) {
    desc.outputs.push_back(OperandDesc::contiguous(output->dtype(), output->shape()));
    const BoundTensor place = frame.bind(output);
    const bool direct = place.desc.is_contiguous();
    const BoundTensor target = direct ? place : frame.new_tensor(output->info, output->name(), op);
    call.operands.push_back(target.operand);
    if (!direct) copies.emplace_back(target, place);
  }
  call.target = frame.tables().host_call(std::move(desc));
  frame.emit(std::move(call), &op);
  for (const auto& [from, to] : copies) frame.emit_copy(from, to, &op);
}

}  // namespace

bool lower_transfer(const Op& op, FrameBuilder& frame) {
  const bool is_remote = op.attributes.has("buffer");
  if (op.def().is_load) {
    is_remote ? lower_remote_load(op, frame) : lower_host_load(op, frame);
  } else if (op.def().is_store) {
    is_remote ? lower_remote_store(op, frame) : lower_host_store(op, frame);
  } else if (op.kind() == OpKind::PrintTensor) {
    lower_print(op, frame);
  } else if (op.kind() == OpKind::HostCall) {
    lower_host_call(op, frame);
  } else {
    return false;
  }
  return true;
}

}  // namespace pando
