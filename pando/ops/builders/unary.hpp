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

/// |x| of input 0.
BuiltOp abs(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * sign(x) for inputs g, x; 0 where x is 0.
BuiltOp abs_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Arc tangent of input 0, in radians.
BuiltOp atan(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g / (1 + x^2) for inputs g, x.
BuiltOp atan_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Input 0 rounded up to an integer; integer dtypes stay as they are.
BuiltOp ceil(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct ClipAttributes {
  Required<double> min;
  Required<double> max;
};
/// min(max(x, attribute min), attribute max) of input 0; NaN stays NaN. The limits are rounded to
/// the dtype, for float16 first clamped to +-65504.
BuiltOp clip(OpBuilder& builder, Tensor* input0, const ClipAttributes& attributes,
             std::string_view name = {});

struct ClipGradAttributes {
  Required<double> min;
  Required<double> max;
};
/// For inputs g, out: g where out is neither of the limits, else 0.
BuiltOp clip_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                  const ClipGradAttributes& attributes, std::string_view name = {});

/// cos x of input 0 (radians).
BuiltOp cos(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// -g * sin x for inputs g, x.
BuiltOp cos_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// The value of input 0; no gradient passes.
BuiltOp detach(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// An alias of input 0 through which no gradient passes.
BuiltOp detach_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// Error function 2 / sqrt(pi) * integral of e^(-t^2) from 0 to x of input 0.
BuiltOp erf(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * 2 / sqrt(pi) * e^(-x^2) for inputs g, x.
BuiltOp erf_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// 1 - erf(x) of input 0, accurate where it is small.
BuiltOp erfc(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// -g * 2 / sqrt(pi) * e^(-x^2) for inputs g, x.
BuiltOp erfc_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// e^x of input 0.
BuiltOp exp(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * out for inputs g, out.
BuiltOp exp_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Writes e^x to input 0.
BuiltOp exp_inplace(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// e^x - 1 of input 0, accurate where x is small.
BuiltOp expm1(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * (out + 1) for inputs g, out.
BuiltOp expm1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Input 0 rounded down to an integer; integer dtypes stay as they are.
BuiltOp floor(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// The value of input 0 under another name.
BuiltOp identity(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// The value of input g.
BuiltOp identity_grad(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct IncrementModAttributes {
  Required<double> increment;
  Required<double> modulus;
};
/// rem(x + attribute increment, attribute modulus) of input 0: the remainder with the sign of the
/// dividend. Integers use truncated attributes, and the sum wraps in their dtype. No 64-bit dtypes.
BuiltOp increment_mod(OpBuilder& builder, Tensor* input0, const IncrementModAttributes& attributes,
                      std::string_view name = {});

struct IncrementModInplaceAttributes {
  Required<double> increment;
  Required<double> modulus;
};
/// Writes rem(x + attribute increment, attribute modulus) to input 0.
BuiltOp increment_mod_inplace(OpBuilder& builder, Tensor* input0,
                              const IncrementModInplaceAttributes& attributes,
                              std::string_view name = {});

/// bool: whether input 0 is +inf or -inf (false for integers).
BuiltOp is_inf(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// bool: whether input 0 is NaN (false for integers).
BuiltOp is_na_n(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// ln x of input 0.
BuiltOp log(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// ln(1 + x) of input 0, accurate where x is small.
BuiltOp log1p(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g / (1 + x) for inputs g, x.
BuiltOp log1p_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// g / x for inputs g, x.
BuiltOp log_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// -x of input 0.
BuiltOp neg(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// -g of input g.
BuiltOp neg_grad(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// -1, 0 or 1 by the sign of input 0; NaN stays NaN.
BuiltOp sign(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// sin x of input 0 (radians).
BuiltOp sin(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g * cos x for inputs g, x.
BuiltOp sin_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Square root of input 0.
BuiltOp sqrt(OpBuilder& builder, Tensor* input0, std::string_view name = {});

/// g / (2 out) for inputs g, out.
BuiltOp sqrt_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, std::string_view name = {});

/// Zeros like input g.
BuiltOp unary_zero_grad(OpBuilder& builder, Tensor* input0, std::string_view name = {});

}  // namespace pando::ops
