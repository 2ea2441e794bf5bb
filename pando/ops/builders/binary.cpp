// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/binary.hpp"

#include <utility>

namespace pando::ops {

BuiltOp add(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Add", {input0, input1}, {}, name);
}

BuiltOp add_arg0_grad(OpBuilder& builder, Tensor* input0, const AddArg0GradAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "AddArg0Grad", {input0}, std::move(given), name);
}

BuiltOp add_arg1_grad(OpBuilder& builder, Tensor* input0, const AddArg1GradAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "AddArg1Grad", {input0}, std::move(given), name);
}

BuiltOp add_lhs_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "AddLhsInplace", {input0, input1}, {}, name);
}

BuiltOp div(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Div", {input0, input1}, {}, name);
}

BuiltOp div_arg0_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const DivArg0GradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "DivArg0Grad", {input0, input1}, std::move(given), name);
}

BuiltOp div_arg1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      const DivArg1GradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "DivArg1Grad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp fmod(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Fmod", {input0, input1}, {}, name);
}

BuiltOp fmod_arg0_grad(OpBuilder& builder, Tensor* input0, const FmodArg0GradAttributes& attributes,
                       std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "FmodArg0Grad", {input0}, std::move(given), name);
}

BuiltOp max(OpBuilder& builder, const std::vector<Tensor*>& inputs, std::string_view name) {
  return build_op(builder, "Max", inputs, {}, name);
}

BuiltOp max_arg_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                     const MaxArgGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "MaxArgGrad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp mul(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Mul", {input0, input1}, {}, name);
}

BuiltOp mul_arg0_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const MulArg0GradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "MulArg0Grad", {input0, input1}, std::move(given), name);
}

BuiltOp mul_arg1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const MulArg1GradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "MulArg1Grad", {input0, input1}, std::move(given), name);
}

BuiltOp pow(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Pow", {input0, input1}, {}, name);
}

BuiltOp pow_arg0_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      const PowArg0GradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "PowArg0Grad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp pow_arg1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      Tensor* input3, const PowArg1GradAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "PowArg1Grad", {input0, input1, input2, input3}, std::move(given), name);
}

BuiltOp sub(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Sub", {input0, input1}, {}, name);
}

BuiltOp sub_arg0_grad(OpBuilder& builder, Tensor* input0, const SubArg0GradAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "SubArg0Grad", {input0}, std::move(given), name);
}

BuiltOp sub_arg1_grad(OpBuilder& builder, Tensor* input0, const SubArg1GradAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "SubArg1Grad", {input0}, std::move(given), name);
}

BuiltOp sum(OpBuilder& builder, const std::vector<Tensor*>& inputs, std::string_view name) {
  return build_op(builder, "Sum", inputs, {}, name);
}

}  // namespace pando::ops
