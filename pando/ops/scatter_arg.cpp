// Extremes of scattered elements with the positions that they come from.
#include <numeric>

#include "pando/ops/gather.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/rules.hpp"
#include "pando/ops/scatter.hpp"

namespace pando {
namespace {

using enum AttributeType;

void check_least_or_greatest(const Op& op) {
  const std::string& reduction = op.attributes.text("reduction");
  if (reduction == "min" || reduction == "max") return;
  throw ValueError(
      str_cat(describe(op), ": wanted the reduction min or max, not '", reduction, "'"));
}

std::int64_t size_along(const Op& op, const Shape& shape) {
  return shape[static_cast<std::size_t>(op.attributes.integer("axis"))];
}

std::vector<Tensor*> expand_scatter_arg_reduce(OpBuilder& builder, const Op& op) {
  Tensor* data = op.input(0);
  if (op.input(1)->shape() == data->shape()) return {};
  const std::int64_t axis = op.attributes.integer("axis");
  Tensor* indices = scatter_indices(builder, op, op.input(1), data->shape(), axis);
  const Op& reduced = builder.op(
      "ScatterArgReduce", {leading_part(builder, data, indices->shape()), indices, op.input(2)},
      pick_attributes(op, {"reduction", "axis", "axis_size"}));
  Tensor* positions = reduced.output(1);
  const auto none = static_cast<double>(size_along(op, data->shape()));
  const auto none_of_part = static_cast<double>(size_along(op, indices->shape()));
  if (none != none_of_part) {
    Tensor* is_none =
        builder.make("Equal", {positions, builder.constant(none_of_part, positions->dtype())});
    positions =
        builder.make("Where", {is_none, builder.constant(none, positions->dtype()), positions});
  }
  // Without initial values the result is as narrow as the indices.
  const Shape& shape = op.output(0)->shape();
  return {pad_end(builder, reduced.output(0), shape), pad_end(builder, positions, shape, none)};
}

void scatter_arg_reduce_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr || !(builder.wants(0) || builder.wants(2))) return;
  const bool has_initial = op.input(2) != nullptr;
  Attributes attributes = pick_attributes(op, {"axis", "index_broadcast"});
  attributes.set("input_shape", Ints(op.input(0)->shape()));
  attributes.set("has_initial_values", has_initial);
  Op& grad =
      builder.op("ScatterArgReduceGrad",
                 {g, builder.forward(op.input(1)), builder.forward(op.output(1))}, attributes);
  if (builder.wants(0)) builder.set_input_gradient(0, grad.output(0));
  if (has_initial && builder.wants(2)) builder.set_input_gradient(2, grad.output(1));
}

OpDef scatter_arg_reduce() {
  OpDef def;
  def.name = "ScatterArgReduce";
  def.doc =
      "Inputs: 0 data, 1 indices (integer; data's shape, or a vector along axis), 2 initial_values "
      "(optional). Attributes: reduction (min, max), axis, axis_size (when there are no initial "
      "values), index_broadcast (default true; false: element semantics, indices may be smaller "
      "than data). Outputs: 0 as ScatterReduce, 1 int32 of the same shape, the position along axis "
      "of "
      "the element of data that each is: the first of equal ones; the size of data along axis "
      "where "
      "it is an initial value, which beats equal elements, or no element came. NaN beats all. The "
      "gradient goes to these elements alone.";
  def.min_inputs = 2;
  def.max_inputs = 3;
  def.attributes = {{"reduction", Text},
                    {"axis", Integer},
                    {"axis_size", Integer, false},
                    {"index_broadcast", Flag, false}};
  def.infer = [](const Op& op) {
    std::vector<TensorInfo> infos = infer_scatter_reduce(op);
    check_least_or_greatest(op);
    infos.push_back(plain_info(DType::Int32, infos.front().shape));
    return infos;
  };
  def.check_execution = [](const Op& op) {
    require_arithmetic(op, 0);
    require_integer(op, 1);
    if (op.input(2) != nullptr) require_same_dtype(op, 0, 2);
  };
  def.expand = expand_scatter_arg_reduce;
  def.differentiable_inputs = {0, 2};
  def.gradient = scatter_arg_reduce_gradient;
  return def;
}

std::vector<Tensor*> expand_scatter_arg_reduce_grad(OpBuilder& builder, const Op& op) {
  Tensor* g = op.input(0);
  Tensor* chosen = op.input(2);
  const Shape& shape = op.attributes.ints("input_shape");
  const std::int64_t axis = op.attributes.integer("axis"), size = size_along(op, shape);
  Tensor* indices = scatter_indices(builder, op, op.input(1), shape, axis);
  std::vector<std::int32_t> along(static_cast<std::size_t>(size_along(op, indices->shape())));
  std::iota(along.begin(), along.end(), 0);
  Tensor* position = builder.constant(
      {DType::Int32,
       axis_shape(static_cast<std::int64_t>(shape.size()), axis, size_along(op, indices->shape())),
       {}},
      along.data());
  Tensor* nothing = builder.constant(0.0, g->dtype());
  Tensor* won = builder.make("Equal", {gather_elements(builder, chosen, indices, axis), position});
  Tensor* data_gradient =
      builder.make("Where", {won, gather_elements(builder, g, indices, axis), nothing});
  data_gradient = pad_end(builder, data_gradient, shape);
  if (!op.attributes.flag("has_initial_values")) return {data_gradient};
  Tensor* kept =
      builder.make("Equal", {chosen, builder.constant(static_cast<double>(size), DType::Int32)});
  return {data_gradient, builder.make("Where", {kept, g, nothing})};
}

OpDef scatter_arg_reduce_grad() {
  OpDef def;
  def.name = "ScatterArgReduceGrad";
  def.doc =
      "Inputs: 0 g, 1 indices, 2 positions (output 1 of ScatterArgReduce). Attributes: those of "
      "ScatterArgReduce, input_shape (of data), has_initial_values. Outputs: 0 gradient of data: g "
      "at the elements that the positions name, else 0, 1 gradient of initial_values when there "
      "are "
      "any: g where no element is named, else 0.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = {{"axis", Integer},
                    {"index_broadcast", Flag, false},
                    {"input_shape", IntList},
                    {"has_initial_values", Flag}};
  def.infer = [](const Op& op) {
    needed_input(op, 2, "positions");
    return infer_scatter_reduce_grad(op);
  };
  def.check_execution = [](const Op& op) {
    require_arithmetic(op, 0);
    require_integer(op, 1);
  };
  def.expand = expand_scatter_arg_reduce_grad;
  return def;
}

}  // namespace

void register_scatter_arg_ops(Registry& registry) {
  registry.add(scatter_arg_reduce());
  registry.add(scatter_arg_reduce_grad());
}

}  // namespace pando
