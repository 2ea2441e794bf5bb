// Padding with a value, a reflection or the edges.
#include <algorithm>

#include "pando/ops/joins.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

/// Elements before and after one axis; negative ones are left away.
struct AxisPads {
  std::int64_t begin, end;
};

AxisPads pads_of(const Op& op, std::size_t axis) {
  const Ints& pads = op.attributes.ints("pads");
  return {pads[axis], pads[pads.size() / 2 + axis]};
}

void check_axis_pads(const Op& op, const Shape& shape, std::size_t axis) {
  const std::string& mode = op.attributes.text("mode");
  const auto [begin, end] = pads_of(op, axis);
  const std::int64_t size = shape[axis];
  const auto needs = [&](bool condition, const char* wanted) {
    check_inputs(op, condition,
                 str_cat(wanted, ", not pads of ", begin, " and ", end, " for dimension ", axis,
                         " of size ", size));
  };
  if (mode == "constant") {
    needs(size + std::min<std::int64_t>(begin, 0) + std::min<std::int64_t>(end, 0) >= 0,
          "wanted negative pads that leave away no more than there is");
    return;
  }
  needs(begin >= 0 && end >= 0, "wanted pads of at least 0 where the mode is not constant");
  if (begin == 0 && end == 0) return;
  if (mode == "edge") {
    needs(size > 0, "wanted an element to repeat");
  } else {
    needs(begin < size && end < size, "wanted pads smaller than what they reflect");
  }
}

/// Checks attributes pads and mode for data of `shape`, and gives the shape after padding.
Shape padded_shape(const Op& op, Shape shape) {
  const Ints& pads = op.attributes.ints("pads");
  check_inputs(op, pads.size() == 2 * shape.size(),
               str_cat("wanted ", 2 * shape.size(),
                       " pads (those before each dimension, then "
                       "those after), not ",
                       pads.size()));
  const std::string& mode = op.attributes.text("mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge") {
    throw ValueError(
        str_cat(describe(op), ": unknown mode '", mode, "'; wanted constant, reflect or edge"));
  }
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    check_axis_pads(op, shape, axis);
    const auto [begin, end] = pads_of(op, axis);
    shape[axis] += begin + end;
  }
  return shape;
}

/// Elements start + step * i, 0 <= i < count, of `axis`.
Tensor* strided_slice(OpBuilder& builder, Tensor* t, std::size_t axis, std::int64_t start,
                      std::int64_t step, std::int64_t count) {
  Ints starts(t->shape().size(), 0), steps(t->shape().size(), 1), counts = t->shape();
  starts[axis] = start;
  steps[axis] = step;
  counts[axis] = count;
  return builder.make("Slice", {t}, {{"starts", starts}, {"steps", steps}, {"counts", counts}});
}

Tensor* leading(OpBuilder& builder, Tensor* t, std::size_t axis, std::int64_t start,
                std::int64_t count) {
  return t->shape()[axis] == count ? t : strided_slice(builder, t, axis, start, 1, count);
}

/// What stands in `count` places before (or after) `t` along `axis`.
Tensor* margin(OpBuilder& builder, const Op& op, Tensor* t, std::size_t axis, std::int64_t count,
               bool is_before) {
  const std::string& mode = op.attributes.text("mode");
  const std::int64_t size = t->shape()[axis];
  if (mode == "reflect") {
    return strided_slice(builder, t, axis, is_before ? count : size - 2, -1, count);
  }
  Shape shape = t->shape();
  shape[axis] = count;
  if (mode == "edge") {
    return builder.broadcast_to(leading(builder, t, axis, is_before ? 0 : size - 1, 1), shape);
  }
  Tensor* value = builder.constant(op.attributes.number_or("value", 0.0), t->dtype());
  return builder.broadcast_to(value, shape);
}

Tensor* pad_axis(OpBuilder& builder, const Op& op, Tensor* t, std::size_t axis) {
  const auto [begin, end] = pads_of(op, axis);
  const std::int64_t kept =
      t->shape()[axis] + std::min<std::int64_t>(begin, 0) + std::min<std::int64_t>(end, 0);
  t = leading(builder, t, axis, std::max<std::int64_t>(-begin, 0), kept);
  std::vector<Tensor*> parts;
  if (begin > 0) parts.push_back(margin(builder, op, t, axis, begin, true));
  parts.push_back(t);
  if (end > 0) parts.push_back(margin(builder, op, t, axis, end, false));
  if (parts.size() == 1) return t;
  return builder.make("Concat", parts, {{"axis", static_cast<std::int64_t>(axis)}});
}

OpDef pad() {
  OpDef def;
  def.name = "Pad";
  def.doc =
      "Inputs: 0 t. Attributes: pads (elements before each dimension, then after each; negative "
      "ones, in the constant mode only, leave away so many), mode (constant; reflect: the elements "
      "next to the edge, backwards, without the edge itself; edge: the edge repeated), value "
      "(default 0, of the constant mode).";
  def.attributes = {{"pads", IntList}, {"mode", Text}, {"value", Number, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    return std::vector<TensorInfo>{plain_info(t.dtype(), padded_shape(op, t.shape()))};
  };
  def.check_execution = needs_arithmetic;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* t = op.input(0);
    for (std::size_t axis = 0; axis < op.output(0)->shape().size(); ++axis) {
      t = pad_axis(builder, op, t, axis);
    }
    return {fresh(builder, op, t)};
  };
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr) return;
    Attributes attributes = pick_attributes(op, {"pads", "mode"});
    attributes.set("input_shape", Ints(op.input(0)->shape()));
    builder.set_input_gradient(0, builder.make("PadGrad", {g}, attributes));
  };
  return def;
}

/// `t` inside zeros: element i of `axis` goes to start + step * i of `size`.
Tensor* pad_into(OpBuilder& builder, Tensor* t, std::size_t axis, std::int64_t start,
                 std::int64_t step, std::int64_t size) {
  Ints starts(t->shape().size(), 0), steps(t->shape().size(), 1), shape = t->shape();
  starts[axis] = start;
  steps[axis] = step;
  shape[axis] = size;
  return builder.make("PadInto", {t}, {{"shape", shape}, {"starts", starts}, {"steps", steps}});
}

/// The gradient of a margin, brought back to where its values came from.
Tensor* margin_gradient(OpBuilder& builder, const Op& op, Tensor* g, std::size_t axis,
                        std::int64_t size, std::int64_t count, bool is_before) {
  Tensor* part =
      strided_slice(builder, g, axis, is_before ? 0 : g->shape()[axis] - count, 1, count);
  if (op.attributes.text("mode") == "reflect") {
    return pad_into(builder, part, axis, is_before ? count : size - 2, -1, size);
  }
  const Ints axes = {static_cast<std::int64_t>(axis)};
  part = builder.make("ReduceSum", {part}, {{"axes", axes}, {"keepdims", true}});
  return pad_into(builder, part, axis, is_before ? 0 : size - 1, 1, size);
}

Tensor* unpad_axis(OpBuilder& builder, const Op& op, Tensor* g, std::size_t axis) {
  const auto [begin, end] = pads_of(op, axis);
  const std::int64_t size = op.attributes.ints("input_shape")[axis];
  const std::int64_t skipped = std::max<std::int64_t>(-begin, 0);
  const std::int64_t kept = size - skipped - std::max<std::int64_t>(-end, 0);
  Tensor* sum = leading(builder, g, axis, std::max<std::int64_t>(begin, 0), kept);
  if (kept < size) sum = pad_into(builder, sum, axis, skipped, 1, size);
  if (op.attributes.text("mode") == "constant") return sum;
  for (const bool is_before : {true, false}) {
    const std::int64_t count = is_before ? begin : end;
    if (count == 0) continue;
    Tensor* rest = margin_gradient(builder, op, g, axis, size, count, is_before);
    sum = builder.make("Add", {sum, rest});
  }
  return sum;
}

OpDef pad_grad() {
  OpDef def;
  def.name = "PadGrad";
  def.doc =
      "Inputs: 0 g (gradient of a Pad's output). Attributes: pads, mode (of the Pad), input_shape. "
      "For every element of the padded tensor the sum of g where its value went.";
  def.attributes = {{"pads", IntList}, {"mode", Text}, {"input_shape", IntList}};
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Shape& shape = op.attributes.ints("input_shape");
    const Shape padded = padded_shape(op, shape);
    check_inputs(op, g.shape() == padded, str_cat("wanted g of shape ", shape_text(padded)));
    return std::vector<TensorInfo>{plain_info(g.dtype(), shape)};
  };
  def.check_execution = needs_numbers;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* g = op.input(0);
    for (std::size_t axis = op.output(0)->shape().size(); axis-- > 0;) {
      g = unpad_axis(builder, op, g, axis);
    }
    return {fresh(builder, op, g)};
  };
  return def;
}

}  // namespace

void register_pad_ops(Registry& registry) {
  registry.add(pad());
  registry.add(pad_grad());
}

}  // namespace pando
