// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/cast.hpp"

#include <utility>

namespace pando::ops {

BuiltOp cast(OpBuilder& builder, Tensor* input0, const CastAttributes& attributes,
             std::string_view name) {
  Attributes given;
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "Cast", {input0}, std::move(given), name);
}

BuiltOp cast_grad(OpBuilder& builder, Tensor* input0, const CastGradAttributes& attributes,
                  std::string_view name) {
  Attributes given;
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "CastGrad", {input0}, std::move(given), name);
}

BuiltOp cast_then_pow2_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                             const CastThenPow2ScaleAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "CastThenPow2Scale", {input0, input1}, std::move(given), name);
}

BuiltOp pow2_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const Pow2ScaleAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "Pow2Scale", {input0, input1}, std::move(given), name);
}

BuiltOp pow2_scale_then_cast(OpBuilder& builder, Tensor* input0, Tensor* input1,
                             const Pow2ScaleThenCastAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "Pow2ScaleThenCast", {input0, input1}, std::move(given), name);
}

}  // namespace pando::ops
