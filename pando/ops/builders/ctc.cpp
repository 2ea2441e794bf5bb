// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/ctc.hpp"

#include <utility>

namespace pando::ops {

BuiltOp ctc_beam_search(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        const CtcBeamSearchAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "blank", attributes.blank);
  set_attribute(given, "beam_width", attributes.beam_width);
  set_attribute(given, "top_paths", attributes.top_paths);
  return build_op(builder, "CtcBeamSearch", {input0, input1}, std::move(given), name);
}

BuiltOp ctc_loss(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2, Tensor* input3,
                 const CtcLossAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "blank", attributes.blank);
  set_attribute(given, "zero_infinity", attributes.zero_infinity);
  return build_op(builder, "CtcLoss", {input0, input1, input2, input3}, std::move(given), name);
}

BuiltOp ctc_loss_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      Tensor* input3, Tensor* input4, const CtcLossGradAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "blank", attributes.blank);
  set_attribute(given, "zero_infinity", attributes.zero_infinity);
  return build_op(builder, "CtcLossGrad", {input0, input1, input2, input3, input4},
                  std::move(given), name);
}

}  // namespace pando::ops
