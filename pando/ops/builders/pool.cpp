// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/pool.hpp"

#include <utility>

namespace pando::ops {

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

}  // namespace pando::ops
