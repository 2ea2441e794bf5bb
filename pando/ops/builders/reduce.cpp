// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/reduce.hpp"

#include <utility>

namespace pando::ops {

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

}  // namespace pando::ops
