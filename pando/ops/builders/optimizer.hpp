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

struct AccumulateAttributes {
  Required<std::string> type;
  std::optional<double> factor = std::nullopt;
};
/// Updates input 0 in place. Inputs: 0 t, 1 X (t's shape, any dtype), 2 factor (optional scalar;
/// step for Mean). Attributes: type, factor (constant, when input 2 is absent). Add: t + X;
/// DampenedAdd: t + f*X; DampenedAddSquare: t + f*X^2; DecayAdd: f*t + X; DecayAddSquare: f*t +
/// X^2; MovingAverage: f*t + (1-f)*X; MovingAverageSquare: f*t + (1-f)*X^2; Infinity: max(f*t,
/// |X|); Mean: (1-b)*t + b*X, b = 1/(step+1).
BuiltOp accumulate(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const AccumulateAttributes& attributes, Tensor* input2 = nullptr,
                   std::string_view name = {});

struct AccumulatorScaleAttributes {
  std::optional<double> factor = std::nullopt;
};
/// Updates input 0 in place: t *= f. Inputs: 0 t, 1 f (optional; broadcasts to t). Attributes:
/// factor (constant, when input 1 is absent); a constant 0 sets t to 0 whatever it holds.
BuiltOp accumulator_scale(OpBuilder& builder, Tensor* input0,
                          const AccumulatorScaleAttributes& attributes = {},
                          Tensor* input1 = nullptr, std::string_view name = {});

struct AdamBiasCorrectionAttributes {
  Required<DType> dtype;
  std::optional<double> beta = std::nullopt;
};
/// Internal. Inputs: 0 step, 1 beta (optional). Attributes: beta (constant where the input is
/// absent), dtype. 1 - beta^step in that dtype. Evaluated in float64 on the float32 value of beta:
/// 1 - 0.999^t cancels.
BuiltOp adam_bias_correction(OpBuilder& builder, Tensor* input0,
                             const AdamBiasCorrectionAttributes& attributes,
                             Tensor* input1 = nullptr, std::string_view name = {});

struct AdamUpdaterAttributes {
  Required<std::string> mode;
  std::optional<double> weight_decay = std::nullopt;
  std::optional<double> beta1 = std::nullopt;
  std::optional<double> beta2 = std::nullopt;
  std::optional<double> epsilon = std::nullopt;
};
/// Inputs: 0 weight (optional), 1 acc_first_order m, 2 acc_second_order v, 3 time_step (optional
/// float32 scalar, incremented in place first), 4 weight_decay, 5 beta1, 6 beta2, 7 epsilon
/// (optional scalars). Attributes: mode (Adam, AdamNoBias, AdaMax, Lamb, LambNoBias), weight_decay,
/// beta1, beta2, epsilon (constants where the input is absent). mc = m / (1 - beta1^t), vc = v / (1
/// - beta2^t) with time_step, else m and v; divisor and quotient are rounded to m's or v's dtype.
/// Output: mc / (sqrt(vc) + epsilon) + weight_decay * weight; AdaMax: mc / (v + epsilon). Shape of
/// m, dtype of weight, without weight that of m.
BuiltOp adam_updater(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                     const AdamUpdaterAttributes& attributes, Tensor* input3 = nullptr,
                     Tensor* input4 = nullptr, Tensor* input5 = nullptr, Tensor* input6 = nullptr,
                     Tensor* input7 = nullptr, std::string_view name = {});

struct AdamUpdaterCoreAttributes {
  Required<std::string> mode;
  std::optional<double> weight_decay = std::nullopt;
  std::optional<double> epsilon = std::nullopt;
};
/// Internal, pointwise part of AdamUpdater. Inputs: 0 weight (optional), 1 m, 2 v, 3 d1 = 1 -
/// beta1^t, 4 d2 = 1 - beta2^t, 5 weight_decay, 6 epsilon (all optional scalars). Attributes: mode,
/// weight_decay, epsilon. (m/d1) / (sqrt(v/d2) + epsilon) + weight_decay*weight; AdaMax: (m/d1) /
/// (v + epsilon). Quotients are rounded to m's and v's dtype.
BuiltOp adam_updater_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                          const AdamUpdaterCoreAttributes& attributes, Tensor* input3 = nullptr,
                          Tensor* input4 = nullptr, Tensor* input5 = nullptr,
                          Tensor* input6 = nullptr, std::string_view name = {});

struct AdamVarUpdateAttributes {
  std::optional<double> learning_rate = std::nullopt;
  std::optional<double> max_weight_norm = std::nullopt;
};
/// Updates input 0 in place: t -= learning_rate * ratio * x, ratio = min(sqrt(r1), max_weight_norm)
/// / sqrt(r2), 1 where r1 or r2 (or a tensor max_weight_norm) is 0. Inputs: 0 t, 1 x, 2 r1, 3 r2
/// (squared L2 norms), 4 learning_rate, 5 max_weight_norm (optional scalars). Attributes:
/// learning_rate, max_weight_norm (constants where the input is absent; no max_weight_norm: no
/// clipping).
BuiltOp adam_var_update(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        Tensor* input3, const AdamVarUpdateAttributes& attributes = {},
                        Tensor* input4 = nullptr, Tensor* input5 = nullptr,
                        std::string_view name = {});

/// Writes input 1 over input 0 in place. Inputs: 0 t, 1 X of t's shape and dtype.
BuiltOp copy_var_update(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        std::string_view name = {});

struct LambScaleAttributes {
  std::optional<double> learning_rate = std::nullopt;
  std::optional<double> max_weight_norm = std::nullopt;
};
/// Internal. Inputs: 0 r1, 1 r2, 2 learning_rate, 3 max_weight_norm (optional). Attributes:
/// learning_rate, max_weight_norm. -learning_rate * ratio of AdamVarUpdate, float32 scalar.
BuiltOp lamb_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const LambScaleAttributes& attributes = {}, Tensor* input2 = nullptr,
                   Tensor* input3 = nullptr, std::string_view name = {});

/// Inputs: 0 t (float). Sum of squares in float32; float32 scalar. The sum of a shard is over all
/// shards.
BuiltOp lamb_square(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct ScaledAddAttributes {
  std::optional<double> a = std::nullopt;
  std::optional<double> b = std::nullopt;
};
/// a*X + b*Y in float32 (float64: in that; integers exactly, with fractions in float64), rounded
/// once to X's dtype. Inputs: 0 X, 1 Y (X's shape, any dtype), 2 a, 3 b (optional scalars).
/// Attributes: a, b (constants, default 1, where the input is absent).
BuiltOp scaled_add(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const ScaledAddAttributes& attributes = {}, Tensor* input2 = nullptr,
                   Tensor* input3 = nullptr, std::string_view name = {});

struct ScaledAddLhsInplaceAttributes {
  std::optional<double> a = std::nullopt;
  std::optional<double> b = std::nullopt;
};
/// Updates input 0 in place: a*X + b*Y in float32 (float64: in that; integers exactly, with
/// fractions in float64), rounded once to X's dtype. Inputs: 0 X, 1 Y (X's shape, any dtype), 2 a,
/// 3 b (optional scalars). Attributes: a, b (constants, default 1, where the input is absent).
BuiltOp scaled_add_lhs_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const ScaledAddLhsInplaceAttributes& attributes = {},
                               Tensor* input2 = nullptr, Tensor* input3 = nullptr,
                               std::string_view name = {});

}  // namespace pando::ops
