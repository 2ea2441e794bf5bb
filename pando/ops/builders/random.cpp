// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/random.hpp"

#include <utility>

namespace pando::ops {

BuiltOp dropout(OpBuilder& builder, Tensor* input0, Tensor* input1,
                const DropoutAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "p", attributes.p);
  return build_op(builder, "Dropout", {input0, input1}, std::move(given), name);
}

BuiltOp dropout_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                     const DropoutCoreAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "p", attributes.p);
  return build_op(builder, "DropoutCore", {input0, input1, input2}, std::move(given), name);
}

BuiltOp dropout_mask(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const DropoutMaskAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "ratio", attributes.ratio);
  return build_op(builder, "DropoutMask", {input0, input1}, std::move(given), name);
}

BuiltOp modify_random_seed(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           std::string_view name) {
  return build_op(builder, "ModifyRandomSeed", {input0, input1}, {}, name);
}

BuiltOp modify_random_seed_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                std::string_view name) {
  return build_op(builder, "ModifyRandomSeedCore", {input0, input1, input2}, {}, name);
}

BuiltOp random_normal(OpBuilder& builder, Tensor* input0, const RandomNormalAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  set_attribute(given, "mean", attributes.mean);
  set_attribute(given, "std", attributes.std);
  return build_op(builder, "RandomNormal", {input0}, std::move(given), name);
}

BuiltOp random_normal_core(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const RandomNormalCoreAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  set_attribute(given, "mean", attributes.mean);
  set_attribute(given, "std", attributes.std);
  return build_op(builder, "RandomNormalCore", {input0, input1}, std::move(given), name);
}

BuiltOp random_uniform(OpBuilder& builder, Tensor* input0,
                       const RandomUniformAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  set_attribute(given, "low", attributes.low);
  set_attribute(given, "high", attributes.high);
  return build_op(builder, "RandomUniform", {input0}, std::move(given), name);
}

BuiltOp random_uniform_core(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const RandomUniformCoreAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  set_attribute(given, "low", attributes.low);
  set_attribute(given, "high", attributes.high);
  return build_op(builder, "RandomUniformCore", {input0, input1}, std::move(given), name);
}

BuiltOp scale_by_scalar(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "ScaleByScalar", {input0, input1}, {}, name);
}

BuiltOp shaped_dropout(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ShapedDropoutAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "ratio", attributes.ratio);
  return build_op(builder, "ShapedDropout", {input0, input1}, std::move(given), name);
}

}  // namespace pando::ops
