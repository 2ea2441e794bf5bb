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

}  // namespace pando::ops
