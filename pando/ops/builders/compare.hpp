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

/// Logical and of two bool inputs, with broadcasting.
BuiltOp logical_and(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// bool: input 0 == input 1, with broadcasting.
BuiltOp equal(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// bool: input 0 > input 1, with broadcasting.
BuiltOp greater(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Logical not of a bool input.
BuiltOp logical_not(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// Logical or of two bool inputs, with broadcasting.
BuiltOp logical_or(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Input 1 where input 0 (bool) is true, else input 2, with broadcasting.
BuiltOp where(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
              std::string_view name = {});

struct WhereXGradAttributes {
  Required<Ints> shape;
};
/// For inputs g, condition: g where the condition is true, else 0, summed to attribute shape.
BuiltOp where_x_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const WhereXGradAttributes& attributes, std::string_view name = {});

struct WhereYGradAttributes {
  Required<Ints> shape;
};
/// For inputs g, condition: g where the condition is false, else 0, summed to attribute shape.
BuiltOp where_y_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const WhereYGradAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
