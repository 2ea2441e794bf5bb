// Ops with kernels of their own, and copies in place of views.
#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/compile/lower_ops.hpp"
#include "pando/custom/library_kernel.hpp"

namespace pando {
namespace {

/// Nothing uses it, and the kernel runs without it.
bool is_absent(const Op& op, int output) {
  const std::vector<int>& optional = op.def().optional_outputs;
  const Tensor& tensor = *op.output(output);
  return std::find(optional.begin(), optional.end(), output) != optional.end() &&
         tensor.uses().empty() && !tensor.is_graph_output();
}

KernelSpec kernel_spec(const Op& op, FrameBuilder& frame) {
  const OpDef& def = op.def();
  KernelSpec spec;
  spec.kind = def.kernel.empty() ? op.kind_name() : def.kernel;
  if (!frame.tables().target().has_kernel(spec.kind)) {
    throw NotSupported(str_cat(
        describe(op), ": the ", frame.tables().target().name(), " target has no kernel for '",
        op.kind_name(), "'",
        def.library.empty() ? ""
                            : str_cat(": it does not run ops of libraries, such as ", def.library,
                                      ", which compute on memory of the host")));
  }
  spec.attributes = op.attributes;
  if (!def.library.empty()) {
    spec.attributes.set(kLibraryOpAttribute, def.name);
    spec.attributes.set(kLibraryHashAttribute, def.library_hash);
    // A kernel that fails late no longer knows which instruction it was.
    spec.attributes.set(kLibrarySiteAttribute, describe(op));
  }
  Ints absent, absent_outputs;
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (op.input(i) == nullptr) absent.push_back(i);
    spec.inputs.push_back(op.input(i) == nullptr ? OperandDesc{} : frame.bind(op.input(i)).desc);
  }
  if (!absent.empty()) spec.attributes.set("absent_inputs", absent);
  for (int i = 0; i < op.num_outputs(); ++i) {
    const TensorInfo& info = op.output(i)->info;
    if (is_absent(op, i)) absent_outputs.push_back(i);
    spec.outputs.push_back(is_absent(op, i) ? OperandDesc{}
                                            : OperandDesc::contiguous(info.dtype, info.shape));
  }
  if (!absent_outputs.empty()) spec.attributes.set("absent_outputs", absent_outputs);
  return spec;
}

/// The operand of input `index`, copied first when the kernel does not take its layout.
StepOperand kernel_input(const Op& op, KernelSpec& spec, int index, FrameBuilder& frame) {
  if (op.input(index) == nullptr) return {};
  OperandDesc& desc = spec.inputs[static_cast<std::size_t>(index)];
  const BoundTensor bound = frame.bind(op.input(index));
  if (desc.is_contiguous()) {
    // Axes of one element may have any stride, also a negative one; kernels see the usual ones.
    desc = OperandDesc::contiguous(desc.dtype, desc.shape);
    return bound.operand;
  }
  const AcceptedLayout layout = frame.tables().target().accepted_layout(spec, index);
  if (layout == AcceptedLayout::AnyStrides) return bound.operand;
  if (layout == AcceptedLayout::MatrixAnyOrder && desc.is_matrix()) return bound.operand;
  const BoundTensor copy = frame.bind_contiguous(op.input(index), op);
  desc = copy.desc;
  return copy.operand;
}

}  // namespace

void lower_view_copy(const Op& op, FrameBuilder& frame) {
  for (int i = 0; i < op.num_outputs(); ++i) {
    // In place, the output is the view: there is nothing to do.
    if (op.def().output_alias && op.def().output_alias(op, i) >= 0) continue;
    const BoundTensor input = frame.bind(op.input(0));
    const View view{input.desc.shape, input.desc.strides, 0};
    const std::optional<View> viewed = op.def().view(op, i, view);
    const BoundTensor output = frame.bind(op.output(i));
    if (viewed) {
      const auto bytes = static_cast<std::int64_t>(dtype_bytes(input.desc.dtype));
      BoundTensor source = input;
      source.operand.offset += viewed->offset * bytes;
      source.desc.shape = viewed->shape;
      source.desc.strides = viewed->strides;
      frame.emit_copy(source, output, &op);
      continue;
    }
    // The strides do not allow the view: make the input contiguous, which always does.
    BoundTensor copy = frame.new_tensor(op.input(0)->info, op.input(0)->name(), op);
    if (num_elements(op.output(i)->shape()) == num_elements(input.desc.shape)) {
      // Same elements in the same order: copy straight to the output's memory.
      copy.operand = output.operand;
      frame.emit_copy(input, copy, &op);
      continue;
    }
    frame.emit_copy(input, copy, &op);
    const std::optional<View> from = op.def().view(op, i, View::contiguous(input.desc.shape));
    if (!from) throw InternalError("a view op must accept a contiguous input");
    copy.operand.offset += from->offset * static_cast<std::int64_t>(dtype_bytes(input.desc.dtype));
    copy.desc.shape = from->shape;
    copy.desc.strides = from->strides;
    frame.emit_copy(copy, output, &op);
  }
}

void lower_kernel_op(const Op& op, FrameBuilder& frame) {
  KernelSpec spec = kernel_spec(op, frame);
  std::vector<StepOperand> operands;
  operands.reserve(op.inputs().size() + op.outputs().size());
  for (int i = 0; i < op.num_inputs(); ++i) operands.push_back(kernel_input(op, spec, i, frame));
  std::vector<std::pair<BoundTensor, BoundTensor>> copies_back;
  for (int i = 0; i < op.num_outputs(); ++i) {
    if (is_absent(op, i)) {
      operands.emplace_back();
      continue;
    }
    const Tensor* tensor = op.output(i);
    BoundTensor output = frame.bind(tensor);
    if (!output.desc.is_contiguous()) {
      const BoundTensor temporary =
          frame.new_tensor(tensor->info, str_cat(tensor->name(), " (contiguous)"), op);
      copies_back.emplace_back(temporary, output);
      output = temporary;
    }
    operands.push_back(output.operand);
  }
  frame.emit_kernel(spec, std::move(operands), &op);
  for (const auto& [from, to] : copies_back) frame.emit_copy(from, to, &op);
}

}  // namespace pando
