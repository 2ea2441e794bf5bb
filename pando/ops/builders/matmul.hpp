// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/ops/built_op.hpp"

namespace pando::ops {

struct MatMulAttributes {
  std::optional<DType> output_type = std::nullopt;
  std::optional<DType> partials_type = std::nullopt;
  std::optional<double> available_memory_proportion = std::nullopt;
  std::optional<Ints> lhs_band = std::nullopt;
  std::optional<Ints> rhs_band = std::nullopt;
  std::optional<Ints> out_band = std::nullopt;
};
/// NumPy matmul of inputs 0 and 1. Attribute output_type: dtype of the result (default: of input
/// 0). Operands and result of several dtypes: multiplied in float32 (float64 where one is that),
/// rounded once. With float8 operands input 2 is a scalar int32 log2 scale and the result
/// float16(product * 2^scale). partials_type and available_memory_proportion are kept for readers;
/// sums are float32 (float64 for float64). A kernel for matrices with equal batch dimensions. What
/// the pass bands knows of those: lhs_band and rhs_band [lower, upper]: elements (i, j) without
/// -lower <= j - i <= upper are 0; out_band: nobody reads those, and what they become is not
/// specified.
BuiltOp mat_mul(OpBuilder& builder, Tensor* input0, Tensor* input1,
                const MatMulAttributes& attributes = {}, Tensor* input2 = nullptr,
                std::string_view name = {});

struct MatMulLhsGradAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
};
/// g rhs^T for inputs g, rhs, summed to attribute shape, in attribute dtype.
BuiltOp mat_mul_lhs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const MatMulLhsGradAttributes& attributes, std::string_view name = {});

struct MatMulRhsGradAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
};
/// lhs^T g for inputs g, lhs, summed to attribute shape, in attribute dtype.
BuiltOp mat_mul_rhs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const MatMulRhsGradAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
