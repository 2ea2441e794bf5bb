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

/// Input 0 + input 1, with broadcasting.
BuiltOp add(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct AddArg0GradAttributes {
  Required<Ints> shape;
};
/// Input g. Summed to attribute shape.
BuiltOp add_arg0_grad(OpBuilder& builder, Tensor* input0, const AddArg0GradAttributes& attributes,
                      std::string_view name = {});

struct AddArg1GradAttributes {
  Required<Ints> shape;
};
/// Input g. Summed to attribute shape.
BuiltOp add_arg1_grad(OpBuilder& builder, Tensor* input0, const AddArg1GradAttributes& attributes,
                      std::string_view name = {});

/// Adds input 1, broadcast to its shape, to input 0 in place.
BuiltOp add_lhs_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        std::string_view name = {});

/// Input 0 / input 1, with broadcasting; integers truncate toward zero.
BuiltOp div(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct DivArg0GradAttributes {
  Required<Ints> shape;
};
/// g / rhs for inputs g, rhs. Summed to attribute shape.
BuiltOp div_arg0_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const DivArg0GradAttributes& attributes, std::string_view name = {});

struct DivArg1GradAttributes {
  Required<Ints> shape;
};
/// -g lhs / rhs^2 for inputs g, lhs, rhs. Summed to attribute shape.
BuiltOp div_arg1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      const DivArg1GradAttributes& attributes, std::string_view name = {});

/// Remainder of input 0 / input 1 with the sign of input 0, with broadcasting. The divisor has no
/// gradient.
BuiltOp fmod(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct FmodArg0GradAttributes {
  Required<Ints> shape;
};
/// Input g. Summed to attribute shape.
BuiltOp fmod_arg0_grad(OpBuilder& builder, Tensor* input0, const FmodArg0GradAttributes& attributes,
                       std::string_view name = {});

/// Elementwise maximum of one or more inputs, with broadcasting. Every input that equals the output
/// gets the full gradient.
BuiltOp max(OpBuilder& builder, const std::vector<Tensor*>& inputs, std::string_view name = {});

struct MaxArgGradAttributes {
  Required<Ints> shape;
};
/// For inputs g, x, out: g where x equals out, else 0. Summed to attribute shape.
BuiltOp max_arg_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                     const MaxArgGradAttributes& attributes, std::string_view name = {});

/// Input 0 * input 1, with broadcasting. A float16 or bfloat16 tensor times a float32 tensor of one
/// element keeps its dtype.
BuiltOp mul(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct MulArg0GradAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
};
/// g * rhs for inputs g, rhs. Summed to attribute shape, in attribute dtype.
BuiltOp mul_arg0_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const MulArg0GradAttributes& attributes, std::string_view name = {});

struct MulArg1GradAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
};
/// g * lhs for inputs g, lhs. Summed to attribute shape, in attribute dtype.
BuiltOp mul_arg1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const MulArg1GradAttributes& attributes, std::string_view name = {});

/// Input 0 to the power of input 1, with broadcasting. Integers: modulo 2^bits; with a negative
/// exponent 1 and -1 keep their powers, all others give 0.
BuiltOp pow(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct PowArg0GradAttributes {
  Required<Ints> shape;
};
/// For inputs g, x, e: g e x^(e-1), and 0 where e is 0. Summed to attribute shape.
BuiltOp pow_arg0_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      const PowArg0GradAttributes& attributes, std::string_view name = {});

struct PowArg1GradAttributes {
  Required<Ints> shape;
};
/// For inputs g, x, e, out: g out ln x, and 0 where x is 0 and e is not negative. Summed to
/// attribute shape.
BuiltOp pow_arg1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      Tensor* input3, const PowArg1GradAttributes& attributes,
                      std::string_view name = {});

/// Input 0 - input 1, with broadcasting.
BuiltOp sub(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

struct SubArg0GradAttributes {
  Required<Ints> shape;
};
/// Input g. Summed to attribute shape.
BuiltOp sub_arg0_grad(OpBuilder& builder, Tensor* input0, const SubArg0GradAttributes& attributes,
                      std::string_view name = {});

struct SubArg1GradAttributes {
  Required<Ints> shape;
};
/// -g of input g, summed to attribute shape.
BuiltOp sub_arg1_grad(OpBuilder& builder, Tensor* input0, const SubArg1GradAttributes& attributes,
                      std::string_view name = {});

/// Elementwise sum of one or more inputs of one shape, in input order. Adds the gradients that
/// reach one tensor.
BuiltOp sum(OpBuilder& builder, const std::vector<Tensor*>& inputs, std::string_view name = {});

}  // namespace pando::ops
