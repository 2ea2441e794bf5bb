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

struct CastAttributes {
  Required<DType> dtype;
};
/// Input 0 converted to attribute dtype. Float to int truncates toward zero; what lies outside the
/// range becomes its end, NaN becomes 0. Int to a narrower int wraps. Nonzero becomes true.
/// Differentiable for float16, bfloat16 and float32 sources.
BuiltOp cast(OpBuilder& builder, Tensor* input0, const CastAttributes& attributes,
             std::string_view name = {});

struct CastGradAttributes {
  Required<DType> dtype;
};
/// Input g converted to attribute dtype.
BuiltOp cast_grad(OpBuilder& builder, Tensor* input0, const CastGradAttributes& attributes,
                  std::string_view name = {});

struct CastThenPow2ScaleAttributes {
  Required<DType> dtype;
};
/// dtype(input 0) * 2^input 1 for a float8 input 0 and attribute dtype float16, bfloat16 or
/// float32.
BuiltOp cast_then_pow2_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                             const CastThenPow2ScaleAttributes& attributes,
                             std::string_view name = {});

struct Pow2ScaleAttributes {
  Required<DType> dtype;
};
/// dtype(input 0 * 2^input 1) for a float input 0; rounded once. What the scaled products of float8
/// expand to.
BuiltOp pow2_scale(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const Pow2ScaleAttributes& attributes, std::string_view name = {});

struct Pow2ScaleThenCastAttributes {
  Required<DType> dtype;
};
/// float8(input 0 * 2^input 1), float8 format in attribute dtype; rounds to nearest even, out of
/// range becomes NaN.
BuiltOp pow2_scale_then_cast(OpBuilder& builder, Tensor* input0, Tensor* input1,
                             const Pow2ScaleThenCastAttributes& attributes,
                             std::string_view name = {});

}  // namespace pando::ops
