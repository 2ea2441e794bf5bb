// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/compare.hpp"

#include <utility>

namespace pando::ops {

BuiltOp logical_and(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "And", {input0, input1}, {}, name);
}

BuiltOp equal(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Equal", {input0, input1}, {}, name);
}

BuiltOp greater(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Greater", {input0, input1}, {}, name);
}

BuiltOp logical_not(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Not", {input0}, {}, name);
}

BuiltOp logical_or(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Or", {input0, input1}, {}, name);
}

BuiltOp where(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
              std::string_view name) {
  return build_op(builder, "Where", {input0, input1, input2}, {}, name);
}

BuiltOp where_x_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const WhereXGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "WhereXGrad", {input0, input1}, std::move(given), name);
}

BuiltOp where_y_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const WhereYGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "WhereYGrad", {input0, input1}, std::move(given), name);
}

}  // namespace pando::ops
