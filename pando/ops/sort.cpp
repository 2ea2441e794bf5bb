// Ordering and scans: arg max, top k, cumulative sums, histogram, median (popxl-ops.md 8).
#include <algorithm>
#include <cstring>

#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"

namespace pando {
namespace {

using enum AttributeType;

std::int64_t rank_of(const Tensor& t) { return static_cast<std::int64_t>(t.shape().size()); }

OpDef arg_extreme(const std::string& name, const std::string& what) {
  OpDef def;
  def.name = name;
  def.doc = str_cat("Inputs: 0 t. Attributes: axis, keepdims (default false). int32 index of the ",
                    what, " along axis; the lowest index among equals.");
  def.attributes = {{"axis", Integer}, {"keepdims", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const std::int64_t axis = axis_attribute(op, rank_of(t));
    const Shape kept = op.attributes.flag_or("keepdims", false) ? Shape{1} : Shape{};
    return std::vector<TensorInfo>{
        plain_info(DType::Int32, splice_shape(t.shape(), axis, kept))};
  };
  return def;
}

OpDef top_k() {
  OpDef def;
  def.name = "TopK";
  def.doc =
      "Inputs: 0 t. Attributes: axis, k, largest, sorted. Outputs: 0 the k largest (smallest) "
      "elements along axis, 1 their int32 indices; sorted: descending (ascending); equals by lowest "
      "index.";
  def.attributes = {{"axis", Integer}, {"k", Integer}, {"largest", Flag}, {"sorted", Flag}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const std::int64_t axis = axis_attribute(op, rank_of(t));
    const std::int64_t k = op.attributes.integer("k");
    check_inputs(op, k >= 1 && k <= t.shape()[static_cast<std::size_t>(axis)],
                 str_cat("wanted 1 <= k <= dimension ", axis, " of t, not k = ", k));
    const Shape shape = splice_shape(t.shape(), axis, {k});
    return std::vector<TensorInfo>{plain_info(t.dtype(), shape), plain_info(DType::Int32, shape)};
  };
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    Attributes attributes = pick_attributes(op, {"axis"});
    attributes.set("input_shape", Ints(op.input(0)->shape()));
    builder.set_input_gradient(
        0, builder.make("TopKGrad", {g, builder.forward(op.output(1))}, attributes));
  };
  return def;
}

OpDef top_k_grad() {
  OpDef def;
  def.name = "TopKGrad";
  def.doc =
      "Inputs: 0 g, 1 indices (output 1 of TopK). Attributes: axis, input_shape. g placed into "
      "zeros of input_shape at the indices.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"axis", Integer}, {"input_shape", IntList}};
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    check_inputs(op, needed_input(op, 1, "indices").shape() == g.shape(),
                 "wanted g and indices of one shape");
    return std::vector<TensorInfo>{plain_info(g.dtype(), op.attributes.ints("input_shape"))};
  };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* g = op.input(0);
    Tensor* target = zeros(builder, g->dtype(), op.attributes.ints("input_shape"));
    return {builder.make("Scatter", {target, op.input(1), g}, pick_attributes(op, {"axis"}))};
  };
  return def;
}

/// The scanned axis: from the constant input 1 (its value decides the program) or the attribute.
std::int64_t scan_axis(const Op& op) {
  const std::int64_t rank = rank_of(*op.input(0));
  if (op.input(1) == nullptr) return op.attributes.integer("axis");
  const Tensor& dim = *op.input(1);
  const bool usable = dim.kind() == TensorKind::Constant && dim.data != nullptr &&
                      dim.info.num_elements() == 1 &&
                      (dim.dtype() == DType::Int64 || dim.dtype() == DType::Int32);
  check_inputs(op, usable, "wanted a constant int32 or int64 axis with one element");
  std::int64_t axis = 0;
  if (dim.dtype() == DType::Int64) {
    std::memcpy(&axis, dim.data->data, sizeof axis);
  } else {
    std::int32_t narrow = 0;
    std::memcpy(&narrow, dim.data->data, sizeof narrow);
    axis = narrow;
  }
  return normalise_axis(axis, rank, "CumSum");
}

OpDef cum_sum() {
  OpDef def;
  def.name = "CumSum";
  def.doc =
      "Inclusive running sum. Inputs: 0 t, 1 axis (optional int64 constant, negative allowed). "
      "Attributes: axis (when input 1 is absent), reverse (default false: from the first element "
      "on). Kernels see attributes axis and reverse and one input.";
  def.max_inputs = 2;
  def.attributes = {{"axis", Integer, false}, {"reverse", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_inputs(op, op.input(1) != nullptr || op.attributes.has("axis"), "wanted an axis");
    if (op.input(1) == nullptr) axis_attribute(op, rank_of(t));
    return std::vector<TensorInfo>{t.info};
  };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    if (op.input(1) == nullptr && op.attributes.has("reverse")) return {};
    const Attributes attributes{{"axis", scan_axis(op)},
                                {"reverse", op.attributes.flag_or("reverse", false)}};
    return {builder.make("CumSum", {op.input(0)}, attributes)};
  };
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    const Attributes attributes{{"axis", scan_axis(op)},
                                {"reverse", op.attributes.flag_or("reverse", false)}};
    builder.set_input_gradient(0, builder.make("CumSumGrad", {g}, attributes));
  };
  return def;
}

OpDef cum_sum_grad() {
  OpDef def;
  def.name = "CumSumGrad";
  def.doc =
      "Inputs: 0 g. Attributes: axis, reverse (of the CumSum). Running sum in the opposite "
      "direction.";
  def.attributes = {{"axis", Integer}, {"reverse", Flag}};
  def.infer = [](const Op& op) {
    return std::vector<TensorInfo>{needed_input(op, 0, "g").info};
  };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    return {builder.make("CumSum", {op.input(0)},
                         {{"axis", op.attributes.integer("axis")},
                          {"reverse", !op.attributes.flag("reverse")}})};
  };
  return def;
}

OpDef histogram() {
  OpDef def;
  def.name = "Histogram";
  def.doc =
      "Inputs: 0 t (float16 or float32). Attributes: levels (strictly increasing), "
      "absolute_of_input. uint32 counts, shape (len(levels) + 1,): x < l0, l[i-1] <= x < l[i], x >= "
      "l[-1]; of |x| with absolute_of_input.";
  def.attributes = {{"levels", NumberList}, {"absolute_of_input", Flag}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_inputs(op, t.dtype() == DType::Float16 || t.dtype() == DType::Float32,
                 "wanted a float16 or float32 tensor");
    const Floats& levels = op.attributes.floats("levels");
    const bool increasing = std::adjacent_find(levels.begin(), levels.end(),
                                               std::greater_equal<>()) == levels.end();
    if (levels.empty() || !increasing) {
      throw ValueError(str_cat(describe(op), ": wanted strictly increasing levels"));
    }
    return std::vector<TensorInfo>{
        plain_info(DType::UInt32, {static_cast<std::int64_t>(levels.size()) + 1})};
  };
  return def;
}

// Median

struct MedianAxes {
  Ints order;      // kept axes, then reduced ones: a permutation of the input's axes
  Shape kept;      // sizes of the kept axes
  Shape reduced;   // sizes of the reduced axes
};

MedianAxes median_axes(const Shape& shape, const Ints& axes) {
  MedianAxes result;
  const auto is_reduced = [&](std::size_t i) {
    return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
  };
  for (bool reduced : {false, true}) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (is_reduced(i) != reduced) continue;
      result.order.push_back(static_cast<std::int64_t>(i));
      (reduced ? result.reduced : result.kept).push_back(shape[i]);
    }
  }
  return result;
}

Shape median_shape(const Op& op, const Shape& shape) {
  const Ints& axes = op.attributes.ints("axes");
  for (std::int64_t axis : axes) {
    check_inputs(op, axis >= 0 && axis < static_cast<std::int64_t>(shape.size()),
                 str_cat("axis ", axis, " is out of range for a tensor of rank ", shape.size()));
  }
  if (!op.attributes.flag_or("keepdims", false)) return median_axes(shape, axes).kept;
  Shape result = shape;
  for (std::int64_t axis : axes) result[static_cast<std::size_t>(axis)] = 1;
  return result;
}

Tensor* transpose(OpBuilder& builder, Tensor* t, const Ints& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return t;
  return builder.make("Transpose", {t}, {{"permutation", permutation}});
}

std::vector<Tensor*> expand_median(OpBuilder& builder, const Op& op) {
  Tensor* t = op.input(0);
  const Ints& axes = op.attributes.ints("axes");
  const Ints last = {rank_of(*t) - 1};
  if (axes == last && op.attributes.has("keepdims") && !op.attributes.flag("keepdims")) return {};
  const MedianAxes split = median_axes(t->shape(), axes);
  Shape rows = split.kept;
  rows.push_back(num_elements(split.reduced));
  Tensor* flat = builder.reshape(transpose(builder, t, split.order), rows);
  Op& median = builder.op("ReduceMedian", {flat},
                          {{"axes", Ints{static_cast<std::int64_t>(rows.size()) - 1}},
                           {"keepdims", false}});
  const Shape& shape = op.output(0)->shape();
  return {builder.reshape(median.output(0), shape), builder.reshape(median.output(1), shape)};
}

OpDef reduce_median() {
  OpDef def;
  def.name = "ReduceMedian";
  def.doc =
      "Inputs: 0 t. Attributes: axes, keepdims (default false). The reduced axes are flattened "
      "together and sorted; element (n - 1) / 2 is taken. Outputs: 0 values, 1 int32 index of each "
      "in the flattened axes (lowest among equals). Kernels see the last axis and keepdims false.";
  def.attributes = {{"axes", IntList}, {"keepdims", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Shape shape = median_shape(op, t.shape());
    return std::vector<TensorInfo>{plain_info(t.dtype(), shape), plain_info(DType::Int32, shape)};
  };
  def.expand = expand_median;
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    Attributes attributes = pick_attributes(op, {"axes", "keepdims"});
    attributes.set("input_shape", Ints(op.input(0)->shape()));
    builder.set_input_gradient(
        0, builder.make("ReduceMedianGrad", {g, builder.forward(op.output(1))}, attributes));
  };
  return def;
}

std::vector<Tensor*> expand_median_grad(OpBuilder& builder, const Op& op) {
  Tensor* g = op.input(0);
  const Shape& shape = op.attributes.ints("input_shape");
  const MedianAxes split = median_axes(shape, op.attributes.ints("axes"));
  Shape rows = split.kept;
  rows.push_back(1);
  Tensor* values = builder.reshape(g, rows);
  Tensor* indices = builder.reshape(op.input(1), rows);
  rows.back() = num_elements(split.reduced);
  Tensor* placed =
      builder.make("Scatter", {zeros(builder, g->dtype(), rows), indices, values},
                   {{"axis", static_cast<std::int64_t>(rows.size()) - 1}});
  Ints inverse(split.order.size());
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    inverse[static_cast<std::size_t>(split.order[i])] = static_cast<std::int64_t>(i);
  }
  return {transpose(builder, builder.reshape(placed, join_shapes(split.kept, split.reduced)),
                    inverse)};
}

OpDef reduce_median_grad() {
  OpDef def;
  def.name = "ReduceMedianGrad";
  def.doc =
      "Inputs: 0 g, 1 indices (output 1 of ReduceMedian). Attributes: axes, keepdims, input_shape. "
      "g placed into zeros of input_shape at the selected elements.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"axes", IntList}, {"keepdims", Flag, false}, {"input_shape", IntList}};
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Shape& shape = op.attributes.ints("input_shape");
    check_inputs(op, g.shape() == median_shape(op, shape) &&
                         needed_input(op, 1, "indices").shape() == g.shape(),
                 "wanted g and indices of the median's shape");
    return std::vector<TensorInfo>{plain_info(g.dtype(), shape)};
  };
  def.expand = expand_median_grad;
  return def;
}

}  // namespace

void register_sort_ops(Registry& registry) {
  registry.add(arg_extreme("ArgMax", "largest element"));
  registry.add(arg_extreme("ArgMin", "smallest element"));
  registry.add(top_k());
  registry.add(top_k_grad());
  registry.add(cum_sum());
  registry.add(cum_sum_grad());
  registry.add(histogram());
  registry.add(reduce_median());
  registry.add(reduce_median_grad());
}

}  // namespace pando
