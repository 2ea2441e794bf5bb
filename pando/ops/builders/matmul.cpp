// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/matmul.hpp"

#include <utility>

namespace pando::ops {

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

}  // namespace pando::ops
