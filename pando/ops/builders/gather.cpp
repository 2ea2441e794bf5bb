// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/gather.hpp"

#include <utility>

namespace pando::ops {

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

BuiltOp tied_gather(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const TiedGatherAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "group_size", attributes.group_size);
  set_attribute(given, "zero_oor", attributes.zero_oor);
  return build_op(builder, "TiedGather", {input0, input1}, std::move(given), name);
}

}  // namespace pando::ops
