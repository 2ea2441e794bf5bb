// Max and average pooling.
#include <algorithm>

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
  Shape input = spatial_dimensions(op.input(0)->shape());
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
  return {plain_info(t.dtype(), join_shapes({t.shape()[0], t.shape()[1]}, output))};
}

Attributes explicit_attributes(const Op& op) {
  Attributes attributes = pick_attributes(op, {"kernel_size"});
  set_window(attributes, pool_window(op));
  return attributes;
}

const std::vector<AttributeSpec> kPoolAttributes = {
    {"kernel_size", IntList},      {"strides", IntList, false},     {"pads", IntList, false},
    {"dilations", IntList, false}, {"pad_type", Text, false},       {"ceil_mode", Flag, false},
    {"out_pads", IntList, false},  {"in_dilations", IntList, false}};

const std::vector<AttributeSpec> kGradAttributes = {
    {"kernel_size", IntList}, {"strides", IntList}, {"pads", IntList}, {"dilations", IntList}};

constexpr const char* kPoolAttributesDoc =
    "Attributes: kernel_size, strides, pads (begins, then ends), dilations (default 1, 0, 1), "
    "pad_type (not_set, same_upper, same_lower, valid), ceil_mode, out_pads (only 0), in_dilations "
    "(only 1). Kernels see explicit kernel_size, strides, pads and dilations only. ";

std::vector<Tensor*> expand_pool(OpBuilder& builder, const Op& op) {
  const bool has_rest = op.attributes.has("out_pads") || op.attributes.has("in_dilations") ||
                        op.attributes.has("storage_order");
  if (window_is_explicit(op) && !has_rest) return {};
  return {builder.make(op.kind_name(), {op.input(0)}, explicit_attributes(op))};
}

OpDef max_pool() {
  OpDef def;
  def.name = "MaxPool";
  def.doc = str_cat("Inputs: 0 t (N, C, spatial...). ", kPoolAttributesDoc,
                    "storage_order (only row). Padding counts as -infinity.");
  def.attributes = kPoolAttributes;
  def.attributes.push_back({"storage_order", Text, false});
  def.infer = infer_pool;
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
  def.doc =
      "Inputs: 0 t, 1 out (MaxPool of t), 2 g. Attributes: kernel_size, strides, pads, dilations. "
      "Every element of a window that equals the window's maximum gets its g.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = kGradAttributes;
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Tensor& out = needed_input(op, 1, "out");
    const Tensor& g = needed_input(op, 2, "g");
    check_inputs(op, out.shape() == g.shape(), "wanted g of the output's shape");
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = needs_floats;
  return def;
}

OpDef average_pool() {
  OpDef def;
  def.name = "AveragePool";
  def.doc = str_cat("Inputs: 0 t (N, C, spatial...). ", kPoolAttributesDoc,
                    "Mean over the cells of the window inside t: padded cells are not counted (a "
                    "window without any gives 0).");
  def.attributes = kPoolAttributes;
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
      "Inputs: 0 g. Attributes: kernel_size, strides, pads, dilations, input_shape. Spreads g / "
      "count over the cells of each window inside the data.";
  def.attributes = kGradAttributes;
  def.attributes.push_back({"input_shape", IntList});
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Shape& shape = op.attributes.ints("input_shape");
    check_inputs(op, shape.size() == g.shape().size(), "wanted g and input_shape of one rank");
    return std::vector<TensorInfo>{plain_info(g.dtype(), shape)};
  };
  def.check_execution = needs_floats;
  return def;
}

}  // namespace

void register_pool_ops(Registry& registry) {
  registry.add(max_pool());
  registry.add(max_pool_grad());
  registry.add(average_pool());
  registry.add(average_pool_grad());
}

}  // namespace pando
