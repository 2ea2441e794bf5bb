// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/sort.hpp"

#include <utility>

namespace pando::ops {

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

BuiltOp bucketize(OpBuilder& builder, Tensor* input0, Tensor* input1,
                  const BucketizeAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "right", attributes.right);
  return build_op(builder, "Bucketize", {input0, input1}, std::move(given), name);
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

BuiltOp histogram(OpBuilder& builder, Tensor* input0, const HistogramAttributes& attributes,
                  std::string_view name) {
  Attributes given;
  set_attribute(given, "levels", attributes.levels);
  set_attribute(given, "absolute_of_input", attributes.absolute_of_input);
  return build_op(builder, "Histogram", {input0}, std::move(given), name);
}

BuiltOp sort(OpBuilder& builder, Tensor* input0, const SortAttributes& attributes,
             std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "descending", attributes.descending);
  return build_op(builder, "Sort", {input0}, std::move(given), name);
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

}  // namespace pando::ops
