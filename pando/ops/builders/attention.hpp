// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/ops/built_op.hpp"

namespace pando::ops {

struct ScaledDotProductAttentionAttributes {
  std::optional<double> scale = std::nullopt;
  std::optional<Ints> window = std::nullopt;
  std::optional<std::string> alignment = std::nullopt;
  std::optional<double> p = std::nullopt;
};
/// Inputs: 0 q [..., heads, queries, depth], 1 k [..., kv_heads, keys, depth], 2 v [..., kv_heads,
/// keys, value_depth], float16, bfloat16 or float32; optional: 3 mask, broadcast to the scores
/// [..., heads, queries, keys]: bool (true: seen) or added, 4 seed (2,) uint32, 5 length, an
/// integer: keys from it on are not read. Head h sees the k and v of head h / (heads / kv_heads).
/// Attributes: scale (default 1 / sqrt(depth)); window [left, right] (-1: no limit): query i sees
/// keys i + s - left to i + s + right; alignment: s is 0 (top_left, default) or length - queries
/// (bottom_right); p (default 0): each weight is 0 with this probability, else divided by 1 - p, as
/// Dropout of the scores' shape does. Outputs: 0 dropout(softmax(scale * q k^T + mask)) v, where
/// rows that see no key are 0, 1 float32 [..., heads, queries]: the logarithm of the sum of the
/// exponentials of each row's scores.
BuiltOp scaled_dot_product_attention(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                     Tensor* input2,
                                     const ScaledDotProductAttentionAttributes& attributes = {},
                                     Tensor* input3 = nullptr, Tensor* input4 = nullptr,
                                     Tensor* input5 = nullptr, std::string_view name = {});

struct ScaledDotProductAttentionGradAttributes {
  std::optional<double> scale = std::nullopt;
  std::optional<Ints> window = std::nullopt;
  std::optional<std::string> alignment = std::nullopt;
  std::optional<double> p = std::nullopt;
  std::optional<bool> mask_gradient = std::nullopt;
};
/// Inputs: 0 g, the gradient of the attention's output 0, 1 q, 2 k, 3 v, 4 and 5 its outputs;
/// optional: 6 mask, 7 seed, 8 length. Attributes as there, and mask_gradient. Outputs: 0 dq, 1 dk,
/// 2 dv; with mask_gradient 3 the gradient of the mask before it was broadcast back, of the scores'
/// shape.
BuiltOp scaled_dot_product_attention_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                          Tensor* input2, Tensor* input3, Tensor* input4,
                                          Tensor* input5,
                                          const ScaledDotProductAttentionGradAttributes& attributes = {},
                                          Tensor* input6 = nullptr, Tensor* input7 = nullptr,
                                          Tensor* input8 = nullptr, std::string_view name = {});

}  // namespace pando::ops
