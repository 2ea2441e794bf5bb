// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders.hpp"

#include <utility>

namespace pando::ops {

BuiltOp abs(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Abs", {input0}, {}, name);
}

BuiltOp abs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "AbsGrad", {input0, input1}, {}, name);
}

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

BuiltOp adaptive_average_pool(OpBuilder& builder, Tensor* input0,
                              const AdaptiveAveragePoolAttributes& attributes,
                              std::string_view name) {
  Attributes given;
  set_attribute(given, "output_size", attributes.output_size);
  set_attribute(given, "channel_last", attributes.channel_last);
  return build_op(builder, "AdaptiveAveragePool", {input0}, std::move(given), name);
}

BuiltOp adaptive_average_pool_grad(OpBuilder& builder, Tensor* input0,
                                   const AdaptiveAveragePoolGradAttributes& attributes,
                                   std::string_view name) {
  Attributes given;
  set_attribute(given, "output_size", attributes.output_size);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "AdaptiveAveragePoolGrad", {input0}, std::move(given), name);
}

BuiltOp adaptive_max_pool(OpBuilder& builder, Tensor* input0,
                          const AdaptiveMaxPoolAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "output_size", attributes.output_size);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "ties", attributes.ties);
  return build_op(builder, "AdaptiveMaxPool", {input0}, std::move(given), name);
}

BuiltOp adaptive_max_pool_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                               const AdaptiveMaxPoolGradAttributes& attributes,
                               std::string_view name) {
  Attributes given;
  set_attribute(given, "output_size", attributes.output_size);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "ties", attributes.ties);
  return build_op(builder, "AdaptiveMaxPoolGrad", {input0, input1, input2}, std::move(given), name);
}

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

BuiltOp all_reduce(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                   const AllReduceAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "devices", attributes.devices);
  set_attribute(given, "form", attributes.form);
  return build_op(builder, "AllReduce", inputs, std::move(given), name);
}

BuiltOp all_reduce_grad(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                        const AllReduceGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "devices", attributes.devices);
  set_attribute(given, "form", attributes.form);
  return build_op(builder, "AllReduceGrad", inputs, std::move(given), name);
}

BuiltOp logical_and(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "And", {input0, input1}, {}, name);
}

BuiltOp arg_max(OpBuilder& builder, Tensor* input0, const ArgMaxAttributes& attributes,
                std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ArgMax", {input0}, std::move(given), name);
}

BuiltOp arg_min(OpBuilder& builder, Tensor* input0, const ArgMinAttributes& attributes,
                std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ArgMin", {input0}, std::move(given), name);
}

BuiltOp atan(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Atan", {input0}, {}, name);
}

BuiltOp atan_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "AtanGrad", {input0, input1}, {}, name);
}

BuiltOp average_pool(OpBuilder& builder, Tensor* input0, const AveragePoolAttributes& attributes,
                     std::string_view name) {
  Attributes given;
  set_attribute(given, "kernel_size", attributes.kernel_size);
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "pad_type", attributes.pad_type);
  set_attribute(given, "ceil_mode", attributes.ceil_mode);
  set_attribute(given, "out_pads", attributes.out_pads);
  set_attribute(given, "in_dilations", attributes.in_dilations);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "count_include_pad", attributes.count_include_pad);
  set_attribute(given, "counted_pads", attributes.counted_pads);
  return build_op(builder, "AveragePool", {input0}, std::move(given), name);
}

BuiltOp average_pool_grad(OpBuilder& builder, Tensor* input0,
                          const AveragePoolGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "kernel_size", attributes.kernel_size);
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "counted_pads", attributes.counted_pads);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "AveragePoolGrad", {input0}, std::move(given), name);
}

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

BuiltOp broadcast_to(OpBuilder& builder, Tensor* input0, const BroadcastToAttributes& attributes,
                     std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "BroadcastTo", {input0}, std::move(given), name);
}

BuiltOp bucketize(OpBuilder& builder, Tensor* input0, Tensor* input1,
                  const BucketizeAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "right", attributes.right);
  return build_op(builder, "Bucketize", {input0, input1}, std::move(given), name);
}

BuiltOp call(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
             const CallAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "modified", attributes.modified);
  return build_op(builder, "Call", inputs, std::move(given), name, {&graph0});
}

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

BuiltOp ceil(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Ceil", {input0}, {}, name);
}

BuiltOp check_range(OpBuilder& builder, Tensor* input0, const CheckRangeAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "low", attributes.low);
  set_attribute(given, "end", attributes.end);
  set_attribute(given, "what", attributes.what);
  return build_op(builder, "CheckRange", {input0}, std::move(given), name);
}

BuiltOp cholesky(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Cholesky", {input0}, {}, name);
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

BuiltOp coalesce_rows(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const CoalesceRowsAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "size", attributes.size);
  set_attribute(given, "skip_zero_rows", attributes.skip_zero_rows);
  return build_op(builder, "CoalesceRows", {input0, input1}, std::move(given), name);
}

BuiltOp concat(OpBuilder& builder, const std::vector<Tensor*>& inputs,
               const ConcatAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "Concat", inputs, std::move(given), name);
}

BuiltOp concat_grad(OpBuilder& builder, Tensor* input0, const ConcatGradAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "start", attributes.start);
  set_attribute(given, "size", attributes.size);
  return build_op(builder, "ConcatGrad", {input0}, std::move(given), name);
}

BuiltOp concat_inplace(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                       const ConcatInplaceAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "ConcatInplace", inputs, std::move(given), name);
}

BuiltOp conv(OpBuilder& builder, Tensor* input0, Tensor* input1, const ConvAttributes& attributes,
             Tensor* input2, std::string_view name) {
  Attributes given;
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "groups", attributes.groups);
  set_attribute(given, "pad_type", attributes.pad_type);
  set_attribute(given, "channel_last", attributes.channel_last);
  return build_op(builder, "Conv", {input0, input1, input2}, std::move(given), name);
}

BuiltOp conv_data_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ConvDataGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "groups", attributes.groups);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "ConvDataGrad", {input0, input1}, std::move(given), name);
}

BuiltOp conv_transpose(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ConvTransposeAttributes& attributes, Tensor* input2,
                       std::string_view name) {
  Attributes given;
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "groups", attributes.groups);
  set_attribute(given, "pad_type", attributes.pad_type);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "output_padding", attributes.output_padding);
  set_attribute(given, "output_shape", attributes.output_shape);
  return build_op(builder, "ConvTranspose", {input0, input1, input2}, std::move(given), name);
}

BuiltOp conv_weights_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                          const ConvWeightsGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "groups", attributes.groups);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "weight_shape", attributes.weight_shape);
  return build_op(builder, "ConvWeightsGrad", {input0, input1}, std::move(given), name);
}

BuiltOp copy_var_update(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "CopyVarUpdate", {input0, input1}, {}, name);
}

BuiltOp cos(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Cos", {input0}, {}, name);
}

BuiltOp cos_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "CosGrad", {input0, input1}, {}, name);
}

BuiltOp ctc_beam_search(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        const CtcBeamSearchAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "blank", attributes.blank);
  set_attribute(given, "beam_width", attributes.beam_width);
  set_attribute(given, "top_paths", attributes.top_paths);
  return build_op(builder, "CtcBeamSearch", {input0, input1}, std::move(given), name);
}

BuiltOp ctc_loss(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2, Tensor* input3,
                 const CtcLossAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "blank", attributes.blank);
  set_attribute(given, "zero_infinity", attributes.zero_infinity);
  return build_op(builder, "CtcLoss", {input0, input1, input2, input3}, std::move(given), name);
}

BuiltOp ctc_loss_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      Tensor* input3, Tensor* input4, const CtcLossGradAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "blank", attributes.blank);
  set_attribute(given, "zero_infinity", attributes.zero_infinity);
  return build_op(builder, "CtcLossGrad", {input0, input1, input2, input3, input4},
                  std::move(given), name);
}

BuiltOp cum_prod(OpBuilder& builder, Tensor* input0, const CumProdAttributes& attributes,
                 std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "reverse", attributes.reverse);
  return build_op(builder, "CumProd", {input0}, std::move(given), name);
}

BuiltOp cum_prod_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const CumProdGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "reverse", attributes.reverse);
  return build_op(builder, "CumProdGrad", {input0, input1}, std::move(given), name);
}

BuiltOp cum_sum(OpBuilder& builder, Tensor* input0, const CumSumAttributes& attributes,
                Tensor* input1, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "reverse", attributes.reverse);
  return build_op(builder, "CumSum", {input0, input1}, std::move(given), name);
}

BuiltOp cum_sum_grad(OpBuilder& builder, Tensor* input0, const CumSumGradAttributes& attributes,
                     std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "reverse", attributes.reverse);
  return build_op(builder, "CumSumGrad", {input0}, std::move(given), name);
}

BuiltOp detach(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Detach", {input0}, {}, name);
}

BuiltOp detach_inplace(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "DetachInplace", {input0}, {}, name);
}

BuiltOp device_copy(OpBuilder& builder, Tensor* input0, const DeviceCopyAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "source", attributes.source);
  set_attribute(given, "destination", attributes.destination);
  return build_op(builder, "DeviceCopy", {input0}, std::move(given), name);
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

BuiltOp dynamic_slice(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const DynamicSliceAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "sizes", attributes.sizes);
  set_attribute(given, "no_overlap", attributes.no_overlap);
  return build_op(builder, "DynamicSlice", {input0, input1}, std::move(given), name);
}

BuiltOp dynamic_slice_pad_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const DynamicSlicePadGradAttributes& attributes,
                               std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "sizes", attributes.sizes);
  set_attribute(given, "no_overlap", attributes.no_overlap);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "DynamicSlicePadGrad", {input0, input1}, std::move(given), name);
}

BuiltOp dynamic_update(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                       const DynamicUpdateAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "sizes", attributes.sizes);
  set_attribute(given, "no_overlap", attributes.no_overlap);
  return build_op(builder, "DynamicUpdate", {input0, input1, input2}, std::move(given), name);
}

BuiltOp dynamic_update_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                               const DynamicUpdateInplaceAttributes& attributes,
                               std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "sizes", attributes.sizes);
  set_attribute(given, "no_overlap", attributes.no_overlap);
  return build_op(builder, "DynamicUpdateInplace", {input0, input1, input2}, std::move(given),
                  name);
}

BuiltOp dynamic_update_to_update_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                      const DynamicUpdateToUpdateGradAttributes& attributes,
                                      std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "sizes", attributes.sizes);
  set_attribute(given, "no_overlap", attributes.no_overlap);
  return build_op(builder, "DynamicUpdateToUpdateGrad", {input0, input1}, std::move(given), name);
}

BuiltOp dynamic_update_updater_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                    const DynamicUpdateUpdaterGradAttributes& attributes,
                                    std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "sizes", attributes.sizes);
  set_attribute(given, "no_overlap", attributes.no_overlap);
  return build_op(builder, "DynamicUpdateUpdaterGrad", {input0, input1}, std::move(given), name);
}

BuiltOp equal(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Equal", {input0, input1}, {}, name);
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

BuiltOp fill(OpBuilder& builder, const FillAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  set_attribute(given, "value", attributes.value);
  return build_op(builder, "Fill", {}, std::move(given), name);
}

BuiltOp floor(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Floor", {input0}, {}, name);
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

BuiltOp fold(OpBuilder& builder, Tensor* input0, const FoldAttributes& attributes,
             std::string_view name) {
  Attributes given;
  set_attribute(given, "kernel_size", attributes.kernel_size);
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "output_size", attributes.output_size);
  return build_op(builder, "Fold", {input0}, std::move(given), name);
}

BuiltOp gather(OpBuilder& builder, Tensor* input0, Tensor* input1,
               const GatherAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "group_size", attributes.group_size);
  set_attribute(given, "zero_oor", attributes.zero_oor);
  return build_op(builder, "Gather", {input0, input1}, std::move(given), name);
}

BuiltOp gather_elements(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        const GatherElementsAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "GatherElements", {input0, input1}, std::move(given), name);
}

BuiltOp gather_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const GatherGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "group_size", attributes.group_size);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "GatherGrad", {input0, input1}, std::move(given), name);
}

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

BuiltOp greater(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Greater", {input0, input1}, {}, name);
}

BuiltOp group_normalization(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                            const GroupNormalizationAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "num_groups", attributes.num_groups);
  set_attribute(given, "eps", attributes.eps);
  set_attribute(given, "strided_channel_grouping", attributes.strided_channel_grouping);
  return build_op(builder, "GroupNormalization", {input0, input1, input2}, std::move(given), name);
}

BuiltOp group_normalization_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                 Tensor* input3, Tensor* input4,
                                 const GroupNormalizationGradAttributes& attributes,
                                 std::string_view name) {
  Attributes given;
  set_attribute(given, "num_groups", attributes.num_groups);
  set_attribute(given, "eps", attributes.eps);
  set_attribute(given, "strided_channel_grouping", attributes.strided_channel_grouping);
  return build_op(builder, "GroupNormalizationGrad", {input0, input1, input2, input3, input4},
                  std::move(given), name);
}

BuiltOp histogram(OpBuilder& builder, Tensor* input0, const HistogramAttributes& attributes,
                  std::string_view name) {
  Attributes given;
  set_attribute(given, "levels", attributes.levels);
  set_attribute(given, "absolute_of_input", attributes.absolute_of_input);
  return build_op(builder, "Histogram", {input0}, std::move(given), name);
}

BuiltOp host_call(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                  const HostCallAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "function", attributes.function);
  set_attribute(given, "output_dtypes", attributes.output_dtypes);
  set_attribute(given, "output_ranks", attributes.output_ranks);
  set_attribute(given, "output_sizes", attributes.output_sizes);
  set_attribute(given, "gradient", attributes.gradient);
  return build_op(builder, "HostCall", inputs, std::move(given), name);
}

BuiltOp host_load(OpBuilder& builder, Tensor* input0, const HostLoadAttributes& attributes,
                  std::string_view name) {
  Attributes given;
  set_attribute(given, "stream", attributes.stream);
  return build_op(builder, "HostLoad", {input0}, std::move(given), name);
}

BuiltOp host_store(OpBuilder& builder, Tensor* input0, const HostStoreAttributes& attributes,
                   std::string_view name) {
  Attributes given;
  set_attribute(given, "stream", attributes.stream);
  return build_op(builder, "HostStore", {input0}, std::move(given), name);
}

BuiltOp identity(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Identity", {input0}, {}, name);
}

BuiltOp identity_grad(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "IdentityGrad", {input0}, {}, name);
}

BuiltOp conditional(OpBuilder& builder, Graph& graph0, Graph& graph1,
                    const std::vector<Tensor*>& inputs, const IfAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "num_then_inputs", attributes.num_then_inputs);
  return build_op(builder, "If", inputs, std::move(given), name, {&graph0, &graph1});
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

BuiltOp init(OpBuilder& builder, const InitAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  set_attribute(given, "init_type", attributes.init_type);
  set_attribute(given, "meta_shape", attributes.meta_shape);
  return build_op(builder, "Init", {}, std::move(given), name);
}

BuiltOp io_tile_copy(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "IoTileCopy", {input0}, {}, name);
}

BuiltOp is_inf(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "IsInf", {input0}, {}, name);
}

BuiltOp is_na_n(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "IsNaN", {input0}, {}, name);
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

BuiltOp loop(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
             const LoopAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "trip_count", attributes.trip_count);
  set_attribute(given, "modified", attributes.modified);
  return build_op(builder, "Loop", inputs, std::move(given), name, {&graph0});
}

BuiltOp mat_mul(OpBuilder& builder, Tensor* input0, Tensor* input1,
                const MatMulAttributes& attributes, Tensor* input2, std::string_view name) {
  Attributes given;
  set_attribute(given, "output_type", attributes.output_type);
  set_attribute(given, "partials_type", attributes.partials_type);
  set_attribute(given, "available_memory_proportion", attributes.available_memory_proportion);
  set_attribute(given, "lhs_band", attributes.lhs_band);
  set_attribute(given, "rhs_band", attributes.rhs_band);
  set_attribute(given, "out_band", attributes.out_band);
  return build_op(builder, "MatMul", {input0, input1, input2}, std::move(given), name);
}

BuiltOp mat_mul_lhs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const MatMulLhsGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "MatMulLhsGrad", {input0, input1}, std::move(given), name);
}

BuiltOp mat_mul_rhs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const MatMulRhsGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  return build_op(builder, "MatMulRhsGrad", {input0, input1}, std::move(given), name);
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

BuiltOp max_pool(OpBuilder& builder, Tensor* input0, const MaxPoolAttributes& attributes,
                 std::string_view name) {
  Attributes given;
  set_attribute(given, "kernel_size", attributes.kernel_size);
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "pad_type", attributes.pad_type);
  set_attribute(given, "ceil_mode", attributes.ceil_mode);
  set_attribute(given, "out_pads", attributes.out_pads);
  set_attribute(given, "in_dilations", attributes.in_dilations);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "storage_order", attributes.storage_order);
  set_attribute(given, "ties", attributes.ties);
  return build_op(builder, "MaxPool", {input0}, std::move(given), name);
}

BuiltOp max_pool_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      const MaxPoolGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "kernel_size", attributes.kernel_size);
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "channel_last", attributes.channel_last);
  set_attribute(given, "ties", attributes.ties);
  return build_op(builder, "MaxPoolGrad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp modify_random_seed(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           std::string_view name) {
  return build_op(builder, "ModifyRandomSeed", {input0, input1}, {}, name);
}

BuiltOp modify_random_seed_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                std::string_view name) {
  return build_op(builder, "ModifyRandomSeedCore", {input0, input1, input2}, {}, name);
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

BuiltOp neg(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Neg", {input0}, {}, name);
}

BuiltOp neg_grad(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "NegGrad", {input0}, {}, name);
}

BuiltOp nll(OpBuilder& builder, Tensor* input0, Tensor* input1, const NllAttributes& attributes,
            std::string_view name) {
  Attributes given;
  set_attribute(given, "reduction", attributes.reduction);
  set_attribute(given, "ignore_index", attributes.ignore_index);
  set_attribute(given, "log_prob", attributes.log_prob);
  return build_op(builder, "Nll", {input0, input1}, std::move(given), name);
}

BuiltOp nll_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                 const NllGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "reduction", attributes.reduction);
  set_attribute(given, "ignore_index", attributes.ignore_index);
  set_attribute(given, "log_prob", attributes.log_prob);
  return build_op(builder, "NllGrad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp nlll_with_softmax_grad_direct(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                      const NlllWithSoftmaxGradDirectAttributes& attributes,
                                      Tensor* input2, std::string_view name) {
  Attributes given;
  set_attribute(given, "reduction", attributes.reduction);
  set_attribute(given, "ignore_index", attributes.ignore_index);
  return build_op(builder, "NlllWithSoftmaxGradDirect", {input0, input1, input2}, std::move(given),
                  name);
}

BuiltOp logical_not(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Not", {input0}, {}, name);
}

BuiltOp one_hot(OpBuilder& builder, Tensor* input0, Tensor* input1,
                const OneHotAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "num_classes", attributes.num_classes);
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "OneHot", {input0, input1}, std::move(given), name);
}

BuiltOp one_hot_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const OneHotGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "num_classes", attributes.num_classes);
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "OneHotGrad", {input0, input1}, std::move(given), name);
}

BuiltOp logical_or(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Or", {input0, input1}, {}, name);
}

BuiltOp pad(OpBuilder& builder, Tensor* input0, const PadAttributes& attributes,
            std::string_view name) {
  Attributes given;
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "mode", attributes.mode);
  set_attribute(given, "value", attributes.value);
  return build_op(builder, "Pad", {input0}, std::move(given), name);
}

BuiltOp pad_grad(OpBuilder& builder, Tensor* input0, const PadGradAttributes& attributes,
                 std::string_view name) {
  Attributes given;
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "mode", attributes.mode);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "PadGrad", {input0}, std::move(given), name);
}

BuiltOp pad_into(OpBuilder& builder, Tensor* input0, const PadIntoAttributes& attributes,
                 std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "starts", attributes.starts);
  set_attribute(given, "steps", attributes.steps);
  return build_op(builder, "PadInto", {input0}, std::move(given), name);
}

BuiltOp pow(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "Pow", {input0, input1}, {}, name);
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

BuiltOp print_tensor(OpBuilder& builder, Tensor* input0, const PrintTensorAttributes& attributes,
                     std::string_view name) {
  Attributes given;
  set_attribute(given, "title", attributes.title);
  set_attribute(given, "print_self", attributes.print_self);
  set_attribute(given, "print_gradient", attributes.print_gradient);
  set_attribute(given, "summarise_threshold", attributes.summarise_threshold);
  set_attribute(given, "edge_items", attributes.edge_items);
  set_attribute(given, "max_line_width", attributes.max_line_width);
  set_attribute(given, "digits", attributes.digits);
  set_attribute(given, "float_format", attributes.float_format);
  set_attribute(given, "separator", attributes.separator);
  set_attribute(given, "open_bracket", attributes.open_bracket);
  set_attribute(given, "close_bracket", attributes.close_bracket);
  return build_op(builder, "PrintTensor", {input0}, std::move(given), name);
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

BuiltOp recurrent_sequence(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const RecurrentSequenceAttributes& attributes, Tensor* input2,
                           Tensor* input3, Tensor* input4, std::string_view name) {
  Attributes given;
  set_attribute(given, "cell", attributes.cell);
  set_attribute(given, "reverse", attributes.reverse);
  return build_op(builder, "RecurrentSequence", {input0, input1, input2, input3, input4},
                  std::move(given), name);
}

BuiltOp recurrent_sequence_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                Tensor* input3, Tensor* input4, Tensor* input5, Tensor* input6,
                                Tensor* input7, const RecurrentSequenceGradAttributes& attributes,
                                std::string_view name) {
  Attributes given;
  set_attribute(given, "cell", attributes.cell);
  set_attribute(given, "reverse", attributes.reverse);
  return build_op(builder, "RecurrentSequenceGrad",
                  {input0, input1, input2, input3, input4, input5, input6, input7},
                  std::move(given), name);
}

BuiltOp reduce_l1(OpBuilder& builder, Tensor* input0, const ReduceL1Attributes& attributes,
                  std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceL1", {input0}, std::move(given), name);
}

BuiltOp reduce_l1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ReduceL1GradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceL1Grad", {input0, input1}, std::move(given), name);
}

BuiltOp reduce_l2(OpBuilder& builder, Tensor* input0, const ReduceL2Attributes& attributes,
                  std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceL2", {input0}, std::move(given), name);
}

BuiltOp reduce_l2_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                       const ReduceL2GradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceL2Grad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp reduce_log_sum(OpBuilder& builder, Tensor* input0, const ReduceLogSumAttributes& attributes,
                       std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceLogSum", {input0}, std::move(given), name);
}

BuiltOp reduce_log_sum_exp(OpBuilder& builder, Tensor* input0,
                           const ReduceLogSumExpAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceLogSumExp", {input0}, std::move(given), name);
}

BuiltOp reduce_log_sum_exp_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                const ReduceLogSumExpGradAttributes& attributes,
                                std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceLogSumExpGrad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp reduce_log_sum_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const ReduceLogSumGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceLogSumGrad", {input0, input1}, std::move(given), name);
}

BuiltOp reduce_max(OpBuilder& builder, Tensor* input0, const ReduceMaxAttributes& attributes,
                   std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceMax", {input0}, std::move(given), name);
}

BuiltOp reduce_max_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        const ReduceMaxGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceMaxGrad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp reduce_mean(OpBuilder& builder, Tensor* input0, const ReduceMeanAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceMean", {input0}, std::move(given), name);
}

BuiltOp reduce_mean_grad(OpBuilder& builder, Tensor* input0,
                         const ReduceMeanGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceMeanGrad", {input0}, std::move(given), name);
}

BuiltOp reduce_median(OpBuilder& builder, Tensor* input0, const ReduceMedianAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceMedian", {input0}, std::move(given), name);
}

BuiltOp reduce_median_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const ReduceMedianGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceMedianGrad", {input0, input1}, std::move(given), name);
}

BuiltOp reduce_min(OpBuilder& builder, Tensor* input0, const ReduceMinAttributes& attributes,
                   std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceMin", {input0}, std::move(given), name);
}

BuiltOp reduce_min_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        const ReduceMinGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceMinGrad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp reduce_prod(OpBuilder& builder, Tensor* input0, const ReduceProdAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceProd", {input0}, std::move(given), name);
}

BuiltOp reduce_prod_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const ReduceProdGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceProdGrad", {input0, input1}, std::move(given), name);
}

BuiltOp reduce_sum(OpBuilder& builder, Tensor* input0, const ReduceSumAttributes& attributes,
                   std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceSum", {input0}, std::move(given), name);
}

BuiltOp reduce_sum_grad(OpBuilder& builder, Tensor* input0,
                        const ReduceSumGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceSumGrad", {input0}, std::move(given), name);
}

BuiltOp reduce_sum_square(OpBuilder& builder, Tensor* input0,
                          const ReduceSumSquareAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "keepdims", attributes.keepdims);
  return build_op(builder, "ReduceSumSquare", {input0}, std::move(given), name);
}

BuiltOp reduce_sum_square_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const ReduceSumSquareGradAttributes& attributes,
                               std::string_view name) {
  Attributes given;
  set_attribute(given, "axes", attributes.axes);
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReduceSumSquareGrad", {input0, input1}, std::move(given), name);
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

BuiltOp remote_code_load(OpBuilder& builder, const RemoteCodeLoadAttributes& attributes,
                         std::string_view name) {
  Attributes given;
  set_attribute(given, "graph", attributes.graph);
  set_attribute(given, "destination", attributes.destination);
  return build_op(builder, "RemoteCodeLoad", {}, std::move(given), name);
}

BuiltOp remote_load(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const RemoteLoadAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "buffer", attributes.buffer);
  return build_op(builder, "RemoteLoad", {input0, input1}, std::move(given), name);
}

BuiltOp remote_load_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const RemoteLoadInplaceAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "buffer", attributes.buffer);
  return build_op(builder, "RemoteLoadInplace", {input0, input1}, std::move(given), name);
}

BuiltOp remote_store(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const RemoteStoreAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "buffer", attributes.buffer);
  return build_op(builder, "RemoteStore", {input0, input1}, std::move(given), name);
}

BuiltOp replicated_all_gather(OpBuilder& builder, Tensor* input0,
                              const ReplicatedAllGatherAttributes& attributes,
                              std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "ReplicatedAllGather", {input0}, std::move(given), name);
}

BuiltOp replicated_all_reduce(OpBuilder& builder, Tensor* input0,
                              const ReplicatedAllReduceAttributes& attributes,
                              std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "ReplicatedAllReduce", {input0}, std::move(given), name);
}

BuiltOp replicated_all_reduce_inplace(OpBuilder& builder, Tensor* input0,
                                      const ReplicatedAllReduceInplaceAttributes& attributes,
                                      std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "ReplicatedAllReduceInplace", {input0}, std::move(given), name);
}

BuiltOp replicated_reduce_scatter(OpBuilder& builder, Tensor* input0,
                                  const ReplicatedReduceScatterAttributes& attributes,
                                  std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "sharded", attributes.sharded);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "ReplicatedReduceScatter", {input0}, std::move(given), name);
}

BuiltOp reshape(OpBuilder& builder, Tensor* input0, const ReshapeAttributes& attributes,
                std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "Reshape", {input0}, std::move(given), name);
}

BuiltOp reshape_grad(OpBuilder& builder, Tensor* input0, const ReshapeGradAttributes& attributes,
                     std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReshapeGrad", {input0}, std::move(given), name);
}

BuiltOp reshape_inplace(OpBuilder& builder, Tensor* input0,
                        const ReshapeInplaceAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "ReshapeInplace", {input0}, std::move(given), name);
}

BuiltOp resize(OpBuilder& builder, Tensor* input0, const ResizeAttributes& attributes,
               std::string_view name) {
  Attributes given;
  set_attribute(given, "scales", attributes.scales);
  set_attribute(given, "mode", attributes.mode);
  set_attribute(given, "nearest_mode", attributes.nearest_mode);
  set_attribute(given, "coordinate_transformation_mode", attributes.coordinate_transformation_mode);
  return build_op(builder, "Resize", {input0}, std::move(given), name);
}

BuiltOp resize_grad(OpBuilder& builder, Tensor* input0, const ResizeGradAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "scales", attributes.scales);
  set_attribute(given, "mode", attributes.mode);
  set_attribute(given, "nearest_mode", attributes.nearest_mode);
  set_attribute(given, "coordinate_transformation_mode", attributes.coordinate_transformation_mode);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "ResizeGrad", {input0}, std::move(given), name);
}

BuiltOp roi_align(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                  const RoiAlignAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "output_size", attributes.output_size);
  set_attribute(given, "spatial_scale", attributes.spatial_scale);
  set_attribute(given, "sampling_ratio", attributes.sampling_ratio);
  return build_op(builder, "RoiAlign", {input0, input1, input2}, std::move(given), name);
}

BuiltOp roi_align_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                       const RoiAlignGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "output_size", attributes.output_size);
  set_attribute(given, "spatial_scale", attributes.spatial_scale);
  set_attribute(given, "sampling_ratio", attributes.sampling_ratio);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "RoiAlignGrad", {input0, input1, input2}, std::move(given), name);
}

BuiltOp scale_by_scalar(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "ScaleByScalar", {input0, input1}, {}, name);
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

BuiltOp scaled_dot_product_attention(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                     Tensor* input2,
                                     const ScaledDotProductAttentionAttributes& attributes,
                                     Tensor* input3, Tensor* input4, Tensor* input5,
                                     std::string_view name) {
  Attributes given;
  set_attribute(given, "scale", attributes.scale);
  set_attribute(given, "window", attributes.window);
  set_attribute(given, "alignment", attributes.alignment);
  set_attribute(given, "p", attributes.p);
  return build_op(builder, "ScaledDotProductAttention",
                  {input0, input1, input2, input3, input4, input5}, std::move(given), name);
}

BuiltOp scaled_dot_product_attention_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                          Tensor* input2, Tensor* input3, Tensor* input4,
                                          Tensor* input5,
                                          const ScaledDotProductAttentionGradAttributes& attributes,
                                          Tensor* input6, Tensor* input7, Tensor* input8,
                                          std::string_view name) {
  Attributes given;
  set_attribute(given, "scale", attributes.scale);
  set_attribute(given, "window", attributes.window);
  set_attribute(given, "alignment", attributes.alignment);
  set_attribute(given, "p", attributes.p);
  set_attribute(given, "mask_gradient", attributes.mask_gradient);
  return build_op(builder, "ScaledDotProductAttentionGrad",
                  {input0, input1, input2, input3, input4, input5, input6, input7, input8},
                  std::move(given), name);
}

BuiltOp scatter(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                const ScatterAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "Scatter", {input0, input1, input2}, std::move(given), name);
}

BuiltOp scatter_arg_reduce(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const ScatterArgReduceAttributes& attributes, Tensor* input2,
                           std::string_view name) {
  Attributes given;
  set_attribute(given, "reduction", attributes.reduction);
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "axis_size", attributes.axis_size);
  set_attribute(given, "index_broadcast", attributes.index_broadcast);
  return build_op(builder, "ScatterArgReduce", {input0, input1, input2}, std::move(given), name);
}

BuiltOp scatter_arg_reduce_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                const ScatterArgReduceGradAttributes& attributes,
                                std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "index_broadcast", attributes.index_broadcast);
  set_attribute(given, "input_shape", attributes.input_shape);
  set_attribute(given, "has_initial_values", attributes.has_initial_values);
  return build_op(builder, "ScatterArgReduceGrad", {input0, input1, input2}, std::move(given),
                  name);
}

BuiltOp scatter_data_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                          const ScatterDataGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "ScatterDataGrad", {input0, input1}, std::move(given), name);
}

BuiltOp scatter_reduce(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ScatterReduceAttributes& attributes, Tensor* input2,
                       std::string_view name) {
  Attributes given;
  set_attribute(given, "reduction", attributes.reduction);
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "axis_size", attributes.axis_size);
  set_attribute(given, "group_size", attributes.group_size);
  set_attribute(given, "index_broadcast", attributes.index_broadcast);
  return build_op(builder, "ScatterReduce", {input0, input1, input2}, std::move(given), name);
}

BuiltOp scatter_reduce_grad_op(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const ScatterReduceGradOpAttributes& attributes, Tensor* input2,
                               Tensor* input3, Tensor* input4, std::string_view name) {
  Attributes given;
  set_attribute(given, "reduction", attributes.reduction);
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "group_size", attributes.group_size);
  set_attribute(given, "index_broadcast", attributes.index_broadcast);
  set_attribute(given, "input_shape", attributes.input_shape);
  set_attribute(given, "has_initial_values", attributes.has_initial_values);
  return build_op(builder, "ScatterReduceGradOp", {input0, input1, input2, input3, input4},
                  std::move(given), name);
}

BuiltOp scatter_update_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const ScatterUpdateGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "ScatterUpdateGrad", {input0, input1}, std::move(given), name);
}

BuiltOp shaped_dropout(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ShapedDropoutAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "ratio", attributes.ratio);
  return build_op(builder, "ShapedDropout", {input0, input1}, std::move(given), name);
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

BuiltOp sign(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Sign", {input0}, {}, name);
}

BuiltOp sin(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Sin", {input0}, {}, name);
}

BuiltOp sin_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "SinGrad", {input0, input1}, {}, name);
}

BuiltOp slice(OpBuilder& builder, Tensor* input0, const SliceAttributes& attributes,
              std::string_view name) {
  Attributes given;
  set_attribute(given, "starts", attributes.starts);
  set_attribute(given, "steps", attributes.steps);
  set_attribute(given, "counts", attributes.counts);
  return build_op(builder, "Slice", {input0}, std::move(given), name);
}

BuiltOp slice_grad(OpBuilder& builder, Tensor* input0, const SliceGradAttributes& attributes,
                   std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "starts", attributes.starts);
  set_attribute(given, "steps", attributes.steps);
  return build_op(builder, "SliceGrad", {input0}, std::move(given), name);
}

BuiltOp slice_inplace(OpBuilder& builder, Tensor* input0, const SliceInplaceAttributes& attributes,
                      std::string_view name) {
  Attributes given;
  set_attribute(given, "starts", attributes.starts);
  set_attribute(given, "steps", attributes.steps);
  set_attribute(given, "counts", attributes.counts);
  return build_op(builder, "SliceInplace", {input0}, std::move(given), name);
}

BuiltOp softmax(OpBuilder& builder, Tensor* input0, const SoftmaxAttributes& attributes,
                std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "scale", attributes.scale);
  set_attribute(given, "band", attributes.band);
  return build_op(builder, "Softmax", {input0}, std::move(given), name);
}

BuiltOp softmax_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const SoftmaxGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "scale", attributes.scale);
  set_attribute(given, "band", attributes.band);
  return build_op(builder, "SoftmaxGrad", {input0, input1}, std::move(given), name);
}

BuiltOp sort(OpBuilder& builder, Tensor* input0, const SortAttributes& attributes,
             std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "descending", attributes.descending);
  return build_op(builder, "Sort", {input0}, std::move(given), name);
}

BuiltOp sparse_accumulate(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                          Tensor* input3, const SparseAccumulateAttributes& attributes,
                          Tensor* input4, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "factor", attributes.factor);
  return build_op(builder, "SparseAccumulate", {input0, input1, input2, input3, input4},
                  std::move(given), name);
}

BuiltOp sparse_adam(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                    Tensor* input3, const SparseAdamAttributes& attributes, Tensor* input4,
                    Tensor* input5, Tensor* input6, Tensor* input7, Tensor* input8, Tensor* input9,
                    Tensor* input10, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "learning_rate", attributes.learning_rate);
  set_attribute(given, "weight_decay", attributes.weight_decay);
  set_attribute(given, "beta1", attributes.beta1);
  set_attribute(given, "beta2", attributes.beta2);
  set_attribute(given, "epsilon", attributes.epsilon);
  set_attribute(given, "skip_zero_rows", attributes.skip_zero_rows);
  set_attribute(given, "coalesced", attributes.coalesced);
  return build_op(builder, "SparseAdam",
                  {input0, input1, input2, input3, input4, input5, input6, input7, input8, input9, input10},
                  std::move(given), name);
}

BuiltOp split(OpBuilder& builder, Tensor* input0, const SplitAttributes& attributes,
              std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "sizes", attributes.sizes);
  return build_op(builder, "Split", {input0}, std::move(given), name);
}

BuiltOp split_grad(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                   const SplitGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "SplitGrad", inputs, std::move(given), name);
}

BuiltOp sqrt(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Sqrt", {input0}, {}, name);
}

BuiltOp sqrt_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name) {
  return build_op(builder, "SqrtGrad", {input0, input1}, {}, name);
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

BuiltOp subsample(OpBuilder& builder, Tensor* input0, const SubsampleAttributes& attributes,
                  std::string_view name) {
  Attributes given;
  set_attribute(given, "strides", attributes.strides);
  return build_op(builder, "Subsample", {input0}, std::move(given), name);
}

BuiltOp subsample_grad(OpBuilder& builder, Tensor* input0,
                       const SubsampleGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "strides", attributes.strides);
  return build_op(builder, "SubsampleGrad", {input0}, std::move(given), name);
}

BuiltOp sum(OpBuilder& builder, const std::vector<Tensor*>& inputs, std::string_view name) {
  return build_op(builder, "Sum", inputs, {}, name);
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

BuiltOp tensor_parallel_all_reduce(OpBuilder& builder, Tensor* input0,
                                   const TensorParallelAllReduceAttributes& attributes,
                                   std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "reduce", attributes.reduce);
  set_attribute(given, "reduce_gradient", attributes.reduce_gradient);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "TensorParallelAllReduce", {input0}, std::move(given), name);
}

BuiltOp tied_gather(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const TiedGatherAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "group_size", attributes.group_size);
  set_attribute(given, "zero_oor", attributes.zero_oor);
  return build_op(builder, "TiedGather", {input0, input1}, std::move(given), name);
}

BuiltOp top_k(OpBuilder& builder, Tensor* input0, const TopKAttributes& attributes,
              std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "k", attributes.k);
  set_attribute(given, "largest", attributes.largest);
  set_attribute(given, "sorted", attributes.sorted);
  return build_op(builder, "TopK", {input0}, std::move(given), name);
}

BuiltOp top_k_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const TopKGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "TopKGrad", {input0, input1}, std::move(given), name);
}

BuiltOp transpose(OpBuilder& builder, Tensor* input0, const TransposeAttributes& attributes,
                  std::string_view name) {
  Attributes given;
  set_attribute(given, "permutation", attributes.permutation);
  return build_op(builder, "Transpose", {input0}, std::move(given), name);
}

BuiltOp transpose_grad(OpBuilder& builder, Tensor* input0,
                       const TransposeGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "permutation", attributes.permutation);
  return build_op(builder, "TransposeGrad", {input0}, std::move(given), name);
}

BuiltOp transpose_inplace(OpBuilder& builder, Tensor* input0,
                          const TransposeInplaceAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "permutation", attributes.permutation);
  return build_op(builder, "TransposeInplace", {input0}, std::move(given), name);
}

BuiltOp triangular_solve(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const TriangularSolveAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "upper", attributes.upper);
  set_attribute(given, "transpose", attributes.transpose);
  set_attribute(given, "unit_diagonal", attributes.unit_diagonal);
  return build_op(builder, "TriangularSolve", {input0, input1}, std::move(given), name);
}

BuiltOp unary_zero_grad(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "UnaryZeroGrad", {input0}, {}, name);
}

BuiltOp unfold(OpBuilder& builder, Tensor* input0, const UnfoldAttributes& attributes,
               std::string_view name) {
  Attributes given;
  set_attribute(given, "kernel_size", attributes.kernel_size);
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  return build_op(builder, "Unfold", {input0}, std::move(given), name);
}

BuiltOp update_rows(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                    const UpdateRowsAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "UpdateRows", {input0, input1, input2}, std::move(given), name);
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

BuiltOp while_loop(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
                   const WhileAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "max_iterations", attributes.max_iterations);
  set_attribute(given, "history", attributes.history);
  set_attribute(given, "modified", attributes.modified);
  return build_op(builder, "While", inputs, std::move(given), name, {&graph0});
}

}  // namespace pando::ops
