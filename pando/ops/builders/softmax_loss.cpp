// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/softmax_loss.hpp"

#include <utility>

namespace pando::ops {

BuiltOp nll(OpBuilder& builder, Tensor* input0, Tensor* input1, const NllAttributes& attributes,
            std::string_view name) {
  Attributes given;
  set_attribute(given, "reduction", attributes.reduction);
  set_attribute(given, "ignore_index", attributes.ignore_index);
  set_attribute(given, "log_prob", attributes.log_prob);
  return build_op(builder, "Nll", {input0, input1}, std::move(given), name);
}

BuiltOp nll_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                 const NllGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "reduction", attributes.reduction);
  set_attribute(given, "ignore_index", attributes.ignore_index);
  set_attribute(given, "log_prob", attributes.log_prob);
  return build_op(builder, "NllGrad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp nlll_with_softmax_grad_direct(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                      const NlllWithSoftmaxGradDirectAttributes& attributes,
                                      Tensor* input2, std::string_view name) {
  Attributes given;
  set_attribute(given, "reduction", attributes.reduction);
  set_attribute(given, "ignore_index", attributes.ignore_index);
  set_attribute(given, "from_scores", attributes.from_scores);
  return build_op(builder, "NlllWithSoftmaxGradDirect", {input0, input1, input2}, std::move(given),
                  name);
}

BuiltOp softmax(OpBuilder& builder, Tensor* input0, const SoftmaxAttributes& attributes,
                std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "scale", attributes.scale);
  set_attribute(given, "band", attributes.band);
  return build_op(builder, "Softmax", {input0}, std::move(given), name);
}

BuiltOp softmax_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const SoftmaxGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "scale", attributes.scale);
  set_attribute(given, "band", attributes.band);
  return build_op(builder, "SoftmaxGrad", {input0, input1}, std::move(given), name);
}

}  // namespace pando::ops
