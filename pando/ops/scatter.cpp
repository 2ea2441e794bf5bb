// Scatter and scatter_reduce with their gradients.
#include "pando/ops/scatter.hpp"

#include <algorithm>

#include "pando/ops/gather.hpp"
#include "pando/ops/joins.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

std::int64_t dimension(const Shape& shape, std::int64_t axis) {
  return shape[static_cast<std::size_t>(axis)];
}

/// Whether positions of `inner` lie inside `outer` in every dimension but `axis`.
bool fits(const Shape& inner, const Shape& outer, std::int64_t axis) {
  if (inner.size() != outer.size()) return false;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (static_cast<std::int64_t>(i) != axis && inner[i] > outer[i]) return false;
  }
  return true;
}

OpDef scatter() {
  OpDef def;
  def.name = "Scatter";
  def.doc =
      "ScatterElements. Inputs: 0 t, 1 indices (integer, non-negative), 2 values (shape of "
      "indices, "
      "dtype of t). Attributes: axis. A copy of t in which, for each position p of indices, the "
      "element p with coordinate axis replaced by indices[p] is values[p]; out of range is "
      "skipped.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = {{"axis", Integer}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Tensor& indices = needed_input(op, 1, "indices");
    const Tensor& values = needed_input(op, 2, "values");
    const std::int64_t axis = axis_attribute(op, rank_of(t));
    check_inputs(op, indices.shape() == values.shape(), "wanted indices and values of one shape");
    check_inputs(op, fits(indices.shape(), t.shape(), axis), "wanted indices that lie inside t");
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = [](const Op& op) {
    require_integer(op, 1);
    check_inputs(op, op.input(2)->dtype() == op.input(0)->dtype(), "wanted values of t's dtype");
  };
  def.differentiable_inputs = {0, 2};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr) return;
    Tensor* indices = builder.forward(op.input(1));
    const Attributes axis = pick_attributes(op, {"axis"});
    if (builder.wants(0)) {
      builder.set_input_gradient(0, builder.make("ScatterDataGrad", {g, indices}, axis));
    }
    if (builder.wants(2)) {
      builder.set_input_gradient(2, builder.make("ScatterUpdateGrad", {g, indices}, axis));
    }
  };
  return def;
}

OpDef scatter_gradient(const std::string& name, const std::string& doc, bool data,
                       decltype(OpDef::expand) expand) {
  OpDef def;
  def.name = name;
  def.doc = "Inputs: 0 g, 1 indices. Attributes: axis. " + doc;
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"axis", Integer}};
  def.infer = [data](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Tensor& indices = needed_input(op, 1, "indices");
    axis_attribute(op, rank_of(g));
    return std::vector<TensorInfo>{data ? g.info : plain_info(g.dtype(), indices.shape())};
  };
  def.expand = std::move(expand);
  return def;
}

OpDef scatter_data_grad() {
  return scatter_gradient(
      "ScatterDataGrad", "g with the scattered positions set to 0.", true,
      [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
        Tensor* indices = op.input(1);
        Tensor* none = zeros(builder, op.input(0)->dtype(), indices->shape());
        return {builder.make("Scatter", {op.input(0), indices, none}, op.attributes)};
      });
}

OpDef scatter_update_grad() {
  return scatter_gradient(
      "ScatterUpdateGrad", "g gathered at the scattered positions.", false,
      [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
        return {gather_elements(builder, op.input(0), op.input(1), op.attributes.integer("axis"))};
      });
}

// scatter_reduce. The kernel sees indices of exactly data's shape; other forms expand to that.

/// Shape of rank `data.size()` that a vector of indices along `axis` (with a group dimension when
/// group_size > 1) has before it is broadcast; empty when the indices are of no such form.
Shape vector_index_shape(const Op& op, const Shape& indices, const Shape& data, std::int64_t axis) {
  const std::int64_t group_size = op.attributes.integer_or("group_size", 1);
  Shape wanted = axis_shape(static_cast<std::int64_t>(data.size()), axis, dimension(data, axis));
  if (group_size > 1) wanted[0] = group_size;
  Shape given, needed;
  for (std::int64_t dim : indices) {
    if (dim != 1) given.push_back(dim);
  }
  for (std::int64_t dim : wanted) {
    if (dim != 1) needed.push_back(dim);
  }
  return given == needed ? wanted : Shape{};
}

void check_index_shape(const Op& op, const Shape& data, const Tensor& indices, std::int64_t axis) {
  if (!op.attributes.flag_or("index_broadcast", true)) {
    bool inside = indices.shape().size() == data.size();
    for (std::size_t i = 0; inside && i < data.size(); ++i) inside = indices.shape()[i] <= data[i];
    check_inputs(op, inside, "wanted indices of data's rank that are nowhere larger");
    return;
  }
  if (indices.shape() == data) return;
  check_inputs(op, !vector_index_shape(op, indices.shape(), data, axis).empty(),
               "partial broadcasting of indices is not supported: wanted indices of data's shape, "
               "or a vector along the axis");
}

}  // namespace

Tensor* scatter_indices(OpBuilder& builder, const Op& op, Tensor* indices, const Shape& data,
                        std::int64_t axis) {
  if (indices->shape() == data || !op.attributes.flag_or("index_broadcast", true)) return indices;
  const Shape narrow = vector_index_shape(op, indices->shape(), data, axis);
  return builder.broadcast_to(builder.reshape(indices, narrow), data);
}

Tensor* leading_part(OpBuilder& builder, Tensor* t, const Shape& shape) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (t->shape()[i] != shape[i]) {
      t = slice_axis(builder, t, static_cast<std::int64_t>(i), 0, shape[i]);
    }
  }
  return t;
}

Tensor* pad_end(OpBuilder& builder, Tensor* t, const Shape& shape, double value) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    Shape rest = t->shape();
    rest[i] = shape[i] - rest[i];
    if (rest[i] == 0) continue;
    t = builder.make("Concat",
                     {t, broadcast_constant(builder, value, plain_info(t->dtype(), rest))},
                     {{"axis", static_cast<std::int64_t>(i)}});
  }
  return t;
}

std::vector<TensorInfo> infer_scatter_reduce_grad(const Op& op) {
  const Tensor& g = needed_input(op, 0, "g");
  needed_input(op, 1, "indices");
  std::vector<TensorInfo> infos = {plain_info(g.dtype(), op.attributes.ints("input_shape"))};
  if (op.attributes.flag("has_initial_values")) infos.push_back(g.info);
  return infos;
}

std::vector<TensorInfo> infer_scatter_reduce(const Op& op) {
  const Tensor& data = needed_input(op, 0, "data");
  const Tensor& indices = needed_input(op, 1, "indices");
  const std::int64_t axis = axis_attribute(op, rank_of(data));
  const std::int64_t group_size = op.attributes.integer_or("group_size", 1);
  check_inputs(op, group_size == 1 || (axis >= 1 && data.shape()[0] == group_size),
               "wanted axis >= 1 and a first dimension of group_size");
  const std::string& reduction = op.attributes.text("reduction");
  const auto known = {"sum", "prod", "min", "max", "none"};
  if (std::find(known.begin(), known.end(), reduction) == known.end()) {
    throw ValueError(str_cat("Not a valid reduction: ", reduction,
                             ". Must choose from: sum, prod, min, max, none"));
  }
  check_index_shape(op, data.shape(), indices, axis);
  if (const Tensor* initial = op.input(2)) {
    check_inputs(op, fits(data.shape(), initial->shape(), axis),
                 "wanted initial_values that differ from data only along the axis");
    return {plain_info(data.dtype(), initial->shape())};
  }
  if (!op.attributes.has("axis_size")) {
    throw ValueError(str_cat(describe(op), ": wanted either initial_values or axis_size"));
  }
  Shape shape = data.shape();
  shape[static_cast<std::size_t>(axis)] = op.attributes.integer("axis_size");
  return {plain_info(data.dtype(), shape)};
}

namespace {

std::vector<Tensor*> expand_scatter_reduce(OpBuilder& builder, const Op& op) {
  Tensor* data = op.input(0);
  Tensor* indices = op.input(1);
  if (indices->shape() == data->shape()) return {};
  const std::int64_t axis = op.attributes.integer("axis");
  Tensor* full = scatter_indices(builder, op, indices, data->shape(), axis);
  Tensor* reduced =
      builder.make("ScatterReduce", {leading_part(builder, data, full->shape()), full, op.input(2)},
                   pick_attributes(op, {"reduction", "axis", "axis_size"}));
  // Without initial values the result is as narrow as the indices.
  return {pad_end(builder, reduced, op.output(0)->shape())};
}

void scatter_reduce_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr || !(builder.wants(0) || builder.wants(2))) return;
  const std::string& reduction = op.attributes.text("reduction");
  const bool compares = reduction == "min" || reduction == "max" || reduction == "prod";
  const bool has_initial = op.input(2) != nullptr;
  Attributes attributes =
      pick_attributes(op, {"reduction", "axis", "group_size", "index_broadcast"});
  attributes.set("input_shape", Ints(op.input(0)->shape()));
  attributes.set("has_initial_values", has_initial);
  const auto value = [&](bool wanted, Tensor* t) { return wanted ? builder.forward(t) : nullptr; };
  Op& grad =
      builder.op("ScatterReduceGradOp",
                 {g, builder.forward(op.input(1)), value(compares, op.input(0)),
                  value(compares && has_initial, op.input(2)), value(compares, op.output(0))},
                 attributes);
  if (builder.wants(0)) builder.set_input_gradient(0, grad.output(0));
  if (has_initial && builder.wants(2)) builder.set_input_gradient(2, grad.output(1));
}

OpDef scatter_reduce() {
  OpDef def;
  def.name = "ScatterReduce";
  def.doc =
      "Inputs: 0 data, 1 indices (integer; data's shape, or a vector along axis), 2 initial_values "
      "(optional). Attributes: reduction (sum, prod, min, max, none = overwrite), axis, axis_size "
      "(when "
      "there are no initial values), group_size (default 1), index_broadcast (default true; false: "
      "element semantics, indices may be smaller than data). For every position p the element p "
      "with coordinate axis replaced by indices[p] is reduced with data[p]. Untouched positions "
      "are those of initial_values, 0 without; without, only data takes part. Kernels see indices "
      "of data's shape (maybe stride 0) and no group_size or index_broadcast; the output may be "
      "larger than data in the other dimensions; out of range is skipped.";
  def.min_inputs = 2;
  def.max_inputs = 3;
  def.attributes = {{"reduction", Text},
                    {"axis", Integer},
                    {"axis_size", Integer, false},
                    {"group_size", Integer, false},
                    {"index_broadcast", Flag, false}};
  def.infer = infer_scatter_reduce;
  def.check_execution = [](const Op& op) {
    require_arithmetic(op, 0);
    const std::string& reduction = op.attributes.text("reduction");
    if (reduction == "sum" || reduction == "prod") require_number(op, 0);
    require_integer(op, 1);
    const Tensor* initial = op.input(2);
    check_inputs(op, initial == nullptr || initial->dtype() == op.input(0)->dtype(),
                 "wanted initial_values of data's dtype");
  };
  def.expand = expand_scatter_reduce;
  def.differentiable_inputs = {0, 2};
  def.gradient = scatter_reduce_gradient;
  return def;
}

/// The product without one factor, for each factor of a product reduction, times g: factors that
/// are 0 are counted, the others multiplied.
class ProductGradient {
 public:
  ProductGradient(OpBuilder& builder, const Op& op, Tensor* data, Tensor* indices, Tensor* initial)
      : builder_(builder), dtype_(op.input(0)->dtype()) {
    Attributes attributes = pick_attributes(op, {"axis"});
    if (initial == nullptr) {
      attributes.set("axis_size", dimension(op.input(0)->shape(), op.attributes.integer("axis")));
    }
    const auto reduce = [&](const char* reduction, Tensor* factors, Tensor* first) {
      attributes.set("reduction", std::string(reduction));
      return builder.make("ScatterReduce", {factors, indices, first}, attributes);
    };
    product_ = reduce("prod", choose(is_zero(data), 1.0, data),
                      initial == nullptr ? nullptr : choose(is_zero(initial), 1.0, initial));
    zeros_ = reduce("sum", builder.cast(is_zero(data), DType::Float32),
                    initial == nullptr ? nullptr : builder.cast(is_zero(initial), DType::Float32));
  }

  /// Of the factors with the indices, or (nullptr) one factor for each result.
  Tensor* of(Tensor* factors, Tensor* g, Tensor* indices, std::int64_t axis) const {
    const auto at = [&](Tensor* t) {
      return indices == nullptr ? t : gather_elements(builder_, t, indices, axis);
    };
    Tensor* product = at(product_);
    Tensor* zeros = at(zeros_);
    Tensor* zero = is_zero(factors);
    Tensor* others = builder_.make("Div", {product, choose(zero, 1.0, factors)});
    // The other factors of a zero hold one zero less.
    Tensor* left = builder_.make("Sub", {zeros, builder_.cast(zero, DType::Float32)});
    Tensor* rest = builder_.make("Where", {is_zero(left), others, builder_.constant(0.0, dtype_)});
    return builder_.make("Mul", {at(g), rest});
  }

 private:
  Tensor* is_zero(Tensor* t) const {
    return builder_.make("Equal", {t, builder_.constant(0.0, t->dtype())});
  }
  Tensor* choose(Tensor* condition, double yes, Tensor* no) const {
    return builder_.make("Where", {condition, builder_.constant(yes, dtype_), no});
  }

  OpBuilder& builder_;
  DType dtype_;
  Tensor* product_;
  Tensor* zeros_;
};

std::vector<Tensor*> expand_scatter_reduce_grad(OpBuilder& builder, const Op& op) {
  Tensor* g = op.input(0);
  const Shape& shape = op.attributes.ints("input_shape");
  const std::string& reduction = op.attributes.text("reduction");
  const std::int64_t axis = op.attributes.integer("axis");
  Tensor* indices = scatter_indices(builder, op, op.input(1), shape, axis);
  Tensor* nothing = builder.constant(0.0, g->dtype());
  Tensor* data_gradient = gather_elements(builder, g, indices, axis);
  Tensor* initial_gradient = g;
  if (reduction == "prod") {
    Tensor* data = leading_part(builder, op.input(2), indices->shape());
    const ProductGradient product(builder, op, data, indices, op.input(3));
    data_gradient = product.of(data, g, indices, axis);
    if (op.input(3) != nullptr) initial_gradient = product.of(op.input(3), g, nullptr, axis);
  } else if (Tensor* data = op.input(2)) {
    Tensor* reduced = gather_elements(builder, op.input(4), indices, axis);
    Tensor* won = builder.make("Equal", {leading_part(builder, data, indices->shape()), reduced});
    data_gradient = builder.make("Where", {won, data_gradient, nothing});
    if (Tensor* initial = op.input(3)) {
      Tensor* kept = builder.make("Equal", {initial, op.input(4)});
      initial_gradient = builder.make("Where", {kept, g, nothing});
    }
  } else if (reduction == "none") {
    Tensor* none = zeros(builder, g->dtype(), indices->shape());
    initial_gradient = builder.make("Scatter", {g, indices, none}, {{"axis", axis}});
  }
  data_gradient = pad_end(builder, data_gradient, shape);
  if (!op.attributes.flag("has_initial_values")) return {data_gradient};
  return {data_gradient, initial_gradient};
}

OpDef scatter_reduce_grad() {
  OpDef def;
  def.name = "ScatterReduceGradOp";
  def.doc =
      "Inputs: 0 g, 1 indices, 2 data, 3 initial_values, 4 output (2 to 4 only for prod, min and "
      "max). "
      "Attributes: those of ScatterReduce, input_shape (of data), has_initial_values. Outputs: 0 "
      "gradient of data: g gathered (prod: times the other factors; min, max: where data equals "
      "the output), 1 gradient of "
      "initial_values when there are any: g (prod: times the other factors; none: 0 at written "
      "positions; min, "
      "max: where they "
      "equal the output).";
  def.min_inputs = 2;
  def.max_inputs = 5;
  def.attributes = {{"reduction", Text},
                    {"axis", Integer},
                    {"group_size", Integer, false},
                    {"index_broadcast", Flag, false},
                    {"input_shape", IntList},
                    {"has_initial_values", Flag}};
  def.infer = infer_scatter_reduce_grad;
  def.check_execution = [](const Op& op) {
    require_arithmetic(op, 0);
    require_integer(op, 1);
  };
  def.expand = expand_scatter_reduce_grad;
  return def;
}

}  // namespace

void register_scatter_ops(Registry& registry) {
  registry.add(scatter());
  registry.add(scatter_data_grad());
  registry.add(scatter_update_grad());
  registry.add(scatter_reduce());
  registry.add(scatter_reduce_grad());
  register_scatter_arg_ops(registry);
}

}  // namespace pando
