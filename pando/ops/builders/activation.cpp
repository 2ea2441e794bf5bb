// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/activation.hpp"

#include <utility>

namespace pando::ops {

BuiltOp gelu(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Gelu", {input0}, {}, name);
}

BuiltOp gelu_erf(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "GeluErf", {input0}, {}, name);
}

BuiltOp gelu_erf_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "GeluErfGrad", {input0, input1}, {}, name);
}

BuiltOp gelu_erf_inplace(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "GeluErfInplace", {input0}, {}, name);
}

BuiltOp gelu_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "GeluGrad", {input0, input1}, {}, name);
}

BuiltOp gelu_inplace(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "GeluInplace", {input0}, {}, name);
}

BuiltOp relu(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Relu", {input0}, {}, name);
}

BuiltOp relu_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "ReluGrad", {input0, input1}, {}, name);
}

BuiltOp relu_inplace(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "ReluInplace", {input0}, {}, name);
}

BuiltOp sigmoid(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Sigmoid", {input0}, {}, name);
}

BuiltOp sigmoid_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "SigmoidGrad", {input0, input1}, {}, name);
}

BuiltOp sigmoid_inplace(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "SigmoidInplace", {input0}, {}, name);
}

BuiltOp swish(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Swish", {input0}, {}, name);
}

BuiltOp swish_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "SwishGrad", {input0, input1}, {}, name);
}

BuiltOp swish_inplace(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "SwishInplace", {input0}, {}, name);
}

BuiltOp tanh(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Tanh", {input0}, {}, name);
}

BuiltOp tanh_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "TanhGrad", {input0, input1}, {}, name);
}

}  // namespace pando::ops
