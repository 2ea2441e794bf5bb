// Convolutions. Data are (N, C, spatial...), or (N, spatial..., C) with channel_last; weights are
// (M, C / groups, k...) in both.
#include "pando/ops/channel_layout.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"
#include "pando/ops/window.hpp"

namespace pando {
namespace {

using enum AttributeType;

const std::vector<AttributeSpec> kConvAttributes = {
    {"strides", IntList, false}, {"pads", IntList, false},  {"dilations", IntList, false},
    {"groups", Integer, false},  {"pad_type", Text, false}, {"channel_last", Flag, false}};

bool is_scaled(const Op& op) { return op.num_inputs() > 2 && op.input(2) != nullptr; }

std::int64_t groups_of(const Op& op) {
  const std::int64_t groups = op.attributes.integer_or("groups", 1);
  check_inputs(op, groups >= 1, str_cat("wanted groups >= 1, not ", groups));
  return groups;
}

/// The dtype of the result. Building looks at the dtypes of pow2-scaled convolutions only.
DType conv_dtype(const Op& op) {
  const Tensor& t = *op.input(0);
  const Tensor& weight = *op.input(1);
  if (is_scaled(op)) {
    if (!is_float8(t.dtype()) || !is_float8(weight.dtype())) {
      throw TypeError(str_cat(describe(op),
                              ": wanted operands of dtype float8_143 or float8_152; given ",
                              t.dtype(), " and ", weight.dtype()));
    }
    const Tensor& scale = *op.input(2);
    check_inputs(op, scale.dtype() == DType::Int32 && scale.shape().empty(),
                 "wanted a scalar int32 log2_scale");
    return DType::Float16;
  }
  return t.dtype();
}

/// Any two tensors with arithmetic in floats, unless float8 comes with a scale.
void needs_convolvable_dtypes(const Op& op) {
  if (is_scaled(op)) return;
  needs_floats(op);
  check_inputs(op, op.input(0)->dtype() == op.input(1)->dtype(),
               "wanted operands of the same dtype");
}

void needs_convolvable(const Op& op) {
  needs_convolvable_dtypes(op);
  needs_windows_that_fit(op);
}

void check_conv_ranks(const Op& op) {
  const Tensor& t = needed_input(op, 0, "t");
  const Tensor& weight = needed_input(op, 1, "weight");
  check_spatial_rank(op, t);
  check_inputs(op, weight.shape().size() == t.shape().size(), "wanted a weight of t's rank");
}

Window conv_window(const Op& op) {
  return resolve_window(op, spatial_dimensions(op, op.input(0)->shape()),
                        spatial_dimensions(op.input(1)->shape()), "convolution");
}

/// The attributes that kernels read.
Attributes explicit_attributes(const Op& op, const Window& window) {
  Attributes attributes = pick_attributes(op, {"channel_last"});
  attributes.set("groups", groups_of(op));
  set_window(attributes, window);
  return attributes;
}

/// A float8 op as the same op on float32, scaled and rounded to float16 once.
Tensor* expand_scaled(OpBuilder& builder, const Op& op) {
  Tensor* t = builder.cast(op.input(0), DType::Float32);
  Tensor* weight = builder.cast(op.input(1), DType::Float32);
  Tensor* product = builder.make(op.kind_name(), {t, weight}, op.attributes);
  return builder.make("Pow2Scale", {product, op.input(2)}, {{"dtype", DType::Float16}});
}

void refuse_scaled_gradient(const Op& op) {
  if (is_scaled(op)) throw Error(str_cat(describe(op), ": float8 ops have no gradient"));
}

std::vector<TensorInfo> infer_conv(const Op& op) {
  check_conv_ranks(op);
  const DType dtype = conv_dtype(op);
  const Shape& t = op.input(0)->shape();
  const Shape& weight = op.input(1)->shape();
  const std::int64_t groups = groups_of(op);
  const std::int64_t channels = channels_of(op, t);
  check_inputs(op, channels % groups == 0 && channels / groups == weight[1],
               str_cat("wanted a weight with ", channels, " / ", groups,
                       " (channels / groups) input channels"));
  check_inputs(op, weight[0] % groups == 0, "wanted output channels divisible by groups");
  return {plain_info(dtype, image_shape(op, t[0], weight[0], conv_window(op).output))};
}

void conv_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr) return;
  refuse_scaled_gradient(op);
  Attributes attributes = explicit_attributes(op, conv_window(op));
  if (builder.wants(0)) {
    attributes.set("input_shape", Ints(op.input(0)->shape()));
    builder.set_input_gradient(
        0, builder.make("ConvDataGrad", {builder.forward(op.input(1)), g}, attributes));
  }
  if (builder.wants(1)) {
    attributes.erase("input_shape");
    attributes.set("weight_shape", Ints(op.input(1)->shape()));
    builder.set_input_gradient(
        1, builder.make("ConvWeightsGrad", {builder.forward(op.input(0)), g}, attributes));
  }
}

OpDef conv() {
  OpDef def;
  def.name = "Conv";
  def.doc =
      "Cross-correlation. Inputs: 0 t (N, C, spatial...), 1 weight (M, C/groups, k...), 2 "
      "log2_scale (optional int32 scalar; float8 operands: float16(conv * 2^log2_scale)). "
      "Attributes: strides, pads (begins, then ends), dilations, groups, pad_type (not_set, "
      "same_upper, same_lower, valid), channel_last (default false: else t is (N, spatial..., C), "
      "and so is the output). Output (N, M, floor((D + p0 + p1 - 1 - d*(K-1))/s) + 1, ...). "
      "Kernels see explicit strides, pads, dilations and groups only.";
  def.min_inputs = 2;
  def.max_inputs = 3;
  def.attributes = kConvAttributes;
  def.infer = infer_conv;
  def.check_execution = needs_convolvable;
  def.is_repeated_to_fit = true;
  def.log2_scale_input = 2;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    if (is_scaled(op)) return {expand_scaled(builder, op)};
    if (window_is_explicit(op) && op.attributes.has("groups")) return {};
    return {
        builder.make("Conv", {op.input(0), op.input(1)}, explicit_attributes(op, conv_window(op)))};
  };
  def.differentiable_inputs = {0, 1};
  def.gradient = conv_gradient;
  return def;
}

const std::vector<AttributeSpec> kGradAttributes = {{"strides", IntList},
                                                    {"pads", IntList},
                                                    {"dilations", IntList},
                                                    {"groups", Integer},
                                                    {"channel_last", Flag, false}};

/// Pads with which a convolution of `data` has exactly `results` positions along each dimension.
Ints pads_for(const Op& op, const Shape& data, const Shape& kernel, const Shape& results) {
  Ints pads = op.attributes.ints("pads");
  const Ints &strides = op.attributes.ints("strides"), &spread = op.attributes.ints("dilations");
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::int64_t& end = pads[data.size() + i];
    const std::int64_t rest =
        (results[i] - 1) * strides[i] + spread[i] * (kernel[i] - 1) + 1 - data[i] - pads[i];
    // What is left over behind the last window changes nothing.
    if (end < rest || end >= rest + strides[i]) end = rest;
  }
  return pads;
}

/// The op is linear in both of its inputs: that of g is a convolution of the incoming gradient.
void conv_data_grad_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr) return;
  Attributes attributes = pick_attributes(op, {"strides", "dilations", "groups", "channel_last"});
  const Shape& weight = op.input(0)->shape();
  attributes.set("pads",
                 pads_for(op, spatial_dimensions(op, g->shape()), spatial_dimensions(weight),
                          spatial_dimensions(op, op.input(1)->shape())));
  if (builder.wants(1)) {
    builder.set_input_gradient(1,
                               builder.make("Conv", {g, builder.forward(op.input(0))}, attributes));
  }
  if (builder.wants(0)) {
    attributes.set("weight_shape", Ints(weight));
    builder.set_input_gradient(
        0, builder.make("ConvWeightsGrad", {g, builder.forward(op.input(1))}, attributes));
  }
}

OpDef conv_data_grad() {
  OpDef def;
  def.name = "ConvDataGrad";
  def.doc =
      "Inputs: 0 weight (M, C/groups, k...), 1 g (N, M, out...). Attributes: strides, pads, "
      "dilations, groups, channel_last, input_shape (N, C, spatial...). Gradient of Conv's data: "
      "element x gets "
      "the sum of g[o] * weight[k] over o*s - p0 + k*d = x; also the transposed convolution, where "
      "positions outside input_shape are dropped and pads may be negative.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = kGradAttributes;
  def.attributes.push_back({"input_shape", IntList});
  def.infer = [](const Op& op) {
    const Tensor& weight = needed_input(op, 0, "weight");
    const Tensor& g = needed_input(op, 1, "g");
    const Shape& shape = op.attributes.ints("input_shape");
    check_inputs(op, shape.size() == g.shape().size() && shape.size() == weight.shape().size(),
                 "wanted weight, g and input_shape of one rank");
    check_inputs(op, channels_of(op, g.shape()) == weight.shape()[0],
                 "wanted g with the weight's output channels");
    return std::vector<TensorInfo>{plain_info(g.dtype(), shape)};
  };
  def.check_execution = needs_convolvable_dtypes;
  def.differentiable_inputs = {0, 1};
  def.gradient = conv_data_grad_gradient;
  return def;
}

OpDef conv_weights_grad() {
  OpDef def;
  def.name = "ConvWeightsGrad";
  def.doc =
      "Inputs: 0 t (N, C, spatial...), 1 g (N, M, out...). Attributes: strides, pads, dilations, "
      "groups, channel_last, weight_shape (M, C/groups, k...). Gradient of Conv's weight.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = kGradAttributes;
  def.attributes.push_back({"weight_shape", IntList});
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Tensor& g = needed_input(op, 1, "g");
    const Shape& shape = op.attributes.ints("weight_shape");
    check_inputs(op, shape.size() == g.shape().size() && shape.size() == t.shape().size(),
                 "wanted t, g and weight_shape of one rank");
    check_inputs(op, channels_of(op, g.shape()) == shape[0] && g.shape()[0] == t.shape()[0],
                 "wanted g with t's batch and the weight's output channels");
    return std::vector<TensorInfo>{plain_info(g.dtype(), shape)};
  };
  def.check_execution = needs_convolvable_dtypes;
  return def;
}

// Transposed convolution.

/// Spatial part of attribute output_shape; empty when it is not given.
Shape wanted_spatial_shape(const Op& op, std::size_t rank) {
  if (!op.attributes.has("output_shape")) return {};
  const Ints& shape = op.attributes.ints("output_shape");
  if (shape.size() <= rank) return shape;
  if (shape.size() == rank + 2) return spatial_dimensions(op, shape);
  return Shape(shape.end() - static_cast<std::ptrdiff_t>(rank), shape.end());
}

Ints list_or_default(const Op& op, const char* name, std::size_t length, std::int64_t fallback) {
  if (!op.attributes.has(name) || op.attributes.ints(name).empty()) return Ints(length, fallback);
  const Ints& list = op.attributes.ints(name);
  check_inputs(op, list.size() == length,
               str_cat("wanted ", length, " values in '", name, "', not ", list.size()));
  return list;
}

Window transposed_window(const Op& op) {
  const Shape input = spatial_dimensions(op, op.input(0)->shape());
  const Shape kernel = spatial_dimensions(op.input(1)->shape());
  const std::size_t rank = input.size();
  const std::string type =
      op.attributes.has("pad_type") ? op.attributes.text("pad_type") : "not_set";
  const Shape wanted = wanted_spatial_shape(op, rank);
  check_inputs(op, wanted.empty() || wanted.size() == rank,
               "wanted an output_shape with one entry per spatial dimension or the full shape");
  check_inputs(op, wanted.empty() || type != "valid",
               "pad_type valid cannot be combined with output_shape");
  Window window{list_or_default(op, "strides", rank, 1), list_or_default(op, "pads", 2 * rank, 0),
                list_or_default(op, "dilations", rank, 1), Shape(rank)};
  const Ints extra = list_or_default(op, "output_padding", rank, 0);
  for (std::size_t i = 0; i < rank; ++i) {
    check_inputs(op, window.dilations[i] == 1, "Non default value for dilations is not supported.");
    const std::int64_t full = window.strides[i] * (input[i] - 1) + extra[i] + kernel[i];
    std::int64_t& begin = window.pads[i];
    std::int64_t& end = window.pads[rank + i];
    if (!wanted.empty()) {
      const std::int64_t total = full - wanted[i];
      begin = type == "same_upper" ? total / 2 : total - total / 2;
      end = total - begin;
    }
    window.output[i] = full - begin - end;
    check_inputs(op, window.output[i] >= 0, "the padding leaves no output");
  }
  return window;
}

std::vector<TensorInfo> infer_conv_transpose(const Op& op) {
  check_conv_ranks(op);
  const DType dtype = conv_dtype(op);
  const Shape& t = op.input(0)->shape();
  const Shape& weight = op.input(1)->shape();
  check_inputs(op, channels_of(op, t) == weight[0],
               "wanted a weight of shape (input channels, output channels / groups, kernel...)");
  check_inputs(op, weight[0] % groups_of(op) == 0, "wanted input channels divisible by groups");
  return {plain_info(
      dtype, image_shape(op, t[0], weight[1] * groups_of(op), transposed_window(op).output))};
}

OpDef conv_transpose() {
  OpDef def;
  def.name = "ConvTranspose";
  def.doc =
      "Transposed convolution. Inputs: 0 t (N, Cin, spatial...), 1 weight (Cin, Cout/groups, "
      "k...), 2 log2_scale (optional, as Conv). Attributes: strides, pads, dilations (only 1), "
      "groups, pad_type, channel_last, output_padding, output_shape. Spatial size s*(D-1) + "
      "output_padding + K - "
      "p0 - p1; with output_shape the pads follow from it.";
  def.min_inputs = 2;
  def.max_inputs = 3;
  def.attributes = kConvAttributes;
  def.attributes.push_back({"output_padding", IntList, false});
  def.attributes.push_back({"output_shape", IntList, false});
  def.infer = infer_conv_transpose;
  def.check_execution = needs_convolvable;
  def.log2_scale_input = 2;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    if (is_scaled(op)) return {expand_scaled(builder, op)};
    Attributes attributes = explicit_attributes(op, transposed_window(op));
    attributes.set("input_shape", Ints(op.output(0)->shape()));
    return {builder.make("ConvDataGrad", {op.input(1), op.input(0)}, attributes)};
  };
  return def;
}

}  // namespace

void register_conv_ops(Registry& registry) {
  registry.add(conv());
  registry.add(conv_data_grad());
  registry.add(conv_weights_grad());
  registry.add(conv_transpose());
}

}  // namespace pando
