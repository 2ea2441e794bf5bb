// Kernels: fused pointwise steps, library ops and copies.
#include <algorithm>
#include <limits>
#include <set>

#include "pando/base/error.hpp"
#include "pando/compile/function_lowering.hpp"

namespace pando {
namespace {

/// Accumulates one fused kernel from the ops of a step.
class FusedKernelBuilder {
 public:
  explicit FusedKernelBuilder(const Placements& placements)
      : placements_(placements), emitter_(spec_.scalar) {
    spec_.kind = "Fused";
  }

  /// Reads of the product's output load what it computes.
  void add_product(const Op& product) {
    const Tensor* out = product.output(0);
    values_[out] = emitter_.load(static_cast<int>(loaded_.size()), out->dtype());
    ProductInput input;
    input.value = static_cast<std::int32_t>(loaded_.size());
    spec_.products.push_back(input);
    loaded_.push_back(nullptr);
    spec_.inputs.push_back(OperandDesc::contiguous(out->dtype(), out->shape()));
  }

  void add(const Op& op) {
    std::vector<ScalarValue> inputs;
    const Shape& shape = op.output(0)->shape();
    for (const Tensor* input : op.inputs()) {
      inputs.push_back(input == nullptr ? kNoValue : value_of(input, shape));
    }
    const std::vector<ScalarValue> outputs = op.def().scalar_body(emitter_, op, inputs);
    internal_check(outputs.size() == op.outputs().size(), "a body must give every output");
    for (int i = 0; i < op.num_outputs(); ++i) {
      const Tensor* root = placements_.of(op.output(i)).root;
      const ScalarValue value =
          emitter_.as_dtype(outputs[static_cast<std::size_t>(i)], op.output(i)->dtype());
      if (!values_.contains(root)) written_.push_back(op.output(i));
      values_[root] = value;
    }
  }

  /// `stored`: written tensors whose memory must hold the result.
  void finish(const std::vector<const Tensor*>& stored, const std::vector<Op*>& products) {
    for (std::size_t p = 0; p < products.size(); ++p) {
      spec_.products[p].left = add_matrix(products[p]->input(0));
      spec_.products[p].right = add_matrix(products[p]->input(1));
    }
    for (const Tensor* tensor : stored) {
      const View& view = placements_.of(tensor).view;
      spec_.outputs.push_back({tensor->dtype(), view.shape, view.strides});
      emitter_.store(static_cast<int>(spec_.outputs.size()) - 1,
                     values_.at(placements_.of(tensor).root), tensor->dtype());
    }
  }

  const std::vector<const Tensor*>& written() const { return written_; }
  /// By input of the kernel; nullptr for what it computes.
  const std::vector<const Tensor*>& loaded() const { return loaded_; }
  const KernelSpec& spec() const { return spec_; }

 private:
  std::int32_t add_matrix(const Tensor* tensor) {
    const View& view = placements_.of(tensor).view;
    loaded_.push_back(tensor);
    spec_.inputs.push_back({tensor->dtype(), view.shape, view.strides});
    return static_cast<std::int32_t>(loaded_.size()) - 1;
  }

  ScalarValue value_of(const Tensor* tensor, const Shape& shape) {
    const Placement& placement = placements_.of(tensor);
    const auto it = values_.find(placement.root);
    if (it != values_.end()) return it->second;
    const View view = broadcast_view(placement.view, shape);
    for (std::size_t i = 0; i < loaded_.size(); ++i) {
      if (loaded_[i] == nullptr) continue;
      const Placement& other = placements_.of(loaded_[i]);
      if (other.root == placement.root && broadcast_view(other.view, shape) == view) {
        return emitter_.load(static_cast<int>(i), tensor->dtype());
      }
    }
    loaded_.push_back(tensor);
    spec_.inputs.push_back({tensor->dtype(), view.shape, view.strides});
    return emitter_.load(static_cast<int>(loaded_.size()) - 1, tensor->dtype());
  }

  const Placements& placements_;
  KernelSpec spec_;
  ScalarEmitter emitter_;
  std::unordered_map<const Tensor*, ScalarValue> values_;  // by root, once written
  std::vector<const Tensor*> written_;                     // first writer of each root
  std::vector<const Tensor*> loaded_;
};

/// No batch dimension backwards, and one of the last two dense in the other.
bool has_matrix_layout(const OperandDesc& desc) {
  const std::size_t rank = desc.shape.size();
  if (rank < 2) return false;
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    if (desc.strides[d] < 0) return false;
  }
  const std::int64_t rows = desc.shape[rank - 2], columns = desc.shape[rank - 1];
  const std::int64_t row_stride = desc.strides[rank - 2], column_stride = desc.strides[rank - 1];
  return (column_stride == 1 && row_stride >= columns) ||
         (row_stride == 1 && column_stride >= rows);
}

}  // namespace

FusedStep FunctionLowering::fused_step(const ExecutionStep& step, int index) {
  // A storage that dies here is not stored even if it was made elsewhere: an output may take it.
  const auto is_stored = [&](const Tensor* root) {
    return root->producer() == nullptr || last_step_.at(root) > index;
  };
  if (auto known = program_.fused_steps_.find(step, placements_, is_stored)) return *known;
  FusedKernelBuilder builder(placements_);
  for (const Op* product : step.products) builder.add_product(*product);
  for (const Op* op : step.ops) builder.add(*op);
  FusedStep fused;
  for (const Tensor* tensor : builder.written()) {
    if (is_stored(placements_.of(tensor).root)) fused.stored.push_back(tensor);
  }
  if (fused.stored.empty()) return fused;
  builder.finish(fused.stored, step.products);
  fused.loaded = builder.loaded();
  fused.kernel = program_.prepared_kernel(builder.spec(), step.ops.back());
  program_.fused_steps_.add(step, fused);
  return fused;
}

void FunctionLowering::lower_fused(const ExecutionStep& step, int index) {
  const FusedStep fused = fused_step(step, index);
  if (fused.stored.empty()) return;
  std::vector<StepOperand> operands;
  operands.reserve(fused.loaded.size() + fused.stored.size());
  for (const Tensor* input : fused.loaded) {
    operands.push_back(input == nullptr ? StepOperand() : operand_of(input).as_read_only());
  }
  for (const Tensor* output : fused.stored) {
    operands.push_back(operand_of(output));
  }
  emit_prepared(fused.kernel, "Fused", std::move(operands), step.ops.back());
}

void FunctionLowering::lower_view_copy(const Op& op) {
  for (int i = 0; i < op.num_outputs(); ++i) {
    // In place, the output is the view: there is nothing to do.
    if (op.def().output_alias && op.def().output_alias(op, i) >= 0) continue;
    const BoundTensor input = bind(op.input(0));
    const View view{input.desc.shape, input.desc.strides, 0};
    const std::optional<View> viewed = op.def().view(op, i, view);
    const BoundTensor output = bind(op.output(i));
    if (viewed) {
      const auto bytes = static_cast<std::int64_t>(dtype_bytes(input.desc.dtype));
      BoundTensor source = input;
      source.operand.offset += viewed->offset * bytes;
      source.desc.shape = viewed->shape;
      source.desc.strides = viewed->strides;
      emit_copy(source, output, &op);
      continue;
    }
    // The strides do not allow the view: make the input contiguous, which always does.
    BoundTensor copy = temporary_like(op.input(0)->info, op.input(0)->name(), &op);
    if (num_elements(op.output(i)->shape()) == num_elements(input.desc.shape)) {
      // Same elements in the same order: copy straight to the output's memory.
      copy.operand = output.operand;
      emit_copy(input, copy, &op);
      continue;
    }
    emit_copy(input, copy, &op);
    const std::optional<View> from = op.def().view(op, i, View::contiguous(input.desc.shape));
    if (!from) throw InternalError("a view op must accept a contiguous input");
    copy.operand.offset += from->offset * static_cast<std::int64_t>(dtype_bytes(input.desc.dtype));
    copy.desc.shape = from->shape;
    copy.desc.strides = from->strides;
    emit_copy(copy, output, &op);
  }
}

KernelSpec FunctionLowering::kernel_spec(const Op& op) {
  KernelSpec spec;
  spec.kind = op.kind();
  if (!program_.target_.has_kernel(spec.kind)) {
    throw NotSupported(str_cat(describe(op), ": the ", program_.target_.name(),
                               " target has no kernel for '", op.kind(), "'"));
  }
  spec.attributes = op.attributes;
  Ints absent;
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (op.input(i) == nullptr) absent.push_back(i);
    spec.inputs.push_back(op.input(i) == nullptr ? OperandDesc{} : bind(op.input(i)).desc);
  }
  if (!absent.empty()) spec.attributes.set("absent_inputs", absent);
  for (const Tensor* output : op.outputs()) {
    spec.outputs.push_back(OperandDesc::contiguous(output->dtype(), output->shape()));
  }
  return spec;
}

/// The operand of input `index`, copied first when the kernel does not take its layout.
StepOperand FunctionLowering::kernel_input(const Op& op, KernelSpec& spec, int index) {
  if (op.input(index) == nullptr) return {};
  OperandDesc& desc = spec.inputs[static_cast<std::size_t>(index)];
  const BoundTensor bound = bind(op.input(index));
  if (desc.is_contiguous()) return bound.operand;
  const AcceptedLayout layout = program_.target_.accepted_layout(spec, index);
  if (layout == AcceptedLayout::AnyStrides) return bound.operand;
  if (layout == AcceptedLayout::MatrixAnyOrder && has_matrix_layout(desc)) return bound.operand;
  const BoundTensor copy = bind_contiguous(op.input(index), &op);
  desc = copy.desc;
  return copy.operand;
}

void FunctionLowering::lower_kernel_op(const Op& op) {
  KernelSpec spec = kernel_spec(op);
  std::vector<StepOperand> operands;
  operands.reserve(op.inputs().size() + op.outputs().size());
  for (int i = 0; i < op.num_inputs(); ++i) operands.push_back(kernel_input(op, spec, i));
  std::vector<std::pair<BoundTensor, BoundTensor>> copies_back;
  for (const Tensor* tensor : op.outputs()) {
    BoundTensor output = bind(tensor);
    if (!output.desc.is_contiguous()) {
      const BoundTensor temporary =
          temporary_like(tensor->info, tensor->name() + " (contiguous)", &op);
      copies_back.emplace_back(temporary, output);
      output = temporary;
    }
    operands.push_back(output.operand);
  }
  emit_kernel(spec, std::move(operands), &op);
  for (const auto& [from, to] : copies_back) emit_copy(from, to, &op);
}

}  // namespace pando
