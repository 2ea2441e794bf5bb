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

}  // namespace pando::ops
