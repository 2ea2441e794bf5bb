// Ordering and scans: arg max, top k, sort, cumulative sums and products, counts.
#include <algorithm>
#include <cstring>

#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

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
    return std::vector<TensorInfo>{plain_info(DType::Int32, splice_shape(t.shape(), axis, kept))};
  };
  def.check_execution = needs_arithmetic;
  return def;
}

/// Of ops whose output 1 has the indices along axis of what output 0 holds.
void order_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr || !builder.wants(0)) return;
  Attributes attributes = pick_attributes(op, {"axis"});
  attributes.set("input_shape", Ints(op.input(0)->shape()));
  builder.set_input_gradient(
      0, builder.make("TopKGrad", {g, builder.forward(op.output(1))}, attributes));
}

OpDef top_k() {
  OpDef def;
  def.name = "TopK";
  def.doc =
      "Inputs: 0 t. Attributes: axis, k, largest, sorted. Outputs: 0 the k largest (smallest) "
      "elements along axis, 1 their int32 indices; sorted: descending (ascending); equals by "
      "lowest "
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
  def.check_execution = needs_arithmetic;
  def.differentiable_inputs = {0};
  def.gradient = order_gradient;
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

OpDef sort() {
  OpDef def;
  def.name = "Sort";
  def.doc =
      "Inputs: 0 t. Attributes: axis, descending (default false). Outputs: 0 the elements along "
      "axis in order, 1 their int32 indices; equals keep their order; NaN counts as the largest.";
  def.attributes = {{"axis", Integer}, {"descending", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const std::int64_t axis = axis_attribute(op, rank_of(t));
    check_inputs(op, t.shape()[static_cast<std::size_t>(axis)] <= INT32_MAX,
                 "wanted an axis whose indices are int32");
    return std::vector<TensorInfo>{plain_info(t.dtype(), t.shape()),
                                   plain_info(DType::Int32, t.shape())};
  };
  def.check_execution = needs_arithmetic;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* t = op.input(0);
    const std::int64_t size = t->shape()[static_cast<std::size_t>(op.attributes.integer("axis"))];
    if (size == 0) return {fresh(builder, op, t), zeros(builder, DType::Int32, t->shape())};
    Attributes attributes = pick_attributes(op, {"axis"});
    attributes.set("k", size);
    attributes.set("largest", op.attributes.flag_or("descending", false));
    attributes.set("sorted", true);
    const Op& all = builder.op("TopK", {t}, attributes);
    return {all.output(0), all.output(1)};
  };
  def.differentiable_inputs = {0};
  def.gradient = order_gradient;
  return def;
}

OpDef bucketize() {
  OpDef def;
  def.name = "Bucketize";
  def.doc =
      "Inputs: 0 t, 1 boundaries (vector, ascending, dtype of t). Attributes: right (default "
      "false). int32 i with boundaries[i-1] < x <= boundaries[i] for each element x of t; with "
      "right boundaries[i-1] <= x < boundaries[i]. NaN gives the number of boundaries.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"right", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Tensor& boundaries = needed_input(op, 1, "boundaries");
    check_inputs(op, rank_of(boundaries) == 1, "wanted a vector of boundaries");
    check_inputs(op, boundaries.dtype() == t.dtype(), "wanted boundaries of t's dtype");
    return std::vector<TensorInfo>{plain_info(DType::Int32, t.shape())};
  };
  def.check_execution = needs_arithmetic;
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
  def.check_execution = [](const Op& op) { require_number(op, 0); };
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
  def.infer = [](const Op& op) { return std::vector<TensorInfo>{needed_input(op, 0, "g").info}; };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    return {builder.make(
        "CumSum", {op.input(0)},
        {{"axis", op.attributes.integer("axis")}, {"reverse", !op.attributes.flag("reverse")}})};
  };
  return def;
}

OpDef cum_prod() {
  OpDef def;
  def.name = "CumProd";
  def.doc =
      "Inclusive running product. Inputs: 0 t. Attributes: axis, reverse (default false: from the "
      "first element on).";
  def.attributes = {{"axis", Integer}, {"reverse", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    axis_attribute(op, rank_of(t));
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = needs_numbers;
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr) return;
    const Attributes attributes{{"axis", op.attributes.integer("axis")},
                                {"reverse", op.attributes.flag_or("reverse", false)}};
    builder.set_input_gradient(
        0, builder.make("CumProdGrad", {g, builder.forward(op.input(0))}, attributes));
  };
  return def;
}

OpDef cum_prod_grad() {
  OpDef def;
  def.name = "CumProdGrad";
  def.doc =
      "Inputs: 0 g, 1 t. Attributes: axis, reverse (of the CumProd). sum over i >= k of g[i] times "
      "the product of t[j], j <= i, j != k: right where t is 0.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"axis", Integer}, {"reverse", Flag}};
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Tensor& t = needed_input(op, 1, "t");
    check_inputs(op, t.shape() == g.shape() && t.dtype() == g.dtype(),
                 "wanted g and t of one shape and dtype");
    axis_attribute(op, rank_of(g));
    return std::vector<TensorInfo>{g.info};
  };
  def.check_execution = needs_floats;
  return def;
}

OpDef histogram() {
  OpDef def;
  def.name = "Histogram";
  def.doc =
      "Inputs: 0 t (float16, bfloat16 or float32). Attributes: levels (strictly increasing), "
      "absolute_of_input. uint32 counts, shape (len(levels) + 1,): x < l0, l[i-1] <= x < l[i], x "
      ">= "
      "l[-1]; of |x| with absolute_of_input.";
  def.attributes = {{"levels", NumberList}, {"absolute_of_input", Flag}};
  def.infer = [](const Op& op) {
    needed_input(op, 0, "t");
    const Floats& levels = op.attributes.floats("levels");
    const bool increasing =
        std::adjacent_find(levels.begin(), levels.end(), std::greater_equal<>()) == levels.end();
    if (levels.empty() || !increasing) {
      throw ValueError(str_cat(describe(op), ": wanted strictly increasing levels"));
    }
    return std::vector<TensorInfo>{
        plain_info(DType::UInt32, {static_cast<std::int64_t>(levels.size()) + 1})};
  };
  def.check_execution = [](const Op& op) {
    const DType dtype = op.input(0)->dtype();
    check_inputs(op, is_half_or_single_precision(dtype),
                 "wanted a float16, bfloat16 or float32 tensor");
  };
  return def;
}

}  // namespace

void register_sort_ops(Registry& registry) {
  registry.add(arg_extreme("ArgMax", "largest element"));
  registry.add(arg_extreme("ArgMin", "smallest element"));
  registry.add(top_k());
  registry.add(top_k_grad());
  registry.add(sort());
  registry.add(bucketize());
  registry.add(cum_prod());
  registry.add(cum_prod_grad());
  registry.add(cum_sum());
  registry.add(cum_sum_grad());
  registry.add(histogram());
}

}  // namespace pando
