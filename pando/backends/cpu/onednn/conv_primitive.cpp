#include "pando/backends/cpu/onednn/conv_primitive.hpp"

#include <algorithm>
#include <string_view>

#include "pando/backends/cpu/onednn/onednn.hpp"

namespace pando::cpu {
namespace {

using dnnl::memory;

struct ConvDescs {
  memory::desc data, weights, result;  // as in the program
  // The layout is left to oneDNN; with channels last only that of the weights.
  memory::desc any_data, any_weights, any_result;
  memory::desc hint_weights;  // of the forward primitive that the others are told of
  memory::dims strides, dilations, pad_begin, pad_end;

  ConvDescs(const ConvProblem& p, const ConvProblem& whole, const memory::desc* given_weights) {
    Shape weights_shape = p.weights;
    if (p.groups > 1) {
      weights_shape[0] /= p.groups;
      weights_shape.insert(weights_shape.begin(), p.groups);
    }
    data = image(p, p.data, whole.data);
    weights = onednn_f32(weights_shape);
    result = image(p, p.result, whole.result);
    any_data = p.channel_last ? data : any(p.data);
    hint_weights = any(weights_shape);
    any_weights = given_weights != nullptr ? *given_weights : hint_weights;
    any_result = p.channel_last ? result : any(p.result);
    const auto rank = static_cast<std::ptrdiff_t>(p.spatial_rank());
    strides = p.strides;
    for (const std::int64_t dilation : p.dilations) dilations.push_back(dilation - 1);
    pad_begin.assign(p.pads.begin(), p.pads.begin() + rank);
    pad_end.assign(p.pads.begin() + rank, p.pads.end());
  }
  /// With channels last the rows of one sample, and the samples, follow each other without gaps.
  static memory::desc image(const ConvProblem& p, const Shape& shape, const Shape& whole) {
    if (!p.channel_last) return onednn_f32(shape, contiguous_strides(whole));
    Shape memory_shape = shape;
    std::rotate(memory_shape.begin() + 1, memory_shape.begin() + 2, memory_shape.end());
    Strides strides = contiguous_strides(memory_shape);
    std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
    return onednn_f32(shape, strides);
  }
  static memory::desc any(const Shape& shape) {
    return memory::desc(memory::dims(shape.begin(), shape.end()), memory::data_type::f32,
                        memory::format_tag::any);
  }
};

dnnl::primitive_attr conv_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc forward_desc(const ConvDescs& d, dnnl::prop_kind kind,
                                                       const memory::desc& weights) {
  return {onednn_engine(), kind,        kAlgorithm,  d.any_data, weights,          d.any_result,
          d.strides,       d.dilations, d.pad_begin, d.pad_end,  conv_attributes()};
}

dnnl::convolution_forward::primitive_desc hint(const ConvDescs& d) {
  return forward_desc(d, dnnl::prop_kind::forward_training, d.hint_weights);
}

ConvPrimitive describe_forward(const ConvDescs& d) {
  const auto desc = forward_desc(d, dnnl::prop_kind::forward_inference, d.any_weights);
  return {desc,
          {d.data, d.weights, d.result},
          {desc.src_desc(), desc.weights_desc(), desc.dst_desc()},
          {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}};
}

ConvPrimitive describe_data(const ConvDescs& d) {
  const dnnl::convolution_backward_data::primitive_desc desc(
      onednn_engine(), kAlgorithm, d.any_data, d.any_weights, d.any_result, d.strides, d.dilations,
      d.pad_begin, d.pad_end, hint(d), conv_attributes());
  return {desc,
          {d.weights, d.result, d.data},
          {desc.weights_desc(), desc.diff_dst_desc(), desc.diff_src_desc()},
          {DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}};
}

ConvPrimitive describe_weights(const ConvDescs& d) {
  const dnnl::convolution_backward_weights::primitive_desc desc(
      onednn_engine(), kAlgorithm, d.any_data, d.any_weights, d.any_result, d.strides, d.dilations,
      d.pad_begin, d.pad_end, hint(d), conv_attributes());
  return {desc,
          {d.data, d.result, d.weights},
          {desc.src_desc(), desc.diff_dst_desc(), desc.diff_weights_desc()},
          {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}};
}

}  // namespace

ConvPrimitive describe_conv(ConvPass pass, const ConvProblem& problem, const ConvProblem& whole,
                            const memory::desc* weights) {
  const ConvDescs descs(problem, whole, weights);
  if (pass == ConvPass::Forward) return describe_forward(descs);
  return pass == ConvPass::Data ? describe_data(descs) : describe_weights(descs);
}

std::size_t scratchpad_bytes(const ConvPrimitive& primitive, const ConvProblem& problem) {
  constexpr std::size_t kLargestVectorBytes = 64;
  const std::size_t asked = primitive.desc.scratchpad_desc().get_size();
  const bool has_strides = std::any_of(problem.strides.begin(), problem.strides.end(),
                                       [](std::int64_t stride) { return stride > 1; });
  const std::string_view name = primitive.desc.impl_info_str();
  if (!has_strides || !name.starts_with("jit_1x1")) return asked;
  const Shape pixels(problem.result.begin() + 2, problem.result.end());
  return asked + static_cast<std::size_t>(num_elements(pixels)) * kLargestVectorBytes;
}

bool is_reference(const ConvPrimitive& primitive) {
  return std::string_view(primitive.desc.impl_info_str()).starts_with("ref");
}

bool is_fast_with_channels_last(const ConvPrimitive& primitive) {
  const std::string_view name = primitive.desc.impl_info_str();
  return !is_reference(primitive) && name.find("gemm") == std::string_view::npos;
}

}  // namespace pando::cpu
