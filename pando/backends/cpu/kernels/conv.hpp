// What the convolution candidates share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pando/backends/cpu/kernel_table.hpp"

namespace pando::cpu {

enum class ConvPass { Forward, Data, Weights };

/// A cross-correlation of data (N, C, spatial...) with weights (M, C / groups, k...) to (N, M,
/// ...). Element o of the result meets element o * stride - pad_begin + k * dilation of the data.
struct ConvProblem {
  DType dtype = DType::Float32;
  Shape data, weights, result;
  /// Data and result lie in memory as (N, spatial..., C).
  bool channel_last = false;
  Ints strides, pads, dilations;  // pads: begins, then ends
  std::int64_t groups = 1;
  /// The weights are what make_prepared_weights made of them, or make_prepared_filters.
  bool has_prepared_weights = false, has_prepared_filters = false;
  std::size_t spatial_rank() const { return strides.size(); }
};

/// Operands by pass: Forward (data, weights) -> result; Data (weights, result) -> data; Weights
/// (data, result) -> weights. Returns what is wrong, or nothing.
std::string parse_conv(const KernelRequest& request, ConvPass pass, ConvProblem& problem);

template <ConvPass Pass>
KernelPlan make_onednn_conv(const KernelRequest& request);

/// The weights of a convolution as oneDNN wants them, of Forward and Data. The user has attribute
/// `prepared_weights`, their shape; the maker and the restorer the attributes of the convolution,
/// `image_shape` of its other input and `result_shape` of its output.
template <ConvPass Pass>
std::optional<PreparedInput> prepared_conv_weights(const KernelRequest& request);
template <ConvPass Pass>
KernelPlan make_prepared_weights(const KernelRequest& request);
template <ConvPass Pass>
KernelPlan make_restored_weights(const KernelRequest& request);

/// Convolutions of 3x3 with few products (winograd_rows.hpp). Whether they are for such problems:
/// float32 with channels last, no strides, dilations and groups.
template <ConvPass Pass>
bool is_for_winograd(const KernelRequest& request);
template <ConvPass Pass>
KernelPlan make_winograd_conv(const KernelRequest& request);

/// The filters as this kernel multiplies by them, of Forward and Data; nullopt where it does not
/// compute the convolution. The user has attribute `prepared_filters`, the shape of the weights.
template <ConvPass Pass>
std::optional<PreparedInput> prepared_winograd_filters(const KernelRequest& request);
template <ConvPass Pass>
KernelPlan make_prepared_filters(const KernelRequest& request);

/// Gradients of the filters of depthwise convolutions: float32, two spatial dimensions, one filter
/// for each channel, no negative pads; with channels last more than 3x3.
bool is_for_depthwise_weights(const KernelRequest& request);
KernelPlan make_depthwise_weights(const KernelRequest& request);

/// Data and result, as operands, if oneDNN reorders them because it would rather have channels
/// last.
template <ConvPass Pass>
std::vector<std::int32_t> onednn_reordered_images(const KernelRequest& request);

}  // namespace pando::cpu
