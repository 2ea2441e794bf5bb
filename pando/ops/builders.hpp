// Typed builders: one for every kind of op. Optional inputs come after the attributes.
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

/// |x| of input 0.
BuiltOp abs(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * sign(x) for inputs g, x; 0 where x is 0.
BuiltOp abs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

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

struct AdaptiveAveragePoolAttributes {
  Required<Ints> output_size;
  std::optional<bool> channel_last = std::nullopt;
};
/// Inputs: 0 t (N, C, spatial...). Attributes: output_size (one number per spatial dimension),
/// channel_last (default false: else t is (N, spatial..., C)). Result o of n along a dimension of
/// size D is that of elements floor(o * D / n) to ceil((o + 1) * D / n) - 1: their mean.
BuiltOp adaptive_average_pool(OpBuilder& builder, Tensor* input0,
                              const AdaptiveAveragePoolAttributes& attributes,
                              std::string_view name = {});

struct AdaptiveAveragePoolGradAttributes {
  Required<Ints> output_size;
  Required<Ints> input_shape;
  std::optional<bool> channel_last = std::nullopt;
};
/// Inputs: 0 g. Attributes: output_size, channel_last, input_shape. Spreads g / count over the
/// elements of each window of AdaptiveAveragePool.
BuiltOp adaptive_average_pool_grad(OpBuilder& builder, Tensor* input0,
                                   const AdaptiveAveragePoolGradAttributes& attributes,
                                   std::string_view name = {});

struct AdaptiveMaxPoolAttributes {
  Required<Ints> output_size;
  std::optional<bool> channel_last = std::nullopt;
  std::optional<std::string> ties = std::nullopt;
};
/// Inputs: 0 t (N, C, spatial...). Attributes: output_size (one number per spatial dimension),
/// channel_last (default false: else t is (N, spatial..., C)). Result o of n along a dimension of
/// size D is that of elements floor(o * D / n) to ceil((o + 1) * D / n) - 1: their maximum.
/// Attribute ties: of several elements that are a window's maximum, all get its gradient (default),
/// or first: the first in C order, or the last NaN.
BuiltOp adaptive_max_pool(OpBuilder& builder, Tensor* input0,
                          const AdaptiveMaxPoolAttributes& attributes, std::string_view name = {});

struct AdaptiveMaxPoolGradAttributes {
  Required<Ints> output_size;
  std::optional<bool> channel_last = std::nullopt;
  std::optional<std::string> ties = std::nullopt;
};
/// Inputs: 0 t, 1 out (AdaptiveMaxPool of t), 2 g. Attributes: output_size, channel_last; ties: of
/// several elements that are a window's maximum, all get its gradient (default), or first: the
/// first in C order, or the last NaN.
BuiltOp adaptive_max_pool_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                               const AdaptiveMaxPoolGradAttributes& attributes,
                               std::string_view name = {});

/// Input 0 + input 1, with broadcasting.
BuiltOp add(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct AddArg0GradAttributes {
  Required<Ints> shape;
};
/// Input g. Summed to attribute shape.
BuiltOp add_arg0_grad(OpBuilder& builder, Tensor* input0, const AddArg0GradAttributes& attributes,
                      std::string_view name = {});

struct AddArg1GradAttributes {
  Required<Ints> shape;
};
/// Input g. Summed to attribute shape.
BuiltOp add_arg1_grad(OpBuilder& builder, Tensor* input0, const AddArg1GradAttributes& attributes,
                      std::string_view name = {});

/// Adds input 1, broadcast to its shape, to input 0 in place.
BuiltOp add_lhs_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        std::string_view name = {});

struct AllReduceAttributes {
  Required<std::string> op;
  Required<Ints> devices;
  Required<std::string> form;
};
/// Output i, on virtual device devices[i]: the reduction (attribute op) of all inputs. Attribute
/// form: 'plain'; 'identical_inputs': the inputs are equal and stay as they are, their gradients
/// are reduced; 'identical_grads': the gradients are equal and stay as they are.
BuiltOp all_reduce(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                   const AllReduceAttributes& attributes, std::string_view name = {});

struct AllReduceGradAttributes {
  Required<std::string> op;
  Required<Ints> devices;
  Required<std::string> form;
};
/// The gradients of the inputs of an AllReduce of the same attributes.
BuiltOp all_reduce_grad(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                        const AllReduceGradAttributes& attributes, std::string_view name = {});

/// Logical and of two bool inputs, with broadcasting.
BuiltOp logical_and(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct ArgMaxAttributes {
  Required<std::int64_t> axis;
  std::optional<bool> keepdims = std::nullopt;
};
/// Inputs: 0 t. Attributes: axis, keepdims (default false). int32 index of the largest element
/// along axis; the lowest index among equals.
BuiltOp arg_max(OpBuilder& builder, Tensor* input0, const ArgMaxAttributes& attributes,
                std::string_view name = {});

struct ArgMinAttributes {
  Required<std::int64_t> axis;
  std::optional<bool> keepdims = std::nullopt;
};
/// Inputs: 0 t. Attributes: axis, keepdims (default false). int32 index of the smallest element
/// along axis; the lowest index among equals.
BuiltOp arg_min(OpBuilder& builder, Tensor* input0, const ArgMinAttributes& attributes,
                std::string_view name = {});

/// Arc tangent of input 0, in radians.
BuiltOp atan(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g / (1 + x^2) for inputs g, x.
BuiltOp atan_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct AveragePoolAttributes {
  Required<Ints> kernel_size;
  std::optional<Ints> strides = std::nullopt;
  std::optional<Ints> pads = std::nullopt;
  std::optional<Ints> dilations = std::nullopt;
  std::optional<std::string> pad_type = std::nullopt;
  std::optional<bool> ceil_mode = std::nullopt;
  std::optional<Ints> out_pads = std::nullopt;
  std::optional<Ints> in_dilations = std::nullopt;
  std::optional<bool> channel_last = std::nullopt;
  std::optional<bool> count_include_pad = std::nullopt;
  std::optional<Ints> counted_pads = std::nullopt;
};
/// Inputs: 0 t (N, C, spatial...). Attributes: kernel_size, strides, pads (begins, then ends),
/// dilations (default 1, 0, 1), pad_type (not_set, same_upper, same_lower, valid), ceil_mode,
/// out_pads (only 0), in_dilations (only 1), channel_last (default false: else t is (N, spatial...,
/// C)). Kernels see explicit kernel_size, strides, pads and dilations only. count_include_pad
/// (default false). Mean over the cells of the window inside t: padded cells are not counted (a
/// window without any gives 0), or those of pads count as zeros, but not what ceil_mode adds.
/// Kernels see counted_pads: pads whose cells count.
BuiltOp average_pool(OpBuilder& builder, Tensor* input0, const AveragePoolAttributes& attributes,
                     std::string_view name = {});

struct AveragePoolGradAttributes {
  Required<Ints> kernel_size;
  Required<Ints> strides;
  Required<Ints> pads;
  Required<Ints> dilations;
  Required<Ints> input_shape;
  std::optional<bool> channel_last = std::nullopt;
  std::optional<Ints> counted_pads = std::nullopt;
};
/// Inputs: 0 g. Attributes: kernel_size, strides, pads, dilations, input_shape, channel_last,
/// counted_pads. Spreads g / count over the cells of each window inside the data.
BuiltOp average_pool_grad(OpBuilder& builder, Tensor* input0,
                          const AveragePoolGradAttributes& attributes, std::string_view name = {});

struct BatchNormalizationAttributes {
  Required<double> epsilon;
  std::optional<double> momentum = std::nullopt;
  std::optional<bool> channel_last = std::nullopt;
};
/// Inference form. Inputs: 0 t (N, C, spatial...), 1 scale, 2 bias, 3 mean, 4 var, each (C,).
/// Attributes: epsilon, momentum (no effect), channel_last (default false: else t is (N,
/// spatial..., C)). scale * (t - mean) / sqrt(var + epsilon) + bias.
BuiltOp batch_normalization(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                            Tensor* input3, Tensor* input4,
                            const BatchNormalizationAttributes& attributes,
                            std::string_view name = {});

/// Internal. Inputs: 0 t, 1 factor, 2 bias, 3 mean, which broadcast to t. (t - mean) * factor +
/// bias.
BuiltOp batch_normalization_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                 Tensor* input3, std::string_view name = {});

/// Internal. Inputs: 0 g, 1 t, 2 mean, 3 a, 4 b, 5 c; the latter four broadcast to t. a * g + b *
/// (t - mean) + c.
BuiltOp batch_normalization_grad_core(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                      Tensor* input2, Tensor* input3, Tensor* input4,
                                      Tensor* input5, std::string_view name = {});

struct BatchNormalizationGradFactorsAttributes {
  Required<std::int64_t> count;
};
/// Internal. Inputs per channel: 0 scale, 1 inv_std, 2 sum_g, 3 sum_g_xhat, 4 g_mean, 5 g_variance
/// (optional). Attribute: count n. Outputs: a = scale * inv_std, b = -a * inv_std * sum_g_xhat / n
/// + 2 * g_variance / (n - 1), c = (g_mean - a * sum_g) / n.
BuiltOp batch_normalization_grad_factors(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                         Tensor* input2, Tensor* input3,
                                         const BatchNormalizationGradFactorsAttributes& attributes,
                                         Tensor* input4 = nullptr, Tensor* input5 = nullptr,
                                         std::string_view name = {});

struct BatchNormalizationScaleAttributes {
  Required<double> epsilon;
};
/// Internal. Inputs: 0 scale, 1 var. Attributes: epsilon. scale / sqrt(var + epsilon), float32.
BuiltOp batch_normalization_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                  const BatchNormalizationScaleAttributes& attributes,
                                  std::string_view name = {});

struct BatchNormalizationStatisticsAttributes {
  Required<double> epsilon;
  std::optional<bool> channel_last = std::nullopt;
};
/// Internal. Input: 0 t. Attributes of BatchNormalizationTraining. Outputs: its outputs 1 to 3.
BuiltOp batch_normalization_statistics(OpBuilder& builder, Tensor* input0,
                                       const BatchNormalizationStatisticsAttributes& attributes,
                                       std::string_view name = {});

struct BatchNormalizationSumsAttributes {
  std::optional<bool> channel_last = std::nullopt;
};
/// Internal. Inputs: 0 g, 1 t, 2 mean, 3 inv_std. Attribute: channel_last. Per channel, outputs: 0
/// sum(g), 1 sum(g * (t - mean)) * inv_std.
BuiltOp batch_normalization_sums(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                 Tensor* input3,
                                 const BatchNormalizationSumsAttributes& attributes = {},
                                 std::string_view name = {});

struct BatchNormalizationTrainingAttributes {
  Required<double> epsilon;
  std::optional<bool> channel_last = std::nullopt;
};
/// Inputs: 0 t (N, C, spatial...), 1 scale (C,), 2 bias (C,). Attributes: epsilon, channel_last
/// (default false: else t is (N, spatial..., C)). Statistics of each channel over all other
/// dimensions, n > 1 elements, in float32: y = (t - mean) / sqrt(v + epsilon) * scale + bias with
/// the biased variance v = sum((t - mean)^2) / n. Outputs: 0 y, 1 mean, 2 the unbiased variance v *
/// n / (n - 1), 3 1 / sqrt(v + epsilon), the latter three (C,), float32 (float64 for float64).
BuiltOp batch_normalization_training(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                     Tensor* input2,
                                     const BatchNormalizationTrainingAttributes& attributes,
                                     std::string_view name = {});

struct BatchNormalizationTrainingGradAttributes {
  std::optional<bool> channel_last = std::nullopt;
};
/// Inputs: 0 g, 1 t, 2 scale, 3 mean, 4 inv_std (outputs 1 and 3 of BatchNormalizationTraining), 5
/// g_mean, 6 g_variance (optional gradients of its outputs 1 and 2). Attribute: channel_last. With
/// xhat = (t - mean) * inv_std and n elements per channel: dx = scale * inv_std * (g - mean(g) -
/// xhat * mean(g * xhat)) + g_mean / n + 2 * g_variance * (t - mean) / (n - 1). Outputs: 0 dx, 1
/// dscale = sum(g * xhat), 2 dbias = sum(g), both with scale's dtype.
BuiltOp batch_normalization_training_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                          Tensor* input2, Tensor* input3, Tensor* input4,
                                          const BatchNormalizationTrainingGradAttributes& attributes = {},
                                          Tensor* input5 = nullptr, Tensor* input6 = nullptr,
                                          std::string_view name = {});

struct BroadcastToAttributes {
  Required<Ints> shape;
};
/// Input 0 repeated by NumPy broadcasting to attribute shape.
BuiltOp broadcast_to(OpBuilder& builder, Tensor* input0, const BroadcastToAttributes& attributes,
                     std::string_view name = {});

struct BucketizeAttributes {
  std::optional<bool> right = std::nullopt;
};
/// Inputs: 0 t, 1 boundaries (vector, ascending, dtype of t). Attributes: right (default false).
/// int32 i with boundaries[i-1] < x <= boundaries[i] for each element x of t; with right
/// boundaries[i-1] <= x < boundaries[i]. NaN gives the number of boundaries.
BuiltOp bucketize(OpBuilder& builder, Tensor* input0, Tensor* input1,
                  const BucketizeAttributes& attributes = {}, std::string_view name = {});

struct CallAttributes {
  std::optional<Ints> modified = std::nullopt;
};
/// Runs the called graph. Inputs and outputs are those of the graph, in order. Inputs in attribute
/// modified, and by-reference inputs, are written back.
BuiltOp call(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
             const CallAttributes& attributes = {}, std::string_view name = {});

struct CastAttributes {
  Required<DType> dtype;
};
/// Input 0 converted to attribute dtype. Float to int truncates toward zero; what lies outside the
/// range becomes its end, NaN becomes 0. Int to a narrower int wraps. Nonzero becomes true.
/// Differentiable for float16, bfloat16 and float32 sources.
BuiltOp cast(OpBuilder& builder, Tensor* input0, const CastAttributes& attributes,
             std::string_view name = {});

struct CastGradAttributes {
  Required<DType> dtype;
};
/// Input g converted to attribute dtype.
BuiltOp cast_grad(OpBuilder& builder, Tensor* input0, const CastGradAttributes& attributes,
                  std::string_view name = {});

struct CastThenPow2ScaleAttributes {
  Required<DType> dtype;
};
/// dtype(input 0) * 2^input 1 for a float8 input 0 and attribute dtype float16, bfloat16 or
/// float32.
BuiltOp cast_then_pow2_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                             const CastThenPow2ScaleAttributes& attributes,
                             std::string_view name = {});

/// Input 0 rounded up to an integer; integer dtypes stay as they are.
BuiltOp ceil(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct CheckRangeAttributes {
  Required<std::int64_t> low;
  Required<std::int64_t> end;
  Required<std::string> what;
};
/// The value of input 0, an int32 scalar. A run in which it is below attribute low, or attribute
/// end or more, stops with an error that names attribute what.
BuiltOp check_range(OpBuilder& builder, Tensor* input0, const CheckRangeAttributes& attributes,
                    std::string_view name = {});

/// Inputs: 0 t (..., n, n). The lower triangular L with L L^T = (t + t^T) / 2; NaN where that is
/// not positive definite.
BuiltOp cholesky(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct ClipAttributes {
  Required<double> min;
  Required<double> max;
};
/// min(max(x, attribute min), attribute max) of input 0; NaN stays NaN. The limits are rounded to
/// the dtype, for float16 first clamped to +-65504.
BuiltOp clip(OpBuilder& builder, Tensor* input0, const ClipAttributes& attributes,
             std::string_view name = {});

struct ClipGradAttributes {
  Required<double> min;
  Required<double> max;
};
/// For inputs g, out: g where out is neither of the limits, else 0.
BuiltOp clip_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                  const ClipGradAttributes& attributes, std::string_view name = {});

struct CoalesceRowsAttributes {
  Required<std::int64_t> axis;
  Required<std::int64_t> size;
  std::optional<bool> skip_zero_rows = std::nullopt;
};
/// Internal. Inputs: 0 X (float; the shape of a table with dimension axis replaced by that of
/// indices), 1 indices (integer). Attributes: axis, size (rows of the table), skip_zero_rows
/// (default false: whether rows that add up to 0 everywhere are left out). Outputs: 0 the sums of
/// the rows of equal index in the order of the indices, X with one dimension for all indices, 1
/// int64 (number of indices,) the index of each sum, rising. Behind the last sum there are zeros
/// with index -1. Indices out of range are left out.
BuiltOp coalesce_rows(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const CoalesceRowsAttributes& attributes, std::string_view name = {});

struct ConcatAttributes {
  Required<std::int64_t> axis;
};
/// The inputs one after the other along attribute axis. A kernel.
BuiltOp concat(OpBuilder& builder, const std::vector<Tensor*>& inputs,
               const ConcatAttributes& attributes, std::string_view name = {});

struct ConcatGradAttributes {
  Required<std::int64_t> axis;
  Required<std::int64_t> start;
  Required<std::int64_t> size;
};
/// Elements [start, start + size) of attribute axis of input g.
BuiltOp concat_grad(OpBuilder& builder, Tensor* input0, const ConcatGradAttributes& attributes,
                    std::string_view name = {});

struct ConcatInplaceAttributes {
  Required<std::int64_t> axis;
};
/// The inputs one after the other along attribute axis. The result has a storage of its own; the
/// transform keep_concat_views makes writes to it reach the inputs, and back.
BuiltOp concat_inplace(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                       const ConcatInplaceAttributes& attributes, std::string_view name = {});

struct ConvAttributes {
  std::optional<Ints> strides = std::nullopt;
  std::optional<Ints> pads = std::nullopt;
  std::optional<Ints> dilations = std::nullopt;
  std::optional<std::int64_t> groups = std::nullopt;
  std::optional<std::string> pad_type = std::nullopt;
  std::optional<bool> channel_last = std::nullopt;
};
/// Cross-correlation. Inputs: 0 t (N, C, spatial...), 1 weight (M, C/groups, k...), 2 log2_scale
/// (optional int32 scalar; float8 operands: float16(conv * 2^log2_scale)). Attributes: strides,
/// pads (begins, then ends), dilations, groups, pad_type (not_set, same_upper, same_lower, valid),
/// channel_last (default false: else t is (N, spatial..., C), and so is the output). Output (N, M,
/// floor((D + p0 + p1 - 1 - d*(K-1))/s) + 1, ...). Kernels see explicit strides, pads, dilations
/// and groups only.
BuiltOp conv(OpBuilder& builder, Tensor* input0, Tensor* input1,
             const ConvAttributes& attributes = {}, Tensor* input2 = nullptr,
             std::string_view name = {});

struct ConvDataGradAttributes {
  Required<Ints> strides;
  Required<Ints> pads;
  Required<Ints> dilations;
  Required<std::int64_t> groups;
  Required<Ints> input_shape;
  std::optional<bool> channel_last = std::nullopt;
};
/// Inputs: 0 weight (M, C/groups, k...), 1 g (N, M, out...). Attributes: strides, pads, dilations,
/// groups, channel_last, input_shape (N, C, spatial...). Gradient of Conv's data: element x gets
/// the sum of g[o] * weight[k] over o*s - p0 + k*d = x; also the transposed convolution, where
/// positions outside input_shape are dropped and pads may be negative.
BuiltOp conv_data_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ConvDataGradAttributes& attributes, std::string_view name = {});

struct ConvTransposeAttributes {
  std::optional<Ints> strides = std::nullopt;
  std::optional<Ints> pads = std::nullopt;
  std::optional<Ints> dilations = std::nullopt;
  std::optional<std::int64_t> groups = std::nullopt;
  std::optional<std::string> pad_type = std::nullopt;
  std::optional<bool> channel_last = std::nullopt;
  std::optional<Ints> output_padding = std::nullopt;
  std::optional<Ints> output_shape = std::nullopt;
};
/// Transposed convolution. Inputs: 0 t (N, Cin, spatial...), 1 weight (Cin, Cout/groups, k...), 2
/// log2_scale (optional, as Conv). Attributes: strides, pads, dilations (only 1), groups, pad_type,
/// channel_last, output_padding, output_shape. Spatial size s*(D-1) + output_padding + K - p0 - p1;
/// with output_shape the pads follow from it.
BuiltOp conv_transpose(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ConvTransposeAttributes& attributes = {}, Tensor* input2 = nullptr,
                       std::string_view name = {});

struct ConvWeightsGradAttributes {
  Required<Ints> strides;
  Required<Ints> pads;
  Required<Ints> dilations;
  Required<std::int64_t> groups;
  Required<Ints> weight_shape;
  std::optional<bool> channel_last = std::nullopt;
};
/// Inputs: 0 t (N, C, spatial...), 1 g (N, M, out...). Attributes: strides, pads, dilations,
/// groups, channel_last, weight_shape (M, C/groups, k...). Gradient of Conv's weight.
BuiltOp conv_weights_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                          const ConvWeightsGradAttributes& attributes, std::string_view name = {});

/// Writes input 1 over input 0 in place. Inputs: 0 t, 1 X of t's shape and dtype.
BuiltOp copy_var_update(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        std::string_view name = {});

/// cos x of input 0 (radians).
BuiltOp cos(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// -g * sin x for inputs g, x.
BuiltOp cos_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct CtcBeamSearchAttributes {
  Required<std::int64_t> blank;
  Required<std::int64_t> beam_width;
  Required<std::int64_t> top_paths;
};
/// Inputs: 0 log_probs (steps, batch, classes), 1 lengths (batch,), integers. Attributes: blank,
/// beam_width, top_paths. Prefix beam search: keeps the beam_width most probable label sequences of
/// every step. Outputs, best path first: 0 ln of the probabilities (batch, top_paths), 1 int32
/// lengths (batch, top_paths), 2 int32 labels (batch, top_paths, steps), blank behind the end.
/// Paths that do not exist have -infinity and no labels. A length out of range counts as the
/// nearest one in range.
BuiltOp ctc_beam_search(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        const CtcBeamSearchAttributes& attributes, std::string_view name = {});

struct CtcLossAttributes {
  Required<std::int64_t> blank;
  Required<bool> zero_infinity;
};
/// Inputs: 0 log_probs (steps, batch, classes), 1 targets (batch, labels), 2 input_lengths
/// (batch,), 3 target_lengths (batch,); integers. Attributes: blank, zero_infinity. Output
/// (batch,): -ln of the sum over all alignments of the first target_lengths labels with the first
/// input_lengths steps. Without an alignment: infinity, 0 with zero_infinity. NaN where a length or
/// a label is out of range.
BuiltOp ctc_loss(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2, Tensor* input3,
                 const CtcLossAttributes& attributes, std::string_view name = {});

struct CtcLossGradAttributes {
  Required<std::int64_t> blank;
  Required<bool> zero_infinity;
};
/// Inputs: 0 g (batch,), 1 to 4 the inputs of CtcLoss. Attributes: those of CtcLoss. -g times the
/// probability, given the labels, that step t stands for class c. 0 where the step is past
/// input_lengths; where the loss is infinite 0 with zero_infinity, else NaN; NaN where a length or
/// a label is out of range.
BuiltOp ctc_loss_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      Tensor* input3, Tensor* input4, const CtcLossGradAttributes& attributes,
                      std::string_view name = {});

struct CumProdAttributes {
  Required<std::int64_t> axis;
  std::optional<bool> reverse = std::nullopt;
};
/// Inclusive running product. Inputs: 0 t. Attributes: axis, reverse (default false: from the first
/// element on).
BuiltOp cum_prod(OpBuilder& builder, Tensor* input0, const CumProdAttributes& attributes,
                 std::string_view name = {});

struct CumProdGradAttributes {
  Required<std::int64_t> axis;
  Required<bool> reverse;
};
/// Inputs: 0 g, 1 t. Attributes: axis, reverse (of the CumProd). sum over i >= k of g[i] times the
/// product of t[j], j <= i, j != k: right where t is 0.
BuiltOp cum_prod_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const CumProdGradAttributes& attributes, std::string_view name = {});

struct CumSumAttributes {
  std::optional<std::int64_t> axis = std::nullopt;
  std::optional<bool> reverse = std::nullopt;
};
/// Inclusive running sum. Inputs: 0 t, 1 axis (optional int64 constant, negative allowed).
/// Attributes: axis (when input 1 is absent), reverse (default false: from the first element on).
/// Kernels see attributes axis and reverse and one input.
BuiltOp cum_sum(OpBuilder& builder, Tensor* input0, const CumSumAttributes& attributes = {},
                Tensor* input1 = nullptr, std::string_view name = {});

struct CumSumGradAttributes {
  Required<std::int64_t> axis;
  Required<bool> reverse;
};
/// Inputs: 0 g. Attributes: axis, reverse (of the CumSum). Running sum in the opposite direction.
BuiltOp cum_sum_grad(OpBuilder& builder, Tensor* input0, const CumSumGradAttributes& attributes,
                     std::string_view name = {});

/// The value of input 0; no gradient passes.
BuiltOp detach(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// An alias of input 0 through which no gradient passes.
BuiltOp detach_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct DeviceCopyAttributes {
  Required<std::int64_t> source;
  Required<std::int64_t> destination;
};
/// Input 0 moved from virtual device attribute source to virtual device attribute destination.
BuiltOp device_copy(OpBuilder& builder, Tensor* input0, const DeviceCopyAttributes& attributes,
                    std::string_view name = {});

/// Input 0 / input 1, with broadcasting; integers truncate toward zero.
BuiltOp div(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct DivArg0GradAttributes {
  Required<Ints> shape;
};
/// g / rhs for inputs g, rhs. Summed to attribute shape.
BuiltOp div_arg0_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const DivArg0GradAttributes& attributes, std::string_view name = {});

struct DivArg1GradAttributes {
  Required<Ints> shape;
};
/// -g lhs / rhs^2 for inputs g, lhs, rhs. Summed to attribute shape.
BuiltOp div_arg1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      const DivArg1GradAttributes& attributes, std::string_view name = {});

struct DropoutAttributes {
  Required<double> p;
};
/// Inputs: 0 t (float), 1 seed (2,) uint32. Attributes: p. Each element is 0 with probability p,
/// else t / (1 - p). The gradient is Dropout of g with the same seed: the same mask.
BuiltOp dropout(OpBuilder& builder, Tensor* input0, Tensor* input1,
                const DropoutAttributes& attributes, std::string_view name = {});

struct DropoutCoreAttributes {
  Required<double> p;
};
/// Internal, pointwise Dropout. Inputs: 0 t, 1 and 2 the words of the seed. Attributes: p.
BuiltOp dropout_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                     const DropoutCoreAttributes& attributes, std::string_view name = {});

struct DropoutMaskAttributes {
  Required<Ints> shape;
  Required<double> ratio;
};
/// Internal. Inputs: 0 and 1 the words of a seed. Attributes: shape, ratio. Bool tensor of shape,
/// false with probability ratio.
BuiltOp dropout_mask(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const DropoutMaskAttributes& attributes, std::string_view name = {});

struct DynamicSliceAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 t, 1 index (int32 or uint32, one element per axis). Attributes: axes, sizes,
/// no_overlap (no effect on values). The part of t that starts at index[i] and has sizes[i]
/// elements along axes[i]; a copy. A start beyond dim - size is moved back to it.
BuiltOp dynamic_slice(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const DynamicSliceAttributes& attributes, std::string_view name = {});

struct DynamicSlicePadGradAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  Required<Ints> input_shape;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 g, 1 index. Attributes: axes, sizes, no_overlap, input_shape. g placed into zeros of
/// input_shape at the slice.
BuiltOp dynamic_slice_pad_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const DynamicSlicePadGradAttributes& attributes,
                               std::string_view name = {});

struct DynamicUpdateAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 t, 1 index (int32 or uint32, one element per axis), 2 t_update (shape of the slice,
/// dtype of t). Attributes: axes, sizes, no_overlap. t with t_update written at the slice that
/// DynamicSlice would cut.
BuiltOp dynamic_update(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                       const DynamicUpdateAttributes& attributes, std::string_view name = {});

struct DynamicUpdateInplaceAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Writes into input 0 in place. Inputs: 0 t, 1 index (int32 or uint32, one element per axis), 2
/// t_update (shape of the slice, dtype of t). Attributes: axes, sizes, no_overlap. t with t_update
/// written at the slice that DynamicSlice would cut.
BuiltOp dynamic_update_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                               const DynamicUpdateInplaceAttributes& attributes,
                               std::string_view name = {});

struct DynamicUpdateToUpdateGradAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 g, 1 index. Attributes: axes, sizes, no_overlap. g with the slice set to 0.
BuiltOp dynamic_update_to_update_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                      const DynamicUpdateToUpdateGradAttributes& attributes,
                                      std::string_view name = {});

struct DynamicUpdateUpdaterGradAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 g, 1 index. Attributes: axes, sizes, no_overlap. The slice of g.
BuiltOp dynamic_update_updater_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                    const DynamicUpdateUpdaterGradAttributes& attributes,
                                    std::string_view name = {});

/// bool: input 0 == input 1, with broadcasting.
BuiltOp equal(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Error function 2 / sqrt(pi) * integral of e^(-t^2) from 0 to x of input 0.
BuiltOp erf(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * 2 / sqrt(pi) * e^(-x^2) for inputs g, x.
BuiltOp erf_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// 1 - erf(x) of input 0, accurate where it is small.
BuiltOp erfc(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// -g * 2 / sqrt(pi) * e^(-x^2) for inputs g, x.
BuiltOp erfc_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// e^x of input 0.
BuiltOp exp(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * out for inputs g, out.
BuiltOp exp_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Writes e^x to input 0.
BuiltOp exp_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// e^x - 1 of input 0, accurate where x is small.
BuiltOp expm1(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * (out + 1) for inputs g, out.
BuiltOp expm1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct FillAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> value;
};
/// A new tensor of attributes shape and dtype with every element equal to attribute value. A
/// kernel.
BuiltOp fill(OpBuilder& builder, const FillAttributes& attributes, std::string_view name = {});

/// Input 0 rounded down to an integer; integer dtypes stay as they are.
BuiltOp floor(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// Remainder of input 0 / input 1 with the sign of input 0, with broadcasting. The divisor has no
/// gradient.
BuiltOp fmod(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct FmodArg0GradAttributes {
  Required<Ints> shape;
};
/// Input g. Summed to attribute shape.
BuiltOp fmod_arg0_grad(OpBuilder& builder, Tensor* input0, const FmodArg0GradAttributes& attributes,
                       std::string_view name = {});

struct FoldAttributes {
  Required<Ints> kernel_size;
  Required<Ints> output_size;
  std::optional<Ints> strides = std::nullopt;
  std::optional<Ints> pads = std::nullopt;
  std::optional<Ints> dilations = std::nullopt;
};
/// col2im. Inputs: 0 t (N, C * elements of the kernel, windows), as Unfold makes it. Attributes:
/// output_size (the spatial dimensions). Attributes: kernel_size, strides, pads (begins, then
/// ends), dilations (default 1, 0, 1). Kernels see all of them. Output (N, C, output_size...): for
/// every element the sum over the windows that cover it.
BuiltOp fold(OpBuilder& builder, Tensor* input0, const FoldAttributes& attributes,
             std::string_view name = {});

struct GatherAttributes {
  Required<std::int64_t> axis;
  std::optional<std::int64_t> group_size = std::nullopt;
  std::optional<bool> zero_oor = std::nullopt;
};
/// numpy.take. Inputs: 0 t, 1 indices (integer, read as unsigned). Attributes: axis, group_size
/// (default 1; above 1: dimension 0 of t and indices are groups, take(t[b], indices[b], axis - 1)),
/// zero_oor (default false). Output t.shape[:axis] + indices.shape + t.shape[axis+1:]. Indices out
/// of range give zeros with zero_oor, else unspecified values.
BuiltOp gather(OpBuilder& builder, Tensor* input0, Tensor* input1,
               const GatherAttributes& attributes, std::string_view name = {});

struct GatherElementsAttributes {
  Required<std::int64_t> axis;
};
/// Internal. Inputs: 0 t, 1 indices (integer, rank of t, non-negative; no other dimension larger
/// than t's). Attributes: axis. out[p] = t[p with coordinate axis replaced by indices[p]]; out of
/// range gives 0. Output: shape of indices, dtype of t.
BuiltOp gather_elements(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        const GatherElementsAttributes& attributes, std::string_view name = {});

struct GatherGradAttributes {
  Required<std::int64_t> axis;
  Required<Ints> input_shape;
  std::optional<std::int64_t> group_size = std::nullopt;
};
/// Inputs: 0 g (gradient of a Gather's output), 1 indices. Attributes: axis, group_size (default
/// 1), input_shape (shape of the gathered tensor). Adds the rows of g into zeros of input_shape at
/// their indices; indices out of range contribute nothing.
BuiltOp gather_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const GatherGradAttributes& attributes, std::string_view name = {});

/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) of input 0.
BuiltOp gelu(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// 0.5 x (1 + erf(x / sqrt 2)) of input 0.
BuiltOp gelu_erf(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// For inputs g, x: g (Phi(x) + x phi(x)) with the standard normal Phi and phi.
BuiltOp gelu_erf_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      std::string_view name = {});

/// Writes 0.5 x (1 + erf(x / sqrt 2)) to input 0.
BuiltOp gelu_erf_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// For inputs g, x: g times the derivative of the tanh form of gelu at x.
BuiltOp gelu_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Writes 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) to input 0.
BuiltOp gelu_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// bool: input 0 > input 1, with broadcasting.
BuiltOp greater(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct GroupNormalizationAttributes {
  Required<std::int64_t> num_groups;
  Required<double> eps;
  std::optional<bool> strided_channel_grouping = std::nullopt;
};
/// Inputs: 0 t (N, C, ...), 1 weight (C,), 2 bias (C,). Attributes: num_groups, eps,
/// strided_channel_grouping (default false: group of channel c is c / (C / num_groups), true: c %
/// num_groups). Statistics in float32 per sample and group over its channels and all trailing
/// dimensions, biased variance: y = (x - mean) / sqrt(var + eps) * weight + bias. Outputs: 0 y, 1
/// mean, 2 1 / sqrt(var + eps), the latter two of shape (N * num_groups,) and t's dtype.
BuiltOp group_normalization(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                            const GroupNormalizationAttributes& attributes,
                            std::string_view name = {});

struct GroupNormalizationGradAttributes {
  Required<std::int64_t> num_groups;
  Required<double> eps;
  std::optional<bool> strided_channel_grouping = std::nullopt;
};
/// Inputs: 0 g, 1 t, 2 weight, 3 mean, 4 inv_std (saved by GroupNormalization). Attributes as
/// there. With xhat = (t - mean) * inv_std and h = g * weight, per sample and group: dx = inv_std *
/// (h - mean(h) - xhat * mean(h * xhat)). Outputs: 0 dx, 1 dweight = sum(g * xhat), 2 dbias =
/// sum(g) per channel.
BuiltOp group_normalization_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                 Tensor* input3, Tensor* input4,
                                 const GroupNormalizationGradAttributes& attributes,
                                 std::string_view name = {});

struct HistogramAttributes {
  Required<Floats> levels;
  Required<bool> absolute_of_input;
};
/// Inputs: 0 t (float16, bfloat16 or float32). Attributes: levels (strictly increasing),
/// absolute_of_input. uint32 counts, shape (len(levels) + 1,): x < l0, l[i-1] <= x < l[i], x >=
/// l[-1]; of |x| with absolute_of_input.
BuiltOp histogram(OpBuilder& builder, Tensor* input0, const HistogramAttributes& attributes,
                  std::string_view name = {});

struct HostCallAttributes {
  Required<std::string> function;
  Required<std::string> output_dtypes;
  Required<Ints> output_ranks;
  Required<Ints> output_sizes;
  std::optional<std::string> gradient = std::nullopt;
};
/// What the host's function called attribute function gives for the inputs. Its outputs have the
/// dtypes of attribute output_dtypes (names, a comma between two), and shapes of as many dimensions
/// as attribute output_ranks says, with the sizes of attribute output_sizes, one output after the
/// other. Attribute gradient: the function that gets the inputs, the outputs and the gradients of
/// the outputs that are floats, and gives the gradients of the inputs that are floats.
BuiltOp host_call(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                  const HostCallAttributes& attributes, std::string_view name = {});

struct HostLoadAttributes {
  Required<std::string> stream;
};
/// The next element of the host-to-device stream whose handle is called attribute stream. Input 0
/// (an Init) gives shape and dtype.
BuiltOp host_load(OpBuilder& builder, Tensor* input0, const HostLoadAttributes& attributes,
                  std::string_view name = {});

struct HostStoreAttributes {
  Required<std::string> stream;
};
/// Appends input 0 to the device-to-host stream whose handle is called attribute stream.
BuiltOp host_store(OpBuilder& builder, Tensor* input0, const HostStoreAttributes& attributes,
                   std::string_view name = {});

/// The value of input 0 under another name.
BuiltOp identity(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// The value of input g.
BuiltOp identity_grad(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct IfAttributes {
  Required<std::int64_t> num_then_inputs;
};
/// Runs the first called graph if input 0 (bool, one element) is true, else the second. Inputs 1..
/// are those of the first graph (attribute num_then_inputs of them), then those of the second.
BuiltOp conditional(OpBuilder& builder, Graph& graph0, Graph& graph1,
                    const std::vector<Tensor*>& inputs, const IfAttributes& attributes,
                    std::string_view name = {});

struct IncrementModAttributes {
  Required<double> increment;
  Required<double> modulus;
};
/// rem(x + attribute increment, attribute modulus) of input 0: the remainder with the sign of the
/// dividend. Integers use truncated attributes, and the sum wraps in their dtype. No 64-bit dtypes.
BuiltOp increment_mod(OpBuilder& builder, Tensor* input0, const IncrementModAttributes& attributes,
                      std::string_view name = {});

struct IncrementModInplaceAttributes {
  Required<double> increment;
  Required<double> modulus;
};
/// Writes rem(x + attribute increment, attribute modulus) to input 0.
BuiltOp increment_mod_inplace(OpBuilder& builder, Tensor* input0,
                              const IncrementModInplaceAttributes& attributes,
                              std::string_view name = {});

struct InitAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<std::string> init_type;
  std::optional<Ints> meta_shape = std::nullopt;
};
/// A new tensor of attributes shape, dtype and (optional) meta_shape. Attribute init_type: zero, or
/// undef for unspecified contents.
BuiltOp init(OpBuilder& builder, const InitAttributes& attributes, std::string_view name = {});

/// Input 0 moved between the compute and the io tiles.
BuiltOp io_tile_copy(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// bool: whether input 0 is +inf or -inf (false for integers).
BuiltOp is_inf(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// bool: whether input 0 is NaN (false for integers).
BuiltOp is_na_n(OpBuilder& builder, Tensor* input0, std::string_view name = {});

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

/// ln x of input 0.
BuiltOp log(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// ln(1 + x) of input 0, accurate where x is small.
BuiltOp log1p(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g / (1 + x) for inputs g, x.
BuiltOp log1p_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// g / x for inputs g, x.
BuiltOp log_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct LoopAttributes {
  Required<std::int64_t> trip_count;
  std::optional<Ints> modified = std::nullopt;
};
/// Runs the called graph attribute trip_count times. Its inputs are the iteration (int32), a
/// condition (bool) and inputs 2.. of the op; its outputs the condition and the values carried to
/// inputs 2.. of the next iteration, which are the outputs of the op. Inputs 0 and 1 are not
/// connected. Inputs in attribute modified, and by-reference inputs, are written back.
BuiltOp loop(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
             const LoopAttributes& attributes, std::string_view name = {});

struct MatMulAttributes {
  std::optional<DType> output_type = std::nullopt;
  std::optional<DType> partials_type = std::nullopt;
  std::optional<double> available_memory_proportion = std::nullopt;
  std::optional<Ints> lhs_band = std::nullopt;
  std::optional<Ints> rhs_band = std::nullopt;
  std::optional<Ints> out_band = std::nullopt;
};
/// NumPy matmul of inputs 0 and 1. Attribute output_type: dtype of the result (default: of input
/// 0). Operands and result of several dtypes: multiplied in float32 (float64 where one is that),
/// rounded once. With float8 operands input 2 is a scalar int32 log2 scale and the result
/// float16(product * 2^scale). partials_type and available_memory_proportion are kept for readers;
/// sums are float32 (float64 for float64). A kernel for matrices with equal batch dimensions. What
/// the pass bands knows of those: lhs_band and rhs_band [lower, upper]: elements (i, j) without
/// -lower <= j - i <= upper are 0; out_band: nobody reads those, and what they become is not
/// specified.
BuiltOp mat_mul(OpBuilder& builder, Tensor* input0, Tensor* input1,
                const MatMulAttributes& attributes = {}, Tensor* input2 = nullptr,
                std::string_view name = {});

struct MatMulLhsGradAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
};
/// g rhs^T for inputs g, rhs, summed to attribute shape, in attribute dtype.
BuiltOp mat_mul_lhs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const MatMulLhsGradAttributes& attributes, std::string_view name = {});

struct MatMulRhsGradAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
};
/// lhs^T g for inputs g, lhs, summed to attribute shape, in attribute dtype.
BuiltOp mat_mul_rhs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const MatMulRhsGradAttributes& attributes, std::string_view name = {});

/// Elementwise maximum of one or more inputs, with broadcasting. Every input that equals the output
/// gets the full gradient.
BuiltOp max(OpBuilder& builder, const std::vector<Tensor*>& inputs, std::string_view name = {});

struct MaxArgGradAttributes {
  Required<Ints> shape;
};
/// For inputs g, x, out: g where x equals out, else 0. Summed to attribute shape.
BuiltOp max_arg_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                     const MaxArgGradAttributes& attributes, std::string_view name = {});

struct MaxPoolAttributes {
  Required<Ints> kernel_size;
  std::optional<Ints> strides = std::nullopt;
  std::optional<Ints> pads = std::nullopt;
  std::optional<Ints> dilations = std::nullopt;
  std::optional<std::string> pad_type = std::nullopt;
  std::optional<bool> ceil_mode = std::nullopt;
  std::optional<Ints> out_pads = std::nullopt;
  std::optional<Ints> in_dilations = std::nullopt;
  std::optional<bool> channel_last = std::nullopt;
  std::optional<std::string> storage_order = std::nullopt;
  std::optional<std::string> ties = std::nullopt;
};
/// Inputs: 0 t (N, C, spatial...). Attributes: kernel_size, strides, pads (begins, then ends),
/// dilations (default 1, 0, 1), pad_type (not_set, same_upper, same_lower, valid), ceil_mode,
/// out_pads (only 0), in_dilations (only 1), channel_last (default false: else t is (N, spatial...,
/// C)). Kernels see explicit kernel_size, strides, pads and dilations only. storage_order (only
/// row). Padding counts as -infinity. Attribute ties: of several elements that are a window's
/// maximum, all get its gradient (default), or first: the first in C order, or the last NaN.
BuiltOp max_pool(OpBuilder& builder, Tensor* input0, const MaxPoolAttributes& attributes,
                 std::string_view name = {});

struct MaxPoolGradAttributes {
  Required<Ints> kernel_size;
  Required<Ints> strides;
  Required<Ints> pads;
  Required<Ints> dilations;
  std::optional<bool> channel_last = std::nullopt;
  std::optional<std::string> ties = std::nullopt;
};
/// Inputs: 0 t, 1 out (MaxPool of t), 2 g. Attributes: kernel_size, strides, pads, dilations,
/// channel_last; ties: of several elements that are a window's maximum, all get its gradient
/// (default), or first: the first in C order, or the last NaN.
BuiltOp max_pool_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      const MaxPoolGradAttributes& attributes, std::string_view name = {});

/// Inputs: 0 seed (2,) uint32, 1 modifier (uint32 scalar). [seed[0], a fresh uniform word drawn
/// with key (seed[0], seed[1] + modifier)].
BuiltOp modify_random_seed(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           std::string_view name = {});

/// Internal, pointwise ModifyRandomSeed. Inputs: 0 and 1 the words of the seed, 2 the modifier.
BuiltOp modify_random_seed_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                std::string_view name = {});

/// Input 0 * input 1, with broadcasting. A float16 or bfloat16 tensor times a float32 tensor of one
/// element keeps its dtype.
BuiltOp mul(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct MulArg0GradAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
};
/// g * rhs for inputs g, rhs. Summed to attribute shape, in attribute dtype.
BuiltOp mul_arg0_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const MulArg0GradAttributes& attributes, std::string_view name = {});

struct MulArg1GradAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
};
/// g * lhs for inputs g, lhs. Summed to attribute shape, in attribute dtype.
BuiltOp mul_arg1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const MulArg1GradAttributes& attributes, std::string_view name = {});

/// -x of input 0.
BuiltOp neg(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// -g of input g.
BuiltOp neg_grad(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct NllAttributes {
  Required<std::string> reduction;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  std::optional<bool> log_prob = std::nullopt;
};
/// Inputs: 0 probs (D1..Dk, classes), 1 labels (D1..Dk) of an integer dtype. Attributes: reduction
/// (mean, sum, none), ignore_index (optional), log_prob. Per label: -ln(max(p, eps)), eps 1e-7
/// (float16: 6.104e-5), or -p with log_prob; labels out of range have p = 0; ignored ones give 0.
/// mean divides by the number of labels, with ignore_index by max(kept, 1). Output: loss, dtype of
/// probs, shape () or that of labels.
BuiltOp nll(OpBuilder& builder, Tensor* input0, Tensor* input1, const NllAttributes& attributes,
            std::string_view name = {});

struct NllGradAttributes {
  Required<std::string> reduction;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  std::optional<bool> log_prob = std::nullopt;
};
/// Inputs: 0 g (gradient of the loss), 1 probs, 2 labels. Attributes as Nll. Output: gradient of
/// probs: g * k * -1/max(p, e) at the label (log_prob: -g * k), 0 elsewhere; e 1e-10 (float16:
/// 6.104e-5); k is 1/M or 1/max(kept, 1) for mean, else 1.
BuiltOp nll_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                 const NllGradAttributes& attributes, std::string_view name = {});

struct NlllWithSoftmaxGradDirectAttributes {
  Required<std::string> reduction;
  std::optional<std::int64_t> ignore_index = std::nullopt;
};
/// Inputs: 0 probs = softmax(logits) (D1..Dk, classes), 1 labels (any shape of D1 * .. * Dk
/// elements, in row-major order), 2 loss_grad (optional; scalar, or label-shaped for none; float16,
/// bfloat16 or float32). Attributes: reduction (mean, sum, none), ignore_index (optional). Outputs:
/// 0 loss: -ln(p + 1e-7) reduced as Nll (never scaled by loss_grad), 1 dx = (probs -
/// onehot(labels)) * loss_grad * k, k = 1/M or 1/max(kept, 1) for mean, else 1; rows of ignored
/// labels are 0.
BuiltOp nlll_with_softmax_grad_direct(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                      const NlllWithSoftmaxGradDirectAttributes& attributes,
                                      Tensor* input2 = nullptr, std::string_view name = {});

/// Logical not of a bool input.
BuiltOp logical_not(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct OneHotAttributes {
  Required<std::int64_t> num_classes;
  Required<std::int64_t> axis;
};
/// Inputs: 0 indices (integer), 1 values = [off, on]. Attributes: num_classes, axis (-1: new last
/// dimension, else where it is inserted). on where the class number equals the index, off
/// elsewhere. Dtype of values.
BuiltOp one_hot(OpBuilder& builder, Tensor* input0, Tensor* input1,
                const OneHotAttributes& attributes, std::string_view name = {});

struct OneHotGradAttributes {
  Required<std::int64_t> num_classes;
  Required<std::int64_t> axis;
};
/// Inputs: 0 g, 1 indices. Attributes: num_classes, axis. Gradient of OneHot's values: [sum of g
/// where off, sum of g where on].
BuiltOp one_hot_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const OneHotGradAttributes& attributes, std::string_view name = {});

/// Logical or of two bool inputs, with broadcasting.
BuiltOp logical_or(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct PadAttributes {
  Required<Ints> pads;
  Required<std::string> mode;
  std::optional<double> value = std::nullopt;
};
/// Inputs: 0 t. Attributes: pads (elements before each dimension, then after each; negative ones,
/// in the constant mode only, leave away so many), mode (constant; reflect: the elements next to
/// the edge, backwards, without the edge itself; edge: the edge repeated), value (default 0, of the
/// constant mode).
BuiltOp pad(OpBuilder& builder, Tensor* input0, const PadAttributes& attributes,
            std::string_view name = {});

struct PadGradAttributes {
  Required<Ints> pads;
  Required<std::string> mode;
  Required<Ints> input_shape;
};
/// Inputs: 0 g (gradient of a Pad's output). Attributes: pads, mode (of the Pad), input_shape. For
/// every element of the padded tensor the sum of g where its value went.
BuiltOp pad_grad(OpBuilder& builder, Tensor* input0, const PadGradAttributes& attributes,
                 std::string_view name = {});

struct PadIntoAttributes {
  Required<Ints> shape;
  Required<Ints> starts;
  Required<Ints> steps;
};
/// Zeros of attribute shape with element i of input 0 at starts[d] + steps[d] i[d] in every
/// dimension d. A kernel.
BuiltOp pad_into(OpBuilder& builder, Tensor* input0, const PadIntoAttributes& attributes,
                 std::string_view name = {});

/// Input 0 to the power of input 1, with broadcasting. Integers: modulo 2^bits; with a negative
/// exponent 1 and -1 keep their powers, all others give 0.
BuiltOp pow(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct Pow2ScaleAttributes {
  Required<DType> dtype;
};
/// dtype(input 0 * 2^input 1) for a float input 0; rounded once. What the scaled products of float8
/// expand to.
BuiltOp pow2_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const Pow2ScaleAttributes& attributes, std::string_view name = {});

struct Pow2ScaleThenCastAttributes {
  Required<DType> dtype;
};
/// float8(input 0 * 2^input 1), float8 format in attribute dtype; rounds to nearest even, out of
/// range becomes NaN.
BuiltOp pow2_scale_then_cast(OpBuilder& builder, Tensor* input0, Tensor* input1,
                             const Pow2ScaleThenCastAttributes& attributes,
                             std::string_view name = {});

struct PowArg0GradAttributes {
  Required<Ints> shape;
};
/// For inputs g, x, e: g e x^(e-1), and 0 where e is 0. Summed to attribute shape.
BuiltOp pow_arg0_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      const PowArg0GradAttributes& attributes, std::string_view name = {});

struct PowArg1GradAttributes {
  Required<Ints> shape;
};
/// For inputs g, x, e, out: g out ln x, and 0 where x is 0 and e is not negative. Summed to
/// attribute shape.
BuiltOp pow_arg1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      Tensor* input3, const PowArg1GradAttributes& attributes,
                      std::string_view name = {});

struct PrintTensorAttributes {
  Required<std::string> title;
  Required<bool> print_self;
  Required<bool> print_gradient;
  Required<std::int64_t> summarise_threshold;
  Required<std::int64_t> edge_items;
  Required<std::int64_t> max_line_width;
  Required<std::int64_t> digits;
  Required<std::string> float_format;
  Required<std::string> separator;
  Required<std::string> open_bracket;
  Required<std::string> close_bracket;
};
/// The value of input 0; prints it to standard error with attribute title every time it runs if
/// attribute print_self is set. The gradient does so under the title with '_gradient' if attribute
/// print_gradient is set. The others describe the text: summarise_threshold, edge_items,
/// max_line_width, digits, float_format (auto, fixed, scientific, none), separator, open_bracket,
/// close_bracket (one character each).
BuiltOp print_tensor(OpBuilder& builder, Tensor* input0, const PrintTensorAttributes& attributes,
                     std::string_view name = {});

struct RandomNormalAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> mean;
  Required<double> std;
};
/// Inputs: 0 seed (2,) uint32. Attributes: shape, dtype (float16, bfloat16, float32), mean, std.
/// Normally distributed.
BuiltOp random_normal(OpBuilder& builder, Tensor* input0, const RandomNormalAttributes& attributes,
                      std::string_view name = {});

struct RandomNormalCoreAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> mean;
  Required<double> std;
};
/// Internal, pointwise RandomNormal. Inputs: 0 and 1 the words of the seed. Attributes as there.
BuiltOp random_normal_core(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const RandomNormalCoreAttributes& attributes,
                           std::string_view name = {});

struct RandomUniformAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> low;
  Required<double> high;
};
/// Inputs: 0 seed (2,) uint32. Attributes: shape, dtype (float16, bfloat16, float32), low, high.
/// Uniform in [low, high).
BuiltOp random_uniform(OpBuilder& builder, Tensor* input0,
                       const RandomUniformAttributes& attributes, std::string_view name = {});

struct RandomUniformCoreAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> low;
  Required<double> high;
};
/// Internal, pointwise RandomUniform. Inputs: 0 and 1 the words of the seed. Attributes as there.
BuiltOp random_uniform_core(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const RandomUniformCoreAttributes& attributes,
                            std::string_view name = {});

struct RecurrentSequenceAttributes {
  Required<std::string> cell;
  std::optional<bool> reverse = std::nullopt;
};
/// All steps of a recurrent layer in one direction. Inputs: 0 parts (steps, batch, gates * hidden),
/// what the inputs add to the gates, 1 weights W (gates * hidden, hidden), 2 bias (gates * hidden,
/// only gru), 3 first state (batch, hidden), 4 first cell state (only lstm); absent states are 0.
/// Attributes: cell, reverse (from the last step to the first; default false). With p = parts and q
/// = W h: lstm (gates i, f, g, o): c = s(pf + qf) c + s(pi + qi) tanh(pg + qg), h = s(po + qo)
/// tanh(c); gru (r, z, n; q with the bias): n = tanh(pn + s(pr + qr) qn), h = (1 - s(pz + qz)) n +
/// s(pz + qz) h; tanh, relu: h = f(p + q). Outputs: 0 the states h (steps, batch, hidden), 1 (lstm,
/// gru) gates for the gradient (steps, batch, 4 * hidden): i, f, g, o or r, z, n, qn, 2 (lstm) the
/// cell states.
BuiltOp recurrent_sequence(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const RecurrentSequenceAttributes& attributes, Tensor* input2 = nullptr,
                           Tensor* input3 = nullptr, Tensor* input4 = nullptr,
                           std::string_view name = {});

struct RecurrentSequenceGradAttributes {
  Required<std::string> cell;
  std::optional<bool> reverse = std::nullopt;
};
/// Inputs: 0 weights, 1 states (output 0 of RecurrentSequence), 2 gradient of the states, 3
/// gradient of the cell states, 4 gates (output 1), 5 cell states (output 2), 6 first state, 7
/// first cell state; absent gradients and states are 0. Attributes: those of RecurrentSequence.
/// Outputs: 0 gradient of the parts, 1 gradient of the first state, 2 lstm: gradient of the first
/// cell state; gru: gradient of W h + bias (steps, batch, gates * hidden), which is that of the
/// parts for the other cells.
BuiltOp recurrent_sequence_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                Tensor* input3, Tensor* input4, Tensor* input5, Tensor* input6,
                                Tensor* input7, const RecurrentSequenceGradAttributes& attributes,
                                std::string_view name = {});

struct ReduceL1Attributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Sum of |x| of input 0 over attribute axes.
BuiltOp reduce_l1(OpBuilder& builder, Tensor* input0, const ReduceL1Attributes& attributes,
                  std::string_view name = {});

struct ReduceL1GradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// g sign(x) for inputs g, x. Attributes axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_l1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ReduceL1GradAttributes& attributes, std::string_view name = {});

struct ReduceL2Attributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Square root of the sum of x^2 of input 0 over attribute axes. float16 and bfloat16: in float32,
/// rounded once at the end.
BuiltOp reduce_l2(OpBuilder& builder, Tensor* input0, const ReduceL2Attributes& attributes,
                  std::string_view name = {});

struct ReduceL2GradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// g x / out for inputs g, x, out; NaN where out is 0. Attributes axes and shape (of x): g and out
/// broadcast over the axes.
BuiltOp reduce_l2_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                       const ReduceL2GradAttributes& attributes, std::string_view name = {});

struct ReduceLogSumAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// ln of the sum of input 0 over attribute axes. float16 and bfloat16: in float32, rounded once at
/// the end.
BuiltOp reduce_log_sum(OpBuilder& builder, Tensor* input0, const ReduceLogSumAttributes& attributes,
                       std::string_view name = {});

struct ReduceLogSumExpAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// m + ln of the sum of e^(x - m) over attribute axes, m the maximum; 0 where that is infinite.
/// float16 and bfloat16: in float32, rounded once at the end.
BuiltOp reduce_log_sum_exp(OpBuilder& builder, Tensor* input0,
                           const ReduceLogSumExpAttributes& attributes, std::string_view name = {});

struct ReduceLogSumExpGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// g e^(x - out) for inputs g, x, out. Attributes axes and shape (of x): g and out broadcast over
/// the axes.
BuiltOp reduce_log_sum_exp_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                const ReduceLogSumExpGradAttributes& attributes,
                                std::string_view name = {});

struct ReduceLogSumGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// g / (sum of x) for inputs g, x. float16 and bfloat16: the sum and its share in float32.
/// Attributes axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_log_sum_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const ReduceLogSumGradAttributes& attributes,
                            std::string_view name = {});

struct ReduceMaxAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Maximum of input 0 over attribute axes. A kernel.
BuiltOp reduce_max(OpBuilder& builder, Tensor* input0, const ReduceMaxAttributes& attributes,
                   std::string_view name = {});

struct ReduceMaxGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// For inputs g, x, out: g where x equals out, else 0. Attributes axes and shape (of x): g and out
/// broadcast over the axes.
BuiltOp reduce_max_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        const ReduceMaxGradAttributes& attributes, std::string_view name = {});

struct ReduceMeanAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Sum of input 0 over attribute axes, then divided by their size n. float16 and bfloat16: both in
/// float32, rounded once at the end; integers of less than 32 bits: both in int32.
BuiltOp reduce_mean(OpBuilder& builder, Tensor* input0, const ReduceMeanAttributes& attributes,
                    std::string_view name = {});

struct ReduceMeanGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// Input g / n, n the size of the axes. float16 and bfloat16: divided in float32. Attributes axes
/// and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_mean_grad(OpBuilder& builder, Tensor* input0,
                         const ReduceMeanGradAttributes& attributes, std::string_view name = {});

struct ReduceMedianAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Lower median of input 0 over attribute axes: element (n - 1) / 2 of the n reduced elements in
/// ascending order. Output 1: its position (int32) among them in C order; the lowest of equals. A
/// kernel.
BuiltOp reduce_median(OpBuilder& builder, Tensor* input0, const ReduceMedianAttributes& attributes,
                      std::string_view name = {});

struct ReduceMedianGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// For inputs g, position: g at the selected element, else 0. Attributes axes and shape (of x): g
/// and out broadcast over the axes.
BuiltOp reduce_median_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const ReduceMedianGradAttributes& attributes,
                           std::string_view name = {});

struct ReduceMinAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Minimum of input 0 over attribute axes. A kernel.
BuiltOp reduce_min(OpBuilder& builder, Tensor* input0, const ReduceMinAttributes& attributes,
                   std::string_view name = {});

struct ReduceMinGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// For inputs g, x, out: g where x equals out, else 0. Attributes axes and shape (of x): g and out
/// broadcast over the axes.
BuiltOp reduce_min_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        const ReduceMinGradAttributes& attributes, std::string_view name = {});

struct ReduceProdAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Product of input 0 over attribute axes. A kernel.
BuiltOp reduce_prod(OpBuilder& builder, Tensor* input0, const ReduceProdAttributes& attributes,
                    std::string_view name = {});

struct ReduceProdGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// For inputs g, x: g times the product of the other elements of x, without a division. Attributes
/// axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_prod_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const ReduceProdGradAttributes& attributes, std::string_view name = {});

struct ReduceSumAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Sum of input 0 over attribute axes. A kernel.
BuiltOp reduce_sum(OpBuilder& builder, Tensor* input0, const ReduceSumAttributes& attributes,
                   std::string_view name = {});

struct ReduceSumGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// Input g. Attributes axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_sum_grad(OpBuilder& builder, Tensor* input0,
                        const ReduceSumGradAttributes& attributes, std::string_view name = {});

struct ReduceSumSquareAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Sum of x^2 of input 0 over attribute axes.
BuiltOp reduce_sum_square(OpBuilder& builder, Tensor* input0,
                          const ReduceSumSquareAttributes& attributes, std::string_view name = {});

struct ReduceSumSquareGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// 2 g x for inputs g, x. Attributes axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_sum_square_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const ReduceSumSquareGradAttributes& attributes,
                               std::string_view name = {});

/// max(x, 0) of input 0; NaN stays NaN.
BuiltOp relu(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// For inputs g, out: g where out > 0, else 0.
BuiltOp relu_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Writes max(x, 0) to input 0.
BuiltOp relu_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct RemoteCodeLoadAttributes {
  Required<std::string> graph;
  Required<std::string> destination;
};
/// Asks that the code of the graph with id attribute graph be present at attribute destination
/// (executable). Code always is.
BuiltOp remote_code_load(OpBuilder& builder, const RemoteCodeLoadAttributes& attributes,
                         std::string_view name = {});

struct RemoteLoadAttributes {
  Required<std::int64_t> buffer;
};
/// Entry input 1 (int32 or uint32 scalar) of the remote buffer with id attribute buffer. Input 0
/// (an Init) gives shape and dtype.
BuiltOp remote_load(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const RemoteLoadAttributes& attributes, std::string_view name = {});

struct RemoteLoadInplaceAttributes {
  Required<std::int64_t> buffer;
};
/// Overwrites input 0 with entry input 1 of the remote buffer with id attribute buffer.
BuiltOp remote_load_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const RemoteLoadInplaceAttributes& attributes,
                            std::string_view name = {});

struct RemoteStoreAttributes {
  Required<std::int64_t> buffer;
};
/// Writes input 0 to entry input 1 (int32 or uint32 scalar) of the remote buffer with id attribute
/// buffer.
BuiltOp remote_store(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const RemoteStoreAttributes& attributes, std::string_view name = {});

struct ReplicatedAllGatherAttributes {
  Required<Ints> shape;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// The elements of input 0 of all members of the group in order, cut to the size of attribute
/// shape.
BuiltOp replicated_all_gather(OpBuilder& builder, Tensor* input0,
                              const ReplicatedAllGatherAttributes& attributes,
                              std::string_view name = {});

struct ReplicatedAllReduceAttributes {
  Required<std::string> op;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// The reduction (attribute op) of input 0 over the group, on every member. In a group of one
/// replica: input 0, or its square.
BuiltOp replicated_all_reduce(OpBuilder& builder, Tensor* input0,
                              const ReplicatedAllReduceAttributes& attributes,
                              std::string_view name = {});

struct ReplicatedAllReduceInplaceAttributes {
  Required<std::string> op;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// Overwrites input 0 with its reduction (attribute op) over the group.
BuiltOp replicated_all_reduce_inplace(OpBuilder& builder, Tensor* input0,
                                      const ReplicatedAllReduceInplaceAttributes& attributes,
                                      std::string_view name = {});

struct ReplicatedReduceScatterAttributes {
  Required<std::string> op;
  Required<bool> sharded;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// Part i of the flattened reduction of input 0 over the group, padded with zeros to equal parts,
/// on member i. With op `local` every member cuts its own input. Attribute sharded: the result
/// keeps the shape of input 0 as its meta shape.
BuiltOp replicated_reduce_scatter(OpBuilder& builder, Tensor* input0,
                                  const ReplicatedReduceScatterAttributes& attributes,
                                  std::string_view name = {});

struct ReshapeAttributes {
  Required<Ints> shape;
};
/// Input 0 in C order under attribute shape (no -1, same number of elements).
BuiltOp reshape(OpBuilder& builder, Tensor* input0, const ReshapeAttributes& attributes,
                std::string_view name = {});

struct ReshapeGradAttributes {
  Required<Ints> shape;
};
/// Input g under attribute shape.
BuiltOp reshape_grad(OpBuilder& builder, Tensor* input0, const ReshapeGradAttributes& attributes,
                     std::string_view name = {});

struct ReshapeInplaceAttributes {
  Required<Ints> shape;
};
/// An alias of input 0 under attribute shape.
BuiltOp reshape_inplace(OpBuilder& builder, Tensor* input0,
                        const ReshapeInplaceAttributes& attributes, std::string_view name = {});

struct ResizeAttributes {
  Required<Floats> scales;
  Required<std::string> mode;
  Required<std::string> nearest_mode;
  Required<std::string> coordinate_transformation_mode;
};
/// Inputs: 0 t. Attributes: scales (one per dimension), mode (nearest, linear, cubic), nearest_mode
/// (round_prefer_floor, round_prefer_ceil, floor, ceil), coordinate_transformation_mode
/// (half_pixel, pytorch_half_pixel, asymmetric, align_corners). Output dimensions floor(dim *
/// scale); cubic is Keys' kernel with A = -0.75.
BuiltOp resize(OpBuilder& builder, Tensor* input0, const ResizeAttributes& attributes,
               std::string_view name = {});

struct ResizeGradAttributes {
  Required<Floats> scales;
  Required<std::string> mode;
  Required<std::string> nearest_mode;
  Required<std::string> coordinate_transformation_mode;
  Required<Ints> input_shape;
};
/// Inputs: 0 g. Attributes: those of Resize and input_shape. The transpose of Resize.
BuiltOp resize_grad(OpBuilder& builder, Tensor* input0, const ResizeGradAttributes& attributes,
                    std::string_view name = {});

struct RoiAlignAttributes {
  Required<Ints> output_size;
  Required<double> spatial_scale;
  Required<std::int64_t> sampling_ratio;
};
/// Inputs: 0 t (N, C, H, W), 1 rois (R, 4) as x1, y1, x2, y2, 2 batch_index (R,) int32. Attributes:
/// output_size (2), spatial_scale, sampling_ratio. torchvision's roi_align(aligned=False):
/// coordinates times spatial_scale, ROI sides at least 1, mean of sampling_ratio^2 bilinear samples
/// per bin (0 or less: ceil(bin size) per side). Output (R, C, output_size[0], output_size[1]),
/// dtype of t.
BuiltOp roi_align(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                  const RoiAlignAttributes& attributes, std::string_view name = {});

struct RoiAlignGradAttributes {
  Required<Ints> output_size;
  Required<double> spatial_scale;
  Required<std::int64_t> sampling_ratio;
  Required<Ints> input_shape;
};
/// Inputs: 0 g, 1 rois, 2 batch_index. Attributes: those of RoiAlign and input_shape. Gradient of
/// RoiAlign's data.
BuiltOp roi_align_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                       const RoiAlignGradAttributes& attributes, std::string_view name = {});

/// Internal. Inputs: 0 t (float), 1 scale (float scalar of any dtype). t * scale rounded once to
/// t's dtype.
BuiltOp scale_by_scalar(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        std::string_view name = {});

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

struct ScatterAttributes {
  Required<std::int64_t> axis;
};
/// ScatterElements. Inputs: 0 t, 1 indices (integer, non-negative), 2 values (shape of indices,
/// dtype of t). Attributes: axis. A copy of t in which, for each position p of indices, the element
/// p with coordinate axis replaced by indices[p] is values[p]; out of range is skipped.
BuiltOp scatter(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                const ScatterAttributes& attributes, std::string_view name = {});

struct ScatterArgReduceAttributes {
  Required<std::string> reduction;
  Required<std::int64_t> axis;
  std::optional<std::int64_t> axis_size = std::nullopt;
  std::optional<bool> index_broadcast = std::nullopt;
};
/// Inputs: 0 data, 1 indices (integer; data's shape, or a vector along axis), 2 initial_values
/// (optional). Attributes: reduction (min, max), axis, axis_size (when there are no initial
/// values), index_broadcast (default true; false: element semantics, indices may be smaller than
/// data). Outputs: 0 as ScatterReduce, 1 int32 of the same shape, the position along axis of the
/// element of data that each is: the first of equal ones; the size of data along axis where it is
/// an initial value, which beats equal elements, or no element came. NaN beats all. The gradient
/// goes to these elements alone.
BuiltOp scatter_arg_reduce(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const ScatterArgReduceAttributes& attributes, Tensor* input2 = nullptr,
                           std::string_view name = {});

struct ScatterArgReduceGradAttributes {
  Required<std::int64_t> axis;
  Required<Ints> input_shape;
  Required<bool> has_initial_values;
  std::optional<bool> index_broadcast = std::nullopt;
};
/// Inputs: 0 g, 1 indices, 2 positions (output 1 of ScatterArgReduce). Attributes: those of
/// ScatterArgReduce, input_shape (of data), has_initial_values. Outputs: 0 gradient of data: g at
/// the elements that the positions name, else 0, 1 gradient of initial_values when there are any: g
/// where no element is named, else 0.
BuiltOp scatter_arg_reduce_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                const ScatterArgReduceGradAttributes& attributes,
                                std::string_view name = {});

struct ScatterDataGradAttributes {
  Required<std::int64_t> axis;
};
/// Inputs: 0 g, 1 indices. Attributes: axis. g with the scattered positions set to 0.
BuiltOp scatter_data_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                          const ScatterDataGradAttributes& attributes, std::string_view name = {});

struct ScatterReduceAttributes {
  Required<std::string> reduction;
  Required<std::int64_t> axis;
  std::optional<std::int64_t> axis_size = std::nullopt;
  std::optional<std::int64_t> group_size = std::nullopt;
  std::optional<bool> index_broadcast = std::nullopt;
};
/// Inputs: 0 data, 1 indices (integer; data's shape, or a vector along axis), 2 initial_values
/// (optional). Attributes: reduction (sum, prod, min, max, none = overwrite), axis, axis_size (when
/// there are no initial values), group_size (default 1), index_broadcast (default true; false:
/// element semantics, indices may be smaller than data). For every position p the element p with
/// coordinate axis replaced by indices[p] is reduced with data[p]. Untouched positions are those of
/// initial_values, 0 without; without, only data takes part. Kernels see indices of data's shape
/// (maybe stride 0) and no group_size or index_broadcast; the output may be larger than data in the
/// other dimensions; out of range is skipped.
BuiltOp scatter_reduce(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ScatterReduceAttributes& attributes, Tensor* input2 = nullptr,
                       std::string_view name = {});

struct ScatterReduceGradOpAttributes {
  Required<std::string> reduction;
  Required<std::int64_t> axis;
  Required<Ints> input_shape;
  Required<bool> has_initial_values;
  std::optional<std::int64_t> group_size = std::nullopt;
  std::optional<bool> index_broadcast = std::nullopt;
};
/// Inputs: 0 g, 1 indices, 2 data, 3 initial_values, 4 output (2 to 4 only for prod, min and max).
/// Attributes: those of ScatterReduce, input_shape (of data), has_initial_values. Outputs: 0
/// gradient of data: g gathered (prod: times the other factors; min, max: where data equals the
/// output), 1 gradient of initial_values when there are any: g (prod: times the other factors;
/// none: 0 at written positions; min, max: where they equal the output).
BuiltOp scatter_reduce_grad_op(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const ScatterReduceGradOpAttributes& attributes,
                               Tensor* input2 = nullptr, Tensor* input3 = nullptr,
                               Tensor* input4 = nullptr, std::string_view name = {});

struct ScatterUpdateGradAttributes {
  Required<std::int64_t> axis;
};
/// Inputs: 0 g, 1 indices. Attributes: axis. g gathered at the scattered positions.
BuiltOp scatter_update_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const ScatterUpdateGradAttributes& attributes,
                            std::string_view name = {});

struct ShapedDropoutAttributes {
  Required<Ints> shape;
  Required<double> ratio;
};
/// Inputs: 0 t (float), 1 seed (2,) uint32. Attributes: shape, ratio. One mask of shape, broadcast
/// against t: 0 with probability ratio, else t / (1 - ratio). Its gradient is ShapedDropout of g
/// with the same seed.
BuiltOp shaped_dropout(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ShapedDropoutAttributes& attributes, std::string_view name = {});

/// 1 / (1 + e^-x) of input 0.
BuiltOp sigmoid(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g out (1 - out) for inputs g, out.
BuiltOp sigmoid_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     std::string_view name = {});

/// Writes 1 / (1 + e^-x) to input 0.
BuiltOp sigmoid_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// -1, 0 or 1 by the sign of input 0; NaN stays NaN.
BuiltOp sign(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// sin x of input 0 (radians).
BuiltOp sin(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * cos x for inputs g, x.
BuiltOp sin_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct SliceAttributes {
  Required<Ints> starts;
  Required<Ints> steps;
  Required<Ints> counts;
};
/// Elements starts[d] + steps[d] i, 0 <= i < counts[d], of every dimension d of input 0. All three
/// attributes have one entry per dimension; steps may be negative.
BuiltOp slice(OpBuilder& builder, Tensor* input0, const SliceAttributes& attributes,
              std::string_view name = {});

struct SliceGradAttributes {
  Required<Ints> shape;
  Required<Ints> starts;
  Required<Ints> steps;
};
/// Zeros of attribute shape with input g at starts[d] + steps[d] i.
BuiltOp slice_grad(OpBuilder& builder, Tensor* input0, const SliceGradAttributes& attributes,
                   std::string_view name = {});

struct SliceInplaceAttributes {
  Required<Ints> starts;
  Required<Ints> steps;
  Required<Ints> counts;
};
/// An alias of the window of input 0 that Slice describes.
BuiltOp slice_inplace(OpBuilder& builder, Tensor* input0, const SliceInplaceAttributes& attributes,
                      std::string_view name = {});

struct SoftmaxAttributes {
  Required<std::int64_t> axis;
  std::optional<double> scale = std::nullopt;
  std::optional<Ints> band = std::nullopt;
};
/// Inputs: 0 t (float). Attributes: axis, scale (default 1), band. t seen as [prod(shape[:axis]),
/// prod(shape[axis:])]: every row becomes exp(scale * (x - max)) / sum(exp(scale * (x - max))).
/// With band [lower, upper] (axis is the last) only of columns j of row i of each matrix with
/// -lower <= j - i <= upper; the others are not read and become 0.
BuiltOp softmax(OpBuilder& builder, Tensor* input0, const SoftmaxAttributes& attributes,
                std::string_view name = {});

struct SoftmaxGradAttributes {
  Required<std::int64_t> axis;
  std::optional<double> scale = std::nullopt;
  std::optional<Ints> band = std::nullopt;
};
/// Inputs: 0 out (the softmax), 1 g. Attributes: axis, scale (default 1), band. scale * out * (g -
/// sum(g * out)) over the rows of Softmax. With band [lower, upper] only of the columns that
/// Softmax has in it; the others are not read and become 0.
BuiltOp softmax_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const SoftmaxGradAttributes& attributes, std::string_view name = {});

struct SortAttributes {
  Required<std::int64_t> axis;
  std::optional<bool> descending = std::nullopt;
};
/// Inputs: 0 t. Attributes: axis, descending (default false). Outputs: 0 the elements along axis in
/// order, 1 their int32 indices; equals keep their order; NaN counts as the largest.
BuiltOp sort(OpBuilder& builder, Tensor* input0, const SortAttributes& attributes,
             std::string_view name = {});

struct SparseAccumulateAttributes {
  Required<std::int64_t> axis;
  std::optional<double> factor = std::nullopt;
};
/// Updates input 0 in place: t[indices[p]] += f * X[p] along the axis; repeated indices add up, in
/// float32 (float64 for such t), before the one rounding of the update. Inputs: 0 t, 1 X (t's shape
/// with dimension axis replaced by the shape of indices), 2 factor (optional scalar), 3 indices
/// (integer), 4 W (optional layout hint, unused). Attributes: axis, factor (constant, default 1).
BuiltOp sparse_accumulate(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                          Tensor* input3, const SparseAccumulateAttributes& attributes,
                          Tensor* input4 = nullptr, std::string_view name = {});

struct SparseAdamAttributes {
  Required<std::int64_t> axis;
  std::optional<double> learning_rate = std::nullopt;
  std::optional<double> weight_decay = std::nullopt;
  std::optional<double> beta1 = std::nullopt;
  std::optional<double> beta2 = std::nullopt;
  std::optional<double> epsilon = std::nullopt;
  std::optional<bool> skip_zero_rows = std::nullopt;
  std::optional<bool> coalesced = std::nullopt;
};
/// Adam on some rows of a table, in place: m = beta1*m + (1-beta1)*g, v = beta2*v + (1-beta2)*g^2,
/// t -= learning_rate * (mc / (sqrt(vc) + epsilon) + weight_decay*t), mc and vc as in AdamUpdater.
/// Other rows of t, m and v stay as they are. Inputs: 0 t, 1 acc_first_order m, 2 acc_second_order
/// v, 3 X, 4 indices (optional integers), 5 time_step (optional float32 scalar, incremented in
/// place first), 6 learning_rate, 7 weight_decay, 8 beta1, 9 beta2, 10 epsilon (optional scalars).
/// Attributes: axis, learning_rate, weight_decay, beta1, beta2, epsilon (constants where the input
/// is absent), skip_zero_rows, coalesced (default false: indices are rising and -1 behind the
/// last). With indices, X has t's shape with dimension axis replaced by theirs, g is the sum of the
/// rows of X of one index, and the rows are those with an index, with skip_zero_rows those whose g
/// is not all 0. Without, g is X of t's shape, and the rows are those that are not all 0 in it.
BuiltOp sparse_adam(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                    Tensor* input3, const SparseAdamAttributes& attributes,
                    Tensor* input4 = nullptr, Tensor* input5 = nullptr, Tensor* input6 = nullptr,
                    Tensor* input7 = nullptr, Tensor* input8 = nullptr, Tensor* input9 = nullptr,
                    Tensor* input10 = nullptr, std::string_view name = {});

struct SplitAttributes {
  Required<std::int64_t> axis;
  Required<Ints> sizes;
};
/// Consecutive parts of input 0 along attribute axis, one output per entry of attribute sizes.
BuiltOp split(OpBuilder& builder, Tensor* input0, const SplitAttributes& attributes,
              std::string_view name = {});

struct SplitGradAttributes {
  Required<std::int64_t> axis;
};
/// The gradients of the parts, joined along attribute axis.
BuiltOp split_grad(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                   const SplitGradAttributes& attributes, std::string_view name = {});

/// Square root of input 0.
BuiltOp sqrt(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g / (2 out) for inputs g, out.
BuiltOp sqrt_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Input 0 - input 1, with broadcasting.
BuiltOp sub(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct SubArg0GradAttributes {
  Required<Ints> shape;
};
/// Input g. Summed to attribute shape.
BuiltOp sub_arg0_grad(OpBuilder& builder, Tensor* input0, const SubArg0GradAttributes& attributes,
                      std::string_view name = {});

struct SubArg1GradAttributes {
  Required<Ints> shape;
};
/// -g of input g, summed to attribute shape.
BuiltOp sub_arg1_grad(OpBuilder& builder, Tensor* input0, const SubArg1GradAttributes& attributes,
                      std::string_view name = {});

struct SubsampleAttributes {
  Required<Ints> strides;
};
/// Every strides[d]-th element of each dimension d of input 0, from 0.
BuiltOp subsample(OpBuilder& builder, Tensor* input0, const SubsampleAttributes& attributes,
                  std::string_view name = {});

struct SubsampleGradAttributes {
  Required<Ints> shape;
  Required<Ints> strides;
};
/// Zeros of attribute shape with input g at strides[d] i.
BuiltOp subsample_grad(OpBuilder& builder, Tensor* input0,
                       const SubsampleGradAttributes& attributes, std::string_view name = {});

/// Elementwise sum of one or more inputs of one shape, in input order. Adds the gradients that
/// reach one tensor.
BuiltOp sum(OpBuilder& builder, const std::vector<Tensor*>& inputs, std::string_view name = {});

/// x sigmoid(x) of input 0.
BuiltOp swish(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// For inputs g, x: g (s + x s (1 - s)) with s = sigmoid(x).
BuiltOp swish_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Writes x sigmoid(x) to input 0.
BuiltOp swish_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// tanh x of input 0.
BuiltOp tanh(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g (1 - out^2) for inputs g, out.
BuiltOp tanh_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct TensorParallelAllReduceAttributes {
  Required<std::string> op;
  Required<bool> reduce;
  Required<bool> reduce_gradient;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// The reduction (attribute op: add or mean) of input 0 over the group where attribute reduce says
/// so, else input 0; its gradient likewise by reduce_gradient.
BuiltOp tensor_parallel_all_reduce(OpBuilder& builder, Tensor* input0,
                                   const TensorParallelAllReduceAttributes& attributes,
                                   std::string_view name = {});

struct TiedGatherAttributes {
  Required<std::int64_t> axis;
  std::optional<std::int64_t> group_size = std::nullopt;
  std::optional<bool> zero_oor = std::nullopt;
};
/// The same values as Gather. numpy.take. Inputs: 0 t, 1 indices (integer, read as unsigned).
/// Attributes: axis, group_size (default 1; above 1: dimension 0 of t and indices are groups,
/// take(t[b], indices[b], axis - 1)), zero_oor (default false). Output t.shape[:axis] +
/// indices.shape + t.shape[axis+1:]. Indices out of range give zeros with zero_oor, else
/// unspecified values.
BuiltOp tied_gather(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const TiedGatherAttributes& attributes, std::string_view name = {});

struct TopKAttributes {
  Required<std::int64_t> axis;
  Required<std::int64_t> k;
  Required<bool> largest;
  Required<bool> sorted;
};
/// Inputs: 0 t. Attributes: axis, k, largest, sorted. Outputs: 0 the k largest (smallest) elements
/// along axis, 1 their int32 indices; sorted: descending (ascending); equals by lowest index.
BuiltOp top_k(OpBuilder& builder, Tensor* input0, const TopKAttributes& attributes,
              std::string_view name = {});

struct TopKGradAttributes {
  Required<std::int64_t> axis;
  Required<Ints> input_shape;
};
/// Inputs: 0 g, 1 indices (output 1 of TopK). Attributes: axis, input_shape. g placed into zeros of
/// input_shape at the indices.
BuiltOp top_k_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const TopKGradAttributes& attributes, std::string_view name = {});

struct TransposeAttributes {
  Required<Ints> permutation;
};
/// Axis k of the result is axis permutation[k] of input 0.
BuiltOp transpose(OpBuilder& builder, Tensor* input0, const TransposeAttributes& attributes,
                  std::string_view name = {});

struct TransposeGradAttributes {
  Required<Ints> permutation;
};
/// Axis k of the result is axis permutation[k] of input g.
BuiltOp transpose_grad(OpBuilder& builder, Tensor* input0,
                       const TransposeGradAttributes& attributes, std::string_view name = {});

struct TransposeInplaceAttributes {
  Required<Ints> permutation;
};
/// An alias of input 0 whose axis k is axis permutation[k].
BuiltOp transpose_inplace(OpBuilder& builder, Tensor* input0,
                          const TransposeInplaceAttributes& attributes, std::string_view name = {});

struct TriangularSolveAttributes {
  std::optional<bool> upper = std::nullopt;
  std::optional<bool> transpose = std::nullopt;
  std::optional<bool> unit_diagonal = std::nullopt;
};
/// Inputs: 0 t (..., n, n), of which one triangle is read, 1 b (..., n, columns). Attributes,
/// default false: upper (the upper triangle, else the lower one), transpose, unit_diagonal (the
/// diagonal is not read and counts as 1). x with t x = b; with transpose t^T x = b.
BuiltOp triangular_solve(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const TriangularSolveAttributes& attributes = {},
                         std::string_view name = {});

/// Zeros like input g.
BuiltOp unary_zero_grad(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct UnfoldAttributes {
  Required<Ints> kernel_size;
  std::optional<Ints> strides = std::nullopt;
  std::optional<Ints> pads = std::nullopt;
  std::optional<Ints> dilations = std::nullopt;
};
/// im2col. Inputs: 0 t (N, C, spatial...). Attributes: kernel_size, strides, pads (begins, then
/// ends), dilations (default 1, 0, 1). Kernels see all of them. Output (N, C * elements of the
/// kernel, windows): column w holds the elements under window w, channel by channel, 0 outside of
/// t.
BuiltOp unfold(OpBuilder& builder, Tensor* input0, const UnfoldAttributes& attributes,
               std::string_view name = {});

struct UpdateRowsAttributes {
  Required<std::int64_t> axis;
};
/// Internal. Updates input 0 in place: row indices[p] along the axis becomes row p of X. Inputs: 0
/// t, 1 X (t's shape with the number of indices at axis, t's dtype), 2 indices (an integer vector;
/// no two in range are equal, those out of range are skipped). Attributes: axis.
BuiltOp update_rows(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                    const UpdateRowsAttributes& attributes, std::string_view name = {});

/// Input 1 where input 0 (bool) is true, else input 2, with broadcasting.
BuiltOp where(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
              std::string_view name = {});

struct WhereXGradAttributes {
  Required<Ints> shape;
};
/// For inputs g, condition: g where the condition is true, else 0, summed to attribute shape.
BuiltOp where_x_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const WhereXGradAttributes& attributes, std::string_view name = {});

struct WhereYGradAttributes {
  Required<Ints> shape;
};
/// For inputs g, condition: g where the condition is false, else 0, summed to attribute shape.
BuiltOp where_y_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const WhereYGradAttributes& attributes, std::string_view name = {});

struct WhileAttributes {
  std::optional<std::int64_t> max_iterations = std::nullopt;
  std::optional<Ints> history = std::nullopt;
  std::optional<Ints> modified = std::nullopt;
};
/// Runs the called graph while its condition is true: input 1 (bool scalar) says so before the
/// first iteration, output 0 of the graph before each other one. Attribute max_iterations: the most
/// iterations; not given: any number. Inputs and outputs are those of Loop; what is carried is
/// passed by value. With attribute history (carried values by number) more outputs follow: the
/// number of iterations (int32), and for each of those values a row per iteration of what it got,
/// max_iterations of them; rows of iterations that did not run are undefined. Gradients need
/// max_iterations.
BuiltOp while_loop(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
                   const WhileAttributes& attributes = {}, std::string_view name = {});

}  // namespace pando::ops
