// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/unary.hpp"

#include <utility>

namespace pando::ops {

BuiltOp abs(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Abs", {input0}, {}, name);
}

BuiltOp abs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "AbsGrad", {input0, input1}, {}, name);
}

BuiltOp atan(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Atan", {input0}, {}, name);
}

BuiltOp atan_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "AtanGrad", {input0, input1}, {}, name);
}

BuiltOp ceil(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Ceil", {input0}, {}, name);
}

BuiltOp clip(OpBuilder& builder, Tensor* input0, const ClipAttributes& attributes,
             std::string_view name) {
  Attributes given;
  set_attribute(given, "min", attributes.min);
  set_attribute(given, "max", attributes.max);
  return build_op(builder, "Clip", {input0}, std::move(given), name);
}

BuiltOp clip_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                  const ClipGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "min", attributes.min);
  set_attribute(given, "max", attributes.max);
  return build_op(builder, "ClipGrad", {input0, input1}, std::move(given), name);
}

BuiltOp cos(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Cos", {input0}, {}, name);
}

BuiltOp cos_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "CosGrad", {input0, input1}, {}, name);
}

BuiltOp detach(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Detach", {input0}, {}, name);
}

BuiltOp detach_inplace(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "DetachInplace", {input0}, {}, name);
}

BuiltOp erf(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Erf", {input0}, {}, name);
}

BuiltOp erf_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "ErfGrad", {input0, input1}, {}, name);
}

BuiltOp erfc(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Erfc", {input0}, {}, name);
}

BuiltOp erfc_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "ErfcGrad", {input0, input1}, {}, name);
}

BuiltOp exp(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Exp", {input0}, {}, name);
}

BuiltOp exp_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "ExpGrad", {input0, input1}, {}, name);
}

BuiltOp exp_inplace(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "ExpInplace", {input0}, {}, name);
}

BuiltOp expm1(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Expm1", {input0}, {}, name);
}

BuiltOp expm1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Expm1Grad", {input0, input1}, {}, name);
}

BuiltOp floor(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Floor", {input0}, {}, name);
}

BuiltOp identity(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Identity", {input0}, {}, name);
}

BuiltOp identity_grad(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "IdentityGrad", {input0}, {}, name);
}

BuiltOp increment_mod(OpBuilder& builder, Tensor* input0, const IncrementModAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "increment", attributes.increment);
  set_attribute(given, "modulus", attributes.modulus);
  return build_op(builder, "IncrementMod", {input0}, std::move(given), name);
}

BuiltOp increment_mod_inplace(OpBuilder& builder, Tensor* input0,
                              const IncrementModInplaceAttributes& attributes,
                              std::string_view name) {
  Attributes given;
  set_attribute(given, "increment", attributes.increment);
  set_attribute(given, "modulus", attributes.modulus);
  return build_op(builder, "IncrementModInplace", {input0}, std::move(given), name);
}

BuiltOp is_inf(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "IsInf", {input0}, {}, name);
}

BuiltOp is_na_n(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "IsNaN", {input0}, {}, name);
}

BuiltOp log(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Log", {input0}, {}, name);
}

BuiltOp log1p(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Log1p", {input0}, {}, name);
}

BuiltOp log1p_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Log1pGrad", {input0, input1}, {}, name);
}

BuiltOp log_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "LogGrad", {input0, input1}, {}, name);
}

BuiltOp neg(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Neg", {input0}, {}, name);
}

BuiltOp neg_grad(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "NegGrad", {input0}, {}, name);
}

BuiltOp sign(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Sign", {input0}, {}, name);
}

BuiltOp sin(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Sin", {input0}, {}, name);
}

BuiltOp sin_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "SinGrad", {input0, input1}, {}, name);
}

BuiltOp sqrt(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Sqrt", {input0}, {}, name);
}

BuiltOp sqrt_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "SqrtGrad", {input0, input1}, {}, name);
}

BuiltOp unary_zero_grad(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "UnaryZeroGrad", {input0}, {}, name);
}

}  // namespace pando::ops
