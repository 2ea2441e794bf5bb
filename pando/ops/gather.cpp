// Gather and its gradient.
#include "pando/ops/gather.hpp"

#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

/// Dimensions that one gathered index of `axis` is replaced by.
Shape index_dimensions(const Op& op, const Shape& table, const Tensor& indices, std::int64_t axis) {
  const std::int64_t group_size = op.attributes.integer_or("group_size", 1);
  if (group_size == 1) return indices.shape();
  check_inputs(op, group_size > 1, "wanted a group_size of at least 1");
  check_inputs(op, axis >= 1, "wanted an axis of at least 1 with a group_size above 1");
  const Shape& shape = indices.shape();
  check_inputs(op, !shape.empty() && shape[0] == group_size && table[0] == group_size,
               str_cat("wanted a first dimension of ", group_size,
                       " (the group_size) in the table and the indices"));
  return Shape(shape.begin() + 1, shape.end());
}

void needs_integer_indices(const Op& op) { require_integer(op, 1); }

OpDef gather(const std::string& name) {
  OpDef def;
  def.name = name;
  def.doc =
      "numpy.take. Inputs: 0 t, 1 indices (integer, read as unsigned). Attributes: axis, "
      "group_size "
      "(default 1; above 1: dimension 0 of t and indices are groups, take(t[b], indices[b], axis - "
      "1)), zero_oor (default false). Output t.shape[:axis] + indices.shape + t.shape[axis+1:]. "
      "Indices out of range give zeros with zero_oor, else unspecified values.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"axis", Integer}, {"group_size", Integer, false}, {"zero_oor", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Tensor& indices = needed_input(op, 1, "indices");
    const std::int64_t axis = axis_attribute(op, rank_of(t));
    const Shape inner = index_dimensions(op, t.shape(), indices, axis);
    return std::vector<TensorInfo>{plain_info(t.dtype(), splice_shape(t.shape(), axis, inner))};
  };
  def.check_execution = needs_integer_indices;
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    Attributes attributes = pick_attributes(op, {"axis", "group_size"});
    attributes.set("input_shape", Ints(op.input(0)->shape()));
    builder.set_input_gradient(
        0, builder.make("GatherGrad", {g, builder.forward(op.input(1))}, attributes));
  };
  return def;
}

OpDef tied_gather() {
  OpDef def = gather("TiedGather");
  def.doc = "The same values as Gather. " + def.doc;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    return {builder.make("Gather", op.inputs(), op.attributes)};
  };
  return def;
}

OpDef gather_grad() {
  OpDef def;
  def.name = "GatherGrad";
  def.doc =
      "Inputs: 0 g (gradient of a Gather's output), 1 indices. Attributes: axis, group_size "
      "(default 1), input_shape (shape of the gathered tensor). Adds the rows of g into zeros of "
      "input_shape at their indices; indices out of range contribute nothing.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"axis", Integer}, {"group_size", Integer, false}, {"input_shape", IntList}};
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Tensor& indices = needed_input(op, 1, "indices");
    const Shape& table = op.attributes.ints("input_shape");
    const std::int64_t axis = axis_attribute(op, static_cast<std::int64_t>(table.size()));
    const Shape wanted = splice_shape(table, axis, index_dimensions(op, table, indices, axis));
    check_inputs(op, g.shape() == wanted, str_cat("wanted g of shape ", shape_text(wanted)));
    return std::vector<TensorInfo>{plain_info(g.dtype(), table)};
  };
  def.check_execution = [](const Op& op) {
    require_number(op, 0);
    needs_integer_indices(op);
  };
  return def;
}

OpDef gather_elements_def() {
  OpDef def;
  def.name = "GatherElements";
  def.doc =
      "Internal. Inputs: 0 t, 1 indices (integer, rank of t, non-negative; no other dimension "
      "larger than t's). Attributes: axis. out[p] = t[p with coordinate axis replaced by "
      "indices[p]]; out of range gives 0. Output: shape of indices, dtype of t.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"axis", Integer}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Tensor& indices = needed_input(op, 1, "indices");
    check_inputs(op, rank_of(t) == rank_of(indices), "wanted indices of t's rank");
    axis_attribute(op, rank_of(t));
    return std::vector<TensorInfo>{plain_info(t.dtype(), indices.shape())};
  };
  def.check_execution = needs_integer_indices;
  return def;
}

}  // namespace

Tensor* gather_elements(OpBuilder& builder, Tensor* t, Tensor* indices, std::int64_t axis) {
  return builder.make("GatherElements", {t, indices}, {{"axis", axis}});
}

void register_gather_ops(Registry& registry) {
  registry.add(gather("Gather"));
  registry.add(tied_gather());
  registry.add(gather_grad());
  registry.add(gather_elements_def());
  register_scatter_ops(registry);
  register_dynamic_slice_ops(registry);
  register_one_hot_ops(registry);
}

}  // namespace pando
