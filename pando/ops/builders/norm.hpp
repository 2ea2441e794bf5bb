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

}  // namespace pando::ops
