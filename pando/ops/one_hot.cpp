// One-hot encoding, built from comparisons so that it fuses.
#include <numeric>

#include "pando/ops/gather.hpp"
#include "pando/ops/joins.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

/// Position of the class dimension in the result; -1 stands for the end.
std::int64_t class_axis(const Op& op, const Tensor& indices) {
  const auto rank = static_cast<std::int64_t>(indices.shape().size());
  const std::int64_t axis = op.attributes.integer("axis");
  if (axis == -1) return rank;
  check_inputs(op, axis >= 0 && axis <= rank,
               str_cat("axis ", axis, " is out of range: wanted -1 or 0 to ", rank));
  return axis;
}

Shape with_class_axis(Shape shape, std::int64_t axis, std::int64_t size) {
  shape.insert(shape.begin() + axis, size);
  return shape;
}

/// 0, 1, ..., count - 1 along `axis` of a tensor of rank `rank`.
Tensor* class_numbers(OpBuilder& builder, DType dtype, std::int64_t rank, std::int64_t axis,
                      std::int64_t count) {
  const TensorInfo info{dtype, axis_shape(rank, axis, count), {}};
  const auto size = static_cast<std::size_t>(count);
  if (dtype == DType::Int64) {
    std::vector<std::int64_t> values(size);
    std::iota(values.begin(), values.end(), 0);
    return builder.constant(info, values.data());
  }
  std::vector<std::int32_t> values(size);
  std::iota(values.begin(), values.end(), 0);
  return builder.constant(info, values.data());
}

/// Bool tensor of the result's shape: where the class equals the index.
Tensor* class_mask(OpBuilder& builder, const Op& op, Tensor* indices, std::int64_t num_classes) {
  const bool wide = indices->dtype() == DType::Int64 || indices->dtype() == DType::UInt64 ||
                    indices->dtype() == DType::UInt32;
  const DType dtype = wide ? DType::Int64 : DType::Int32;
  const std::int64_t axis = class_axis(op, *indices);
  const auto rank = static_cast<std::int64_t>(indices->shape().size()) + 1;
  Tensor* column =
      builder.reshape(builder.cast(indices, dtype), with_class_axis(indices->shape(), axis, 1));
  return builder.make("Equal", {column, class_numbers(builder, dtype, rank, axis, num_classes)});
}

OpDef one_hot() {
  OpDef def;
  def.name = "OneHot";
  def.doc =
      "Inputs: 0 indices (integer), 1 values = [off, on]. Attributes: num_classes, axis (-1: new "
      "last dimension, else where it is inserted). on where the class number equals the index, off "
      "elsewhere. Dtype of values.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"num_classes", Integer}, {"axis", Integer}};
  def.infer = [](const Op& op) {
    const Tensor& indices = needed_input(op, 0, "indices");
    const Tensor& values = needed_input(op, 1, "values");
    check_inputs(op, values.shape() == Shape{2}, "wanted values of shape (2,): [off, on]");
    const std::int64_t num_classes = op.attributes.integer("num_classes");
    check_inputs(op, num_classes >= 1, str_cat("wanted num_classes >= 1, not ", num_classes));
    return std::vector<TensorInfo>{plain_info(
        values.dtype(), with_class_axis(indices.shape(), class_axis(op, indices), num_classes))};
  };
  def.check_execution = [](const Op& op) {
    require_integer(op, 0);
    require_arithmetic(op, 1);
  };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* values = op.input(1);
    Tensor* mask = class_mask(builder, op, op.input(0), op.attributes.integer("num_classes"));
    Tensor* off = builder.reshape(slice_axis(builder, values, 0, 0, 1), {});
    Tensor* on = builder.reshape(slice_axis(builder, values, 0, 1, 1), {});
    return {builder.make("Where", {mask, on, off})};
  };
  def.differentiable_inputs = {1};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(1)) return;
    builder.set_input_gradient(1, builder.make("OneHotGrad", {g, builder.forward(op.input(0))},
                                               pick_attributes(op, {"num_classes", "axis"})));
  };
  return def;
}

OpDef one_hot_grad() {
  OpDef def;
  def.name = "OneHotGrad";
  def.doc =
      "Inputs: 0 g, 1 indices. Attributes: num_classes, axis. Gradient of OneHot's values: [sum of "
      "g where off, sum of g where on].";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"num_classes", Integer}, {"axis", Integer}};
  def.infer = [](const Op& op) {
    return std::vector<TensorInfo>{plain_info(needed_input(op, 0, "g").dtype(), {2})};
  };
  def.check_execution = [](const Op& op) {
    require_arithmetic(op, 0);
    require_integer(op, 1);
  };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* g = op.input(0);
    Tensor* mask = class_mask(builder, op, op.input(1), op.attributes.integer("num_classes"));
    Tensor* nothing = builder.constant(0.0, g->dtype());
    Ints axes(g->shape().size());
    std::iota(axes.begin(), axes.end(), 0);
    const auto total = [&](Tensor* t) {
      return builder.reshape(builder.make("ReduceSum", {t}, {{"axes", axes}, {"keepdims", false}}),
                             {1});
    };
    Tensor* off = total(builder.make("Where", {mask, nothing, g}));
    Tensor* on = total(builder.make("Where", {mask, g, nothing}));
    return {builder.make("Concat", {off, on}, {{"axis", std::int64_t{0}}})};
  };
  return def;
}

}  // namespace

void register_one_hot_ops(Registry& registry) {
  registry.add(one_hot());
  registry.add(one_hot_grad());
}

}  // namespace pando
