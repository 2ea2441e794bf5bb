#include "pando/compile/function_lowering.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "pando/base/error.hpp"
#include "pando/compile/product_inputs.hpp"

namespace pando {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();

}  // namespace

FunctionLowering::FunctionLowering(ProgramLowering& program, const Graph& graph,
                                   const Placements& placements, std::vector<bool> writable,
                                   std::optional<ExecutionContext> part, std::optional<int> carried)
    : program_(program),
      graph_(graph),
      placements_(placements),
      writable_(std::move(writable)),
      part_(part) {
  steps_.name = graph.id();
  steps_.num_inputs = static_cast<std::int32_t>(graph.inputs().size());
  steps_.num_arguments = steps_.num_inputs + static_cast<std::int32_t>(graph.outputs().size());
  steps_.num_carried = carried;
}

StepFunction FunctionLowering::run() {
  std::vector<ExecutionStep> steps = form_steps(graph_, placements_);
  absorb_products(steps, graph_, placements_);
  find_last_steps(steps);
  bind_inputs();
  bind_outputs();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (part_ && steps[i].ops.front()->context.execution != *part_) continue;
    lower_step(steps[i], static_cast<int>(i));
  }
  copy_outputs();
  return std::move(steps_);
}

void FunctionLowering::find_last_steps(const std::vector<ExecutionStep>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto* ops : {&steps[i].ops, &steps[i].products}) {
      for (const Op* op : *ops) {
        for (const Tensor* input : op->inputs()) {
          if (input != nullptr) last_step_[placements_.of(input).root] = static_cast<int>(i);
        }
      }
    }
  }
  for (const Tensor* output : graph_.outputs()) last_step_[placements_.of(output).root] = kForever;
  for (const Tensor* root : program_.shared_roots_) last_step_[root] = kForever;
}

void FunctionLowering::bind_inputs() {
  const std::vector<bool>& written = program_.written_inputs(graph_);
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    const Tensor* input = graph_.inputs()[i];
    const int argument = argument_storage(i, input);
    set_storage(input, argument);
    storage(argument).is_writable = writable_[i];
    if (!written[i] || storage(argument).is_writable) continue;
    // Passed by value and written here: work on a copy.
    const int local = new_storage(storage(argument).bytes, input->name(), nullptr);
    const OperandDesc desc = OperandDesc::contiguous(input->dtype(), input->shape());
    emit_copy({{argument}, desc}, {{local}, desc}, nullptr);
    set_storage(input, local);
  }
}

void FunctionLowering::bind_outputs() {
  std::set<const Tensor*> bound;
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const Tensor* output = graph_.outputs()[i];
    const Placement& placement = placements_.of(output);
    if (placement.root->producer() == nullptr || !placement.covers_root(*output)) continue;
    if (!bound.insert(placement.root).second) continue;
    set_storage(placement.root, argument_storage(graph_.inputs().size() + i, output));
  }
}

void FunctionLowering::copy_outputs() {
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const Tensor* output = graph_.outputs()[i];
    const std::size_t slot = graph_.inputs().size() + i;
    const Storage& current = storage(storage_of(placements_.of(output).root));
    const bool is_there =
        current.kind == Storage::Kind::Argument && current.slot == static_cast<std::int32_t>(slot);
    if (is_there) continue;
    const int target = argument_storage(slot, output);
    emit_copy(bind(output), {{target}, OperandDesc::contiguous(output->dtype(), output->shape())},
              nullptr);
  }
}

void FunctionLowering::lower_step(const ExecutionStep& step, int index) {
  if (step.pointwise) return lower_fused(step, index);
  const Op& op = *step.ops.front();
  if (lower_special(op)) return;
  if (op.def().view) return lower_view_copy(op);
  lower_kernel_op(op);
}

int FunctionLowering::add_storage(const Storage& storage) {
  steps_.storages.push_back(storage);
  return static_cast<int>(steps_.storages.size()) - 1;
}

int FunctionLowering::new_storage(std::int64_t bytes, std::string_view name, const Op* op) {
  Storage storage;
  storage.bytes = bytes;
  storage.name = program_.steps_.texts.add(name);
  if (op != nullptr) storage.location = program_.storage_location(*op);
  return add_storage(storage);
}

int FunctionLowering::argument_storage(std::size_t slot, const Tensor* tensor) {
  Storage storage;
  storage.kind = Storage::Kind::Argument;
  storage.slot = static_cast<std::int32_t>(slot);
  storage.bytes = static_cast<std::int64_t>(tensor->info.bytes());
  storage.name = program_.steps_.texts.add(tensor->name());
  return add_storage(storage);
}

int FunctionLowering::storage_of(const Tensor* root) {
  if (const int known = storage_of_.at(root); known >= 0) return known;
  const bool shared = std::find(program_.shared_roots_.begin(), program_.shared_roots_.end(),
                                root) != program_.shared_roots_.end();
  const int index =
      new_storage(static_cast<std::int64_t>(root->info.bytes()), root->name(), root->producer());
  if (root->producer() == nullptr || shared) {
    storage(index).kind = Storage::Kind::Global;
    storage(index).offset = program_.global_offset(*root);
    storage(index).is_writable = root->kind() != TensorKind::Constant;
  }
  set_storage(root, index);
  return index;
}

void FunctionLowering::set_storage(const Tensor* root, int storage) { storage_of_[root] = storage; }

StepOperand FunctionLowering::operand_of(const Tensor* tensor) {
  const Placement& placement = placements_.of(tensor);
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(tensor->dtype()));
  return {.storage = storage_of(placement.root), .offset = placement.view.offset * bytes};
}

FunctionLowering::BoundTensor FunctionLowering::bind(const Tensor* tensor) {
  const Placement& placement = placements_.of(tensor);
  return {operand_of(tensor), {tensor->dtype(), placement.view.shape, placement.view.strides}};
}

FunctionLowering::BoundTensor FunctionLowering::temporary_like(const TensorInfo& info,
                                                               const std::string& name,
                                                               const Op* op) {
  const int storage = new_storage(static_cast<std::int64_t>(info.bytes()), name, op);
  return {{storage}, OperandDesc::contiguous(info.dtype, info.shape)};
}

FunctionLowering::BoundTensor FunctionLowering::bind_contiguous(const Tensor* tensor,
                                                                const Op* op) {
  BoundTensor bound = bind(tensor);
  if (bound.desc.is_contiguous()) return bound;
  BoundTensor copy = temporary_like(tensor->info, tensor->name() + " (contiguous)", op);
  emit_copy(bound, copy, op);
  return copy;
}

void FunctionLowering::emit(StepInstruction instruction, const Op* op) {
  if (op != nullptr) {
    instruction.device = program_.device_index(*op);
    instruction.source = program_.source_index(*op);
  }
  steps_.instructions.push_back(std::move(instruction));
}

void FunctionLowering::emit_kernel(const KernelSpec& spec, std::vector<StepOperand> operands,
                                   const Op* op) {
  const bool is_op = op != nullptr && op->kind() == spec.kind;
  const InputSet modified = is_op ? op->modified_inputs() : InputSet();
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    operands[i].read_only = !modified.contains(static_cast<int>(i));
  }
  std::vector<std::int32_t> in_place;
  for (int i = 0; i < static_cast<int>(spec.inputs.size()) && spec.outputs.size() == 1; ++i) {
    if (program_.target_.can_run_in_place(spec, i)) in_place.push_back(i);
  }
  emit_prepared(program_.prepared_kernel(spec, op), spec.kind, std::move(operands), op);
  steps_.instructions.back().in_place = std::move(in_place);
}

/// `kind`: what the kernel is called in reports.
void FunctionLowering::emit_prepared(const PreparedKernel& kernel, const std::string& kind,
                                     std::vector<StepOperand> operands, const Op* op) {
  StepInstruction instruction;
  instruction.kind = Instruction::Kind::Kernel;
  instruction.target = kernel.index;
  instruction.operands = std::move(operands);
  if (kernel.scratch_bytes > 0) {
    const auto bytes = static_cast<std::int64_t>(kernel.scratch_bytes);
    instruction.operands.push_back({new_storage(bytes, kind + " scratch", op)});
  }
  emit(std::move(instruction), op);
}

void FunctionLowering::emit_copy(const BoundTensor& from, const BoundTensor& to, const Op* op) {
  KernelSpec spec;
  spec.kind = "Copy";
  spec.inputs = {from.desc};
  spec.outputs = {to.desc};
  emit_kernel(spec, {from.operand, to.operand}, op);
}

}  // namespace pando
