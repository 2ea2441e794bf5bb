// Max and average pooling, with windows of one size or (adaptive) results of a given size.
#include <algorithm>
#include <optional>

#include "pando/ops/channel_layout.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"
#include "pando/ops/window.hpp"

namespace pando {
namespace {

using enum AttributeType;

constexpr const char* kPooling = "pooling";

bool all_equal(const Op& op, const char* name, std::int64_t value) {
  if (!op.attributes.has(name)) return true;
  const Ints& list = op.attributes.ints(name);
  return std::all_of(list.begin(), list.end(), [&](std::int64_t v) { return v == value; });
}

Window pool_window(const Op& op) {
  Shape input = spatial_dimensions(op, op.input(0)->shape());
  const Ints spread = window_list(op, "in_dilations", input.size(), 1, kPooling);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = spread[i] * (input[i] - 1) + 1;
  return resolve_window(op, input, op.attributes.ints("kernel_size"), kPooling);
}

void needs_plain_pool(const Op& op) {
  needs_floats(op);
  check_inputs(op, all_equal(op, "out_pads", 0) && all_equal(op, "in_dilations", 1),
               "wanted out_pads of 0 and in_dilations of 1: pooling supports no others");
  needs_windows_that_fit(op);
}

std::vector<TensorInfo> infer_pool(const Op& op) {
  const Tensor& t = needed_input(op, 0, "t");
  check_inputs(op, op.attributes.ints("kernel_size").size() + 2 == t.shape().size(),
               "invalid kernel_shape, not same rank as the tensor operated on");
  check_spatial_rank(op, t);
  check_inputs(op,
               !op.attributes.has("storage_order") || op.attributes.text("storage_order") == "row",
               "storage_order != 0, not supported");
  Shape output = pool_window(op).output;
  const Ints pads = window_list(op, "out_pads", 2 * output.size(), 0, kPooling);
  for (std::size_t i = 0; i < output.size(); ++i) output[i] += pads[i] + pads[output.size() + i];
  return {plain_info(t.dtype(), image_shape(op, t.shape()[0], channels_of(op, t.shape()), output))};
}

/// Which elements of a window that equal its maximum get the gradient.
void check_ties(const Op& op) {
  if (!op.attributes.has("ties")) return;
  const std::string& ties = op.attributes.text("ties");
  if (ties != "all" && ties != "first") {
    throw ValueError(str_cat(describe(op), ": unknown ties '", ties, "'; wanted all or first"));
  }
}

/// Pads whose cells an average counts: those that the user gave, not those that only fill the last
/// window of ceil_mode.
Ints counted_pads(const Op& op, const Window& window) {
  const std::string type =
      op.attributes.has("pad_type") ? op.attributes.text("pad_type") : "not_set";
  if (type == "same_upper" || type == "same_lower") return window.pads;
  if (type == "valid") return Ints(window.pads.size(), 0);
  return window_list(op, "pads", window.pads.size(), 0, kPooling);
}

Attributes explicit_attributes(const Op& op) {
  Attributes attributes =
      pick_attributes(op, {"kernel_size", "ties", "channel_last", "counted_pads"});
  const Window window = pool_window(op);
  set_window(attributes, window);
  if (op.attributes.flag_or("count_include_pad", false)) {
    attributes.set("counted_pads", counted_pads(op, window));
  }
  return attributes;
}

const std::vector<AttributeSpec> kPoolAttributes = {
    {"kernel_size", IntList},      {"strides", IntList, false},      {"pads", IntList, false},
    {"dilations", IntList, false}, {"pad_type", Text, false},        {"ceil_mode", Flag, false},
    {"out_pads", IntList, false},  {"in_dilations", IntList, false}, {"channel_last", Flag, false}};

const std::vector<AttributeSpec> kGradAttributes = {{"kernel_size", IntList},
                                                    {"strides", IntList},
                                                    {"pads", IntList},
                                                    {"dilations", IntList},
                                                    {"channel_last", Flag, false}};

const AttributeSpec kTies = {"ties", Text, false};
const AttributeSpec kCountedPads = {"counted_pads", IntList, false};

constexpr const char* kPoolAttributesDoc =
    "Attributes: kernel_size, strides, pads (begins, then ends), dilations (default 1, 0, 1), "
    "pad_type (not_set, same_upper, same_lower, valid), ceil_mode, out_pads (only 0), in_dilations "
    "(only 1), channel_last (default false: else t is (N, spatial..., C)). Kernels see explicit "
    "kernel_size, strides, pads and dilations only. ";
constexpr const char* kTiesDoc =
    "ties: of several elements that are a window's maximum, all get its gradient (default), or "
    "first: the first in C order, or the last NaN.";

std::vector<Tensor*> expand_pool(OpBuilder& builder, const Op& op) {
  const bool has_rest = op.attributes.has("out_pads") || op.attributes.has("in_dilations") ||
                        op.attributes.has("storage_order") ||
                        op.attributes.has("count_include_pad");
  if (window_is_explicit(op) && !has_rest) return {};
  return {builder.make(op.kind_name(), {op.input(0)}, explicit_attributes(op))};
}

std::vector<TensorInfo> infer_max_grad(const Op& op) {
  check_ties(op);
  const Tensor& t = needed_input(op, 0, "t");
  const Tensor& out = needed_input(op, 1, "out");
  const Tensor& g = needed_input(op, 2, "g");
  check_inputs(op, out.shape() == g.shape(), "wanted g of the output's shape");
  return {t.info};
}

std::vector<TensorInfo> infer_average_grad(const Op& op) {
  const Tensor& g = needed_input(op, 0, "g");
  const Shape& shape = op.attributes.ints("input_shape");
  check_inputs(op, shape.size() == g.shape().size(), "wanted g and input_shape of one rank");
  return {plain_info(g.dtype(), shape)};
}

OpDef max_pool() {
  OpDef def;
  def.name = "MaxPool";
  def.doc = str_cat("Inputs: 0 t (N, C, spatial...). ", kPoolAttributesDoc,
                    "storage_order (only row). Padding counts as -infinity. Attribute ", kTiesDoc);
  def.attributes = kPoolAttributes;
  def.attributes.push_back({"storage_order", Text, false});
  def.attributes.push_back(kTies);
  def.infer = [](const Op& op) {
    check_ties(op);
    return infer_pool(op);
  };
  def.check_execution = needs_plain_pool;
  def.expand = expand_pool;
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    builder.set_input_gradient(
        0, builder.make("MaxPoolGrad",
                        {builder.forward(op.input(0)), builder.forward(op.output(0)), g},
                        explicit_attributes(op)));
  };
  return def;
}

OpDef max_pool_grad() {
  OpDef def;
  def.name = "MaxPoolGrad";
  def.doc = str_cat(
      "Inputs: 0 t, 1 out (MaxPool of t), 2 g. Attributes: kernel_size, strides, pads, dilations, "
      "channel_last; ",
      kTiesDoc);
  def.min_inputs = def.max_inputs = 3;
  def.attributes = kGradAttributes;
  def.attributes.push_back(kTies);
  def.infer = infer_max_grad;
  def.check_execution = needs_floats;
  return def;
}

OpDef average_pool() {
  OpDef def;
  def.name = "AveragePool";
  def.doc =
      str_cat("Inputs: 0 t (N, C, spatial...). ", kPoolAttributesDoc,
              "count_include_pad (default false). Mean over the cells of the window inside t: "
              "padded cells are not counted (a window without any gives 0), or those of pads "
              "count as zeros, but not what ceil_mode adds. Kernels see counted_pads: pads "
              "whose cells count.");
  def.attributes = kPoolAttributes;
  def.attributes.push_back({"count_include_pad", Flag, false});
  def.attributes.push_back(kCountedPads);
  def.infer = infer_pool;
  def.check_execution = needs_plain_pool;
  def.expand = expand_pool;
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    Attributes attributes = explicit_attributes(op);
    attributes.set("input_shape", Ints(op.input(0)->shape()));
    builder.set_input_gradient(0, builder.make("AveragePoolGrad", {g}, attributes));
  };
  return def;
}

OpDef average_pool_grad() {
  OpDef def;
  def.name = "AveragePoolGrad";
  def.doc =
      "Inputs: 0 g. Attributes: kernel_size, strides, pads, dilations, input_shape, channel_last, "
      "counted_pads. Spreads g / count over the cells of each window inside the data.";
  def.attributes = kGradAttributes;
  def.attributes.push_back(kCountedPads);
  def.attributes.push_back({"input_shape", IntList});
  def.infer = infer_average_grad;
  def.check_execution = needs_floats;
  return def;
}

// Adaptive pools.

std::vector<TensorInfo> infer_adaptive(const Op& op) {
  const Tensor& t = needed_input(op, 0, "t");
  check_ties(op);
  check_spatial_rank(op, t);
  const Ints& output = op.attributes.ints("output_size");
  const Shape input = spatial_dimensions(op, t.shape());
  check_inputs(op, output.size() == input.size(),
               str_cat("wanted an output_size of ", input.size(), " numbers, not ", output.size()));
  for (std::size_t i = 0; i < output.size(); ++i) {
    check_inputs(op, output[i] >= 1 && input[i] >= 1,
                 str_cat("wanted sizes of at least 1: spatial dimension ", i, " of size ", input[i],
                         " gets ", output[i]));
  }
  return {plain_info(t.dtype(), image_shape(op, t.shape()[0], channels_of(op, t.shape()), output))};
}

/// The attributes of the pool that has the same windows; none if windows differ in size.
std::optional<Attributes> even_windows(const Op& op) {
  const Shape input = spatial_dimensions(op, op.input(0)->shape());
  const Ints& output = op.attributes.ints("output_size");
  Window window{Ints(input.size()), Ints(2 * input.size(), 0), Ints(input.size(), 1), output};
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (input[i] % output[i] != 0) return std::nullopt;
    window.strides[i] = input[i] / output[i];
  }
  Attributes attributes = pick_attributes(op, {"ties", "channel_last"});
  attributes.set("kernel_size", window.strides);
  set_window(attributes, window);
  return attributes;
}

const std::vector<AttributeSpec> kAdaptiveAttributes = {{"output_size", IntList},
                                                        {"channel_last", Flag, false}};

constexpr const char* kAdaptiveDoc =
    "Inputs: 0 t (N, C, spatial...). Attributes: output_size (one number per spatial dimension), "
    "channel_last (default false: else t is (N, spatial..., C)). Result o of n along a dimension "
    "of "
    "size D is that of elements floor(o * D / n) to ceil((o + 1) * D / n) - 1: ";

OpDef adaptive_pool(const char* kind, const char* even_kind) {
  OpDef def;
  def.name = kind;
  def.attributes = kAdaptiveAttributes;
  def.infer = infer_adaptive;
  def.check_execution = needs_floats;
  def.expand = [even_kind](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    const std::optional<Attributes> even = even_windows(op);
    if (!even) return {};
    return {builder.make(even_kind, {op.input(0)}, *even)};
  };
  def.differentiable_inputs = {0};
  return def;
}

OpDef adaptive_max_pool() {
  OpDef def = adaptive_pool("AdaptiveMaxPool", "MaxPool");
  def.doc = str_cat(kAdaptiveDoc, "their maximum. Attribute ", kTiesDoc);
  def.attributes.push_back(kTies);
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    const std::optional<Attributes> even = even_windows(op);
    builder.set_input_gradient(
        0, builder.make(even ? "MaxPoolGrad" : "AdaptiveMaxPoolGrad",
                        {builder.forward(op.input(0)), builder.forward(op.output(0)), g},
                        even ? *even : op.attributes));
  };
  return def;
}

OpDef adaptive_max_pool_grad() {
  OpDef def;
  def.name = "AdaptiveMaxPoolGrad";
  def.doc = str_cat(
      "Inputs: 0 t, 1 out (AdaptiveMaxPool of t), 2 g. Attributes: output_size, "
      "channel_last; ",
      kTiesDoc);
  def.min_inputs = def.max_inputs = 3;
  def.attributes = kAdaptiveAttributes;
  def.attributes.push_back(kTies);
  def.infer = infer_max_grad;
  def.check_execution = needs_floats;
  return def;
}

OpDef adaptive_average_pool() {
  OpDef def = adaptive_pool("AdaptiveAveragePool", "AveragePool");
  def.doc = str_cat(kAdaptiveDoc, "their mean.");
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    const std::optional<Attributes> even = even_windows(op);
    Attributes attributes = even ? *even : op.attributes;
    attributes.set("input_shape", Ints(op.input(0)->shape()));
    builder.set_input_gradient(
        0, builder.make(even ? "AveragePoolGrad" : "AdaptiveAveragePoolGrad", {g}, attributes));
  };
  return def;
}

OpDef adaptive_average_pool_grad() {
  OpDef def;
  def.name = "AdaptiveAveragePoolGrad";
  def.doc =
      "Inputs: 0 g. Attributes: output_size, channel_last, input_shape. Spreads g / count over the "
      "elements of each window of AdaptiveAveragePool.";
  def.attributes = kAdaptiveAttributes;
  def.attributes.push_back({"input_shape", IntList});
  def.infer = infer_average_grad;
  def.check_execution = needs_floats;
  return def;
}

}  // namespace

void register_pool_ops(Registry& registry) {
  registry.add(max_pool());
  registry.add(max_pool_grad());
  registry.add(average_pool());
  registry.add(average_pool_grad());
  registry.add(adaptive_max_pool());
  registry.add(adaptive_max_pool_grad());
  registry.add(adaptive_average_pool());
  registry.add(adaptive_average_pool_grad());
}

}  // namespace pando
