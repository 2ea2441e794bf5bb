#include "pando/ops/nn_rules.hpp"

namespace pando {

const Tensor& needed_input(const Op& op, int index, const char* role) {
  const Tensor* t = op.input(index);
  if (t == nullptr) wrong_input(op, str_cat("wanted the input '", role, "' (index ", index, ")"));
  return *t;
}

void check_channels(const Op& op, int index, const char* role, std::int64_t channels) {
  check_inputs(
      op, needed_input(op, index, role).shape() == Shape{channels},
      str_cat("wanted '", role, "' of shape ", shape_text({channels}), " (the channels of t)"));
}

void check_float(const Op& op, const Tensor& t, const char* role) {
  const bool ok = is_floating_point(t.dtype()) && !is_float8(t.dtype());
  check_inputs(op, ok,
               str_cat("wanted a float16, bfloat16, float32 or float64 tensor for '", role, "'"));
}

void check_integer(const Op& op, const Tensor& t, const char* role) {
  check_inputs(op, is_integer(t.dtype()), str_cat("wanted an integer tensor for '", role, "'"));
}

std::int64_t axis_attribute(const Op& op, std::int64_t rank, const char* name) {
  const std::int64_t axis = op.attributes.integer(name);
  if (axis < 0 || axis >= rank) {
    wrong_input(op, str_cat(name, " ", axis, " is out of range for a tensor of rank ", rank));
  }
  return axis;
}

Attributes pick_attributes(const Op& op, const std::vector<std::string>& names) {
  Attributes result;
  for (const std::string& name : names) {
    if (const AttributeValue* value = op.attributes.find(name)) result.set(name, *value);
  }
  return result;
}

Shape splice_shape(const Shape& shape, std::int64_t axis, const Shape& inner) {
  Shape result(shape.begin(), shape.begin() + axis);
  result.insert(result.end(), inner.begin(), inner.end());
  result.insert(result.end(), shape.begin() + axis + 1, shape.end());
  return result;
}

Shape axis_shape(std::int64_t rank, std::int64_t axis, std::int64_t size) {
  Shape shape(static_cast<std::size_t>(rank), 1);
  shape[static_cast<std::size_t>(axis)] = size;
  return shape;
}

Shape join_shapes(Shape first, const Shape& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Tensor* zeros(OpBuilder& builder, DType dtype, const Shape& shape) {
  return builder.broadcast_to(builder.constant(0.0, dtype), shape);
}

InputSet modifies_first(const Op&) { return {0}; }
int aliases_first(const Op&, int) { return 0; }

ScalarValue number_or_input(ScalarEmitter& emitter, const Op& op, const char* name,
                            std::span<const ScalarValue> inputs, int index, double fallback,
                            LaneType lane) {
  const auto i = static_cast<std::size_t>(index);
  if (i < inputs.size() && inputs[i] != kNoValue) return emitter.convert(inputs[i], lane);
  return emitter.constant(op.attributes.number_or(name, fallback), lane);
}

}  // namespace pando
