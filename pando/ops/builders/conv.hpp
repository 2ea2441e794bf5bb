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

}  // namespace pando::ops
