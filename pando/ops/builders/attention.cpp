// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/attention.hpp"

#include <utility>

namespace pando::ops {

BuiltOp scaled_dot_product_attention(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                     Tensor* input2,
                                     const ScaledDotProductAttentionAttributes& attributes,
                                     Tensor* input3, Tensor* input4, Tensor* input5,
                                     std::string_view name) {
  Attributes given;
  set_attribute(given, "scale", attributes.scale);
  set_attribute(given, "window", attributes.window);
  set_attribute(given, "alignment", attributes.alignment);
  set_attribute(given, "p", attributes.p);
  return build_op(builder, "ScaledDotProductAttention",
                  {input0, input1, input2, input3, input4, input5}, std::move(given), name);
}

BuiltOp scaled_dot_product_attention_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                          Tensor* input2, Tensor* input3, Tensor* input4,
                                          Tensor* input5,
                                          const ScaledDotProductAttentionGradAttributes& attributes,
                                          Tensor* input6, Tensor* input7, Tensor* input8,
                                          std::string_view name) {
  Attributes given;
  set_attribute(given, "scale", attributes.scale);
  set_attribute(given, "window", attributes.window);
  set_attribute(given, "alignment", attributes.alignment);
  set_attribute(given, "p", attributes.p);
  set_attribute(given, "mask_gradient", attributes.mask_gradient);
  return build_op(builder, "ScaledDotProductAttentionGrad",
                  {input0, input1, input2, input3, input4, input5, input6, input7, input8},
                  std::move(given), name);
}

}  // namespace pando::ops
