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

/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) of input 0.
BuiltOp gelu(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// 0.5 x (1 + erf(x / sqrt 2)) of input 0.
BuiltOp gelu_erf(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// For inputs g, x: g (Phi(x) + x phi(x)) with the standard normal Phi and phi.
BuiltOp gelu_erf_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      std::string_view name = {});

/// Writes 0.5 x (1 + erf(x / sqrt 2)) to input 0.
BuiltOp gelu_erf_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// For inputs g, x: g times the derivative of the tanh form of gelu at x.
BuiltOp gelu_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Writes 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) to input 0.
BuiltOp gelu_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// max(x, 0) of input 0; NaN stays NaN.
BuiltOp relu(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// For inputs g, out: g where out > 0, else 0.
BuiltOp relu_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Writes max(x, 0) to input 0.
BuiltOp relu_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// 1 / (1 + e^-x) of input 0.
BuiltOp sigmoid(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g out (1 - out) for inputs g, out.
BuiltOp sigmoid_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     std::string_view name = {});

/// Writes 1 / (1 + e^-x) to input 0.
BuiltOp sigmoid_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// x sigmoid(x) of input 0.
BuiltOp swish(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// For inputs g, x: g (s + x s (1 - s)) with s = sigmoid(x).
BuiltOp swish_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Writes x sigmoid(x) to input 0.
BuiltOp swish_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// tanh x of input 0.
BuiltOp tanh(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g (1 - out^2) for inputs g, out.
BuiltOp tanh_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

}  // namespace pando::ops
