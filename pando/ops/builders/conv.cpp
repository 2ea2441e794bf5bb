// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/conv.hpp"

#include <utility>

namespace pando::ops {

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

}  // namespace pando::ops
