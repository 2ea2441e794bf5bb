// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/batch_norm.hpp"

#include <utility>

namespace pando::ops {

BuiltOp batch_normalization(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                            Tensor* input3, Tensor* input4,
                            const BatchNormalizationAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "epsilon", attributes.epsilon);
  set_attribute(given, "momentum", attributes.momentum);
  set_attribute(given, "channel_last", attributes.channel_last);
  return build_op(builder, "BatchNormalization", {input0, input1, input2, input3, input4},
                  std::move(given), name);
}

BuiltOp batch_normalization_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                 Tensor* input3, std::string_view name) {
  return build_op(builder, "BatchNormalizationCore", {input0, input1, input2, input3}, {}, name);
}

BuiltOp batch_normalization_grad_core(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                      Tensor* input2, Tensor* input3, Tensor* input4,
                                      Tensor* input5, std::string_view name) {
  return build_op(builder, "BatchNormalizationGradCore",
                  {input0, input1, input2, input3, input4, input5}, {}, name);
}

BuiltOp batch_normalization_grad_factors(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                         Tensor* input2, Tensor* input3,
                                         const BatchNormalizationGradFactorsAttributes& attributes,
                                         Tensor* input4, Tensor* input5, std::string_view name) {
  Attributes given;
  set_attribute(given, "count", attributes.count);
  return build_op(builder, "BatchNormalizationGradFactors",
                  {input0, input1, input2, input3, input4, input5}, std::move(given), name);
}

BuiltOp batch_normalization_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                  const BatchNormalizationScaleAttributes& attributes,
                                  std::string_view name) {
  Attributes given;
  set_attribute(given, "epsilon", attributes.epsilon);
  return build_op(builder, "BatchNormalizationScale", {input0, input1}, std::move(given), name);
}

BuiltOp batch_normalization_statistics(OpBuilder& builder, Tensor* input0,
                                       const BatchNormalizationStatisticsAttributes& attributes,
                                       std::string_view name) {
  Attributes given;
  set_attribute(given, "epsilon", attributes.epsilon);
  set_attribute(given, "channel_last", attributes.channel_last);
  return build_op(builder, "BatchNormalizationStatistics", {input0}, std::move(given), name);
}

BuiltOp batch_normalization_sums(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                 Tensor* input3, const BatchNormalizationSumsAttributes& attributes,
                                 std::string_view name) {
  Attributes given;
  set_attribute(given, "channel_last", attributes.channel_last);
  return build_op(builder, "BatchNormalizationSums", {input0, input1, input2, input3},
                  std::move(given), name);
}

BuiltOp batch_normalization_training(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                     Tensor* input2,
                                     const BatchNormalizationTrainingAttributes& attributes,
                                     std::string_view name) {
  Attributes given;
  set_attribute(given, "epsilon", attributes.epsilon);
  set_attribute(given, "channel_last", attributes.channel_last);
  return build_op(builder, "BatchNormalizationTraining", {input0, input1, input2}, std::move(given),
                  name);
}

BuiltOp batch_normalization_training_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                          Tensor* input2, Tensor* input3, Tensor* input4,
                                          const BatchNormalizationTrainingGradAttributes& attributes,
                                          Tensor* input5, Tensor* input6, std::string_view name) {
  Attributes given;
  set_attribute(given, "channel_last", attributes.channel_last);
  return build_op(builder, "BatchNormalizationTrainingGrad",
                  {input0, input1, input2, input3, input4, input5, input6}, std::move(given), name);
}

}  // namespace pando::ops
