// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/norm.hpp"

#include <utility>

namespace pando::ops {

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

}  // namespace pando::ops
