#include "pando/compile/frame_builder.hpp"

namespace pando {

std::int32_t FrameBuilder::add_storage(const Storage& storage) {
  function_.storages.push_back(storage);
  return static_cast<std::int32_t>(function_.storages.size()) - 1;
}

std::int32_t FrameBuilder::new_storage(std::int64_t bytes, std::string_view name, const Op* op) {
  Storage storage;
  storage.bytes = bytes;
  storage.name = tables_.storage_name(name);
  if (op != nullptr) storage.location = tables_.storage_location(*op);
  return add_storage(storage);
}

std::int32_t FrameBuilder::new_argument(std::size_t slot, const Tensor* tensor) {
  Storage storage;
  storage.kind = Storage::Kind::Argument;
  storage.slot = static_cast<std::int32_t>(slot);
  storage.bytes = static_cast<std::int64_t>(tensor->info.bytes());
  storage.name = tables_.storage_name(tensor->name());
  return add_storage(storage);
}

std::int32_t FrameBuilder::storage_of(const Tensor* root) {
  if (const std::int32_t known = storage_of_.at(root); known >= 0) return known;
  const std::int32_t index =
      new_storage(static_cast<std::int64_t>(root->info.bytes()), root->name(), root->producer());
  if (root->producer() == nullptr || shared_roots_.contains(root)) {
    storage(index).kind = Storage::Kind::Global;
    storage(index).offset = tables_.global_offset(*root);
    storage(index).is_writable = root->kind() != TensorKind::Constant;
  }
  set_storage(root, index);
  return index;
}

StepOperand FrameBuilder::operand_of(const Tensor* tensor) {
  const Placement& placement = placements_.of(tensor);
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(tensor->dtype()));
  return {.storage = storage_of(placement.root), .offset = placement.view->offset * bytes};
}

BoundTensor FrameBuilder::bind(const Tensor* tensor) {
  const Placement& placement = placements_.of(tensor);
  return {operand_of(tensor), {tensor->dtype(), placement.view->shape, placement.view->strides}};
}

BoundTensor FrameBuilder::new_tensor(const TensorInfo& info, std::string_view name, const Op& op) {
  const std::int32_t storage = new_storage(static_cast<std::int64_t>(info.bytes()), name, &op);
  return {{storage}, OperandDesc::contiguous(info.dtype, info.shape)};
}

BoundTensor FrameBuilder::bind_contiguous(const Tensor* tensor, const Op& op) {
  BoundTensor bound = bind(tensor);
  if (bound.desc.is_contiguous()) return bound;
  BoundTensor copy = new_tensor(tensor->info, str_cat(tensor->name(), " (contiguous)"), op);
  emit_copy(bound, copy, &op);
  return copy;
}

void FrameBuilder::emit(StepInstruction instruction, const Op* op) {
  if (op != nullptr) {
    instruction.device = tables_.device(*op);
    instruction.source = tables_.source(*op);
  }
  function_.instructions.push_back(std::move(instruction));
}

void FrameBuilder::emit_kernel(const KernelSpec& spec, std::vector<StepOperand> operands,
                               const Op* op) {
  const bool is_op = op != nullptr && op->kind_name() == spec.kind;
  const InputSet modified = is_op ? op->modified_inputs() : InputSet();
  StepInstruction instruction;
  instruction.kind = Instruction::Kind::Kernel;
  instruction.target = tables_.kernel(spec);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(spec.inputs.size()); ++i) {
    operands[static_cast<std::size_t>(i)].read_only = !modified.contains(i);
    if (const int output = tables_.target().output_over(spec, i); output >= 0) {
      instruction.in_place.push_back(i);
      instruction.in_place_output = output;
    }
  }
  instruction.operands = std::move(operands);
  emit(std::move(instruction), op);
}

void FrameBuilder::emit_copy(const BoundTensor& from, const BoundTensor& to, const Op* op) {
  KernelSpec spec;
  spec.kind = "Copy";
  spec.inputs = {from.desc};
  spec.outputs = {to.desc};
  emit_kernel(spec, {from.operand, to.operand}, op);
}

}  // namespace pando
