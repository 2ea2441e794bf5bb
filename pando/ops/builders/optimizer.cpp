// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/optimizer.hpp"

#include <utility>

namespace pando::ops {

BuiltOp accumulate(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const AccumulateAttributes& attributes, Tensor* input2, std::string_view name) {
  Attributes given;
  set_attribute(given, "type", attributes.type);
  set_attribute(given, "factor", attributes.factor);
  return build_op(builder, "Accumulate", {input0, input1, input2}, std::move(given), name);
}

BuiltOp accumulator_scale(OpBuilder& builder, Tensor* input0,
                          const AccumulatorScaleAttributes& attributes, Tensor* input1,
                          std::string_view name) {
  Attributes given;
  set_attribute(given, "factor", attributes.factor);
  return build_op(builder, "AccumulatorScale", {input0, input1}, std::move(given), name);
}

BuiltOp adam_bias_correction(OpBuilder& builder, Tensor* input0,
                             const AdamBiasCorrectionAttributes& attributes, Tensor* input1,
                             std::string_view name) {
  Attributes given;
  set_attribute(given, "beta", attributes.beta);
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "AdamBiasCorrection", {input0, input1}, std::move(given), name);
}

BuiltOp adam_updater(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                     const AdamUpdaterAttributes& attributes, Tensor* input3, Tensor* input4,
                     Tensor* input5, Tensor* input6, Tensor* input7, std::string_view name) {
  Attributes given;
  set_attribute(given, "mode", attributes.mode);
  set_attribute(given, "weight_decay", attributes.weight_decay);
  set_attribute(given, "beta1", attributes.beta1);
  set_attribute(given, "beta2", attributes.beta2);
  set_attribute(given, "epsilon", attributes.epsilon);
  return build_op(builder, "AdamUpdater",
                  {input0, input1, input2, input3, input4, input5, input6, input7},
                  std::move(given), name);
}

BuiltOp adam_updater_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                          const AdamUpdaterCoreAttributes& attributes, Tensor* input3,
                          Tensor* input4, Tensor* input5, Tensor* input6, std::string_view name) {
  Attributes given;
  set_attribute(given, "mode", attributes.mode);
  set_attribute(given, "weight_decay", attributes.weight_decay);
  set_attribute(given, "epsilon", attributes.epsilon);
  return build_op(builder, "AdamUpdaterCore",
                  {input0, input1, input2, input3, input4, input5, input6}, std::move(given), name);
}

BuiltOp adam_var_update(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        Tensor* input3, const AdamVarUpdateAttributes& attributes, Tensor* input4,
                        Tensor* input5, std::string_view name) {
  Attributes given;
  set_attribute(given, "learning_rate", attributes.learning_rate);
  set_attribute(given, "max_weight_norm", attributes.max_weight_norm);
  return build_op(builder, "AdamVarUpdate", {input0, input1, input2, input3, input4, input5},
                  std::move(given), name);
}

BuiltOp copy_var_update(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "CopyVarUpdate", {input0, input1}, {}, name);
}

BuiltOp lamb_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const LambScaleAttributes& attributes, Tensor* input2, Tensor* input3,
                   std::string_view name) {
  Attributes given;
  set_attribute(given, "learning_rate", attributes.learning_rate);
  set_attribute(given, "max_weight_norm", attributes.max_weight_norm);
  return build_op(builder, "LambScale", {input0, input1, input2, input3}, std::move(given), name);
}

BuiltOp lamb_square(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "LambSquare", {input0}, {}, name);
}

BuiltOp scaled_add(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const ScaledAddAttributes& attributes, Tensor* input2, Tensor* input3,
                   std::string_view name) {
  Attributes given;
  set_attribute(given, "a", attributes.a);
  set_attribute(given, "b", attributes.b);
  return build_op(builder, "ScaledAdd", {input0, input1, input2, input3}, std::move(given), name);
}

BuiltOp scaled_add_lhs_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const ScaledAddLhsInplaceAttributes& attributes, Tensor* input2,
                               Tensor* input3, std::string_view name) {
  Attributes given;
  set_attribute(given, "a", attributes.a);
  set_attribute(given, "b", attributes.b);
  return build_op(builder, "ScaledAddLhsInplace", {input0, input1, input2, input3},
                  std::move(given), name);
}

}  // namespace pando::ops
