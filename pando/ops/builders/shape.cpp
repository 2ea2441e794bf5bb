// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/shape.hpp"

#include <utility>

namespace pando::ops {

BuiltOp broadcast_to(OpBuilder& builder, Tensor* input0, const BroadcastToAttributes& attributes,
                     std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  return build_op(builder, "BroadcastTo", {input0}, std::move(given), name);
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

BuiltOp pad_into(OpBuilder& builder, Tensor* input0, const PadIntoAttributes& attributes,
                 std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "starts", attributes.starts);
  set_attribute(given, "steps", attributes.steps);
  return build_op(builder, "PadInto", {input0}, std::move(given), name);
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

}  // namespace pando::ops
