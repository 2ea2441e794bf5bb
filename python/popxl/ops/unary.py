"""Elementwise ops with one input."""

from __future__ import annotations

from popxl.constants import constant
from popxl.ops.binary import div
from popxl.ops.logic import logical_not, logical_or
from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor

_INFINITY = float("inf")


def _unary(
    kind: str, t: Tensor, name: str, attributes: dict[str, object] | None = None, out: str = ""
) -> Tensor:
    check_inputs(t=t)
    return make(kind, [t], attributes, name=out or f"{name}_out", settings=name)


def abs(t: Tensor) -> Tensor:
    """Compute the magnitude |t| of each element.

    Args:
        t: The operand; any dtype but float8.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Abs", t, "abs")


def negate(t: Tensor) -> Tensor:
    """Compute -t.

    Args:
        t: The operand; any dtype but float8.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Neg", t, "negate")


def sign(t: Tensor) -> Tensor:
    """Compute -1, 0 or 1 by the sign of each element; NaN stays NaN. The gradient is 0.

    Args:
        t: The operand; any dtype but float8.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Sign", t, "sign")


def ceil(t: Tensor) -> Tensor:
    """Round each element up to an integer. The gradient is 0.

    Args:
        t: The operand; any dtype but float8. Integers stay as they are.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Ceil", t, "ceil")


def floor(t: Tensor) -> Tensor:
    """Round each element down to an integer. The gradient is 0.

    Args:
        t: The operand; any dtype but float8. Integers stay as they are.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Floor", t, "floor")


def exp(t: Tensor) -> Tensor:
    """Compute e to the power of each element.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Exp", t, "exp")


def exp_(t: Tensor) -> Tensor:
    """Compute `exp` in place: `t` becomes e^t. There is no gradient.

    Args:
        t: The tensor to overwrite; float16, bfloat16, float32 or float64.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("ExpInplace", t, "exp_", out="exp_inplace_out")


def log(t: Tensor) -> Tensor:
    """Compute the natural logarithm of each element.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Log", t, "log")


def log2(t: Tensor) -> Tensor:
    """Compute the logarithm to base 2 of each element, as ln(t) / ln(2).

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    check_inputs(t=t)
    return div(log(t), log(constant(2, t.dtype)))


def sqrt(t: Tensor) -> Tensor:
    """Compute the square root of each element.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Sqrt", t, "sqrt")


def sin(t: Tensor) -> Tensor:
    """Compute the sine of each element.

    Args:
        t: Angles in radians; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Sin", t, "sin")


def cos(t: Tensor) -> Tensor:
    """Compute the cosine of each element.

    Args:
        t: Angles in radians; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Cos", t, "cos")


def tanh(t: Tensor) -> Tensor:
    """Compute the hyperbolic tangent of each element.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Tanh", t, "tanh")


def clip(t: Tensor, min: float = -_INFINITY, max: float = _INFINITY) -> Tensor:
    """Limit each element: min(max(t, min), max). `clamp` is the same function.

    NaN stays NaN. The gradient is 0 where the result equals a limit.

    Args:
        t: The operand; any dtype but float8.
        min: The lower limit, rounded to the dtype of `t`. The default limits nothing.
        max: The upper limit, rounded to the dtype of `t`. The default limits nothing. For float16
            both limits are first brought into [-65504, 65504].

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Clip", t, "clip", {"min": float(min), "max": float(max)})


clamp = clip


def isnan(t: Tensor) -> Tensor:
    """Tell which elements are NaN. There is no gradient.

    Args:
        t: The operand; any dtype but float8. Integers are never NaN.

    Returns:
        A new bool tensor with the shape of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("IsNaN", t, "isnan")


def isinf(t: Tensor) -> Tensor:
    """Tell which elements are +inf or -inf. There is no gradient.

    Args:
        t: The operand; any dtype but float8. Integers are never infinite.

    Returns:
        A new bool tensor with the shape of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("IsInf", t, "isinf")


def isfinite(t: Tensor) -> Tensor:
    """Tell which elements are neither NaN nor infinite. There is no gradient.

    Args:
        t: The operand; any dtype but float8.

    Returns:
        A new bool tensor with the shape of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return identity(logical_not(logical_or(isnan(t), isinf(t))), "isfinite_out")


def identity(t: Tensor, output_name: str | None = None) -> Tensor:
    """Copy a tensor. `rename` is the same function.

    Args:
        t: The tensor, of any dtype.
        output_name: The name of the result. None: `identity_` and the name of `t`.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    check_inputs(t=t)
    return make("Identity", [t], name=output_name or f"identity_{t.name}", settings="identity")


rename = identity


def detach(t: Tensor) -> Tensor:
    """Copy a tensor so that no gradient passes from the copy to it.

    Args:
        t: The tensor, of any dtype.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Detach", t, "detach")


def detach_(t: Tensor) -> Tensor:
    """Make an alias of a tensor through which no gradient passes.

    Args:
        t: The tensor, of any dtype.

    Returns:
        An alias of `t`: nothing is copied, and writes reach both.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("DetachInplace", t, "detach_", out="detach_out")


def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """Compute the remainder of (t + increment) / modulus. It has the sign of the dividend.

    There is no gradient.

    Args:
        t: The operand; int8, int16, int32, their unsigned forms, float16, bfloat16 or float32.
        increment: What is added to each element, converted to the dtype of `t`.
        modulus: The divisor, converted to the dtype of `t`.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_internal_exception: `t` has another dtype, found when a session is made.
    """
    attributes: dict[str, object] = {"increment": float(increment), "modulus": float(modulus)}
    return _unary("IncrementMod", t, "increment_mod", attributes)


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """Compute `increment_mod` in place: `t` becomes the remainder of (t + increment) / modulus.

    Args:
        t: The tensor to overwrite; int8, int16, int32, their unsigned forms, float16, bfloat16 or
            float32.
        increment: What is added to each element, converted to the dtype of `t`.
        modulus: The divisor, converted to the dtype of `t`.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_internal_exception: `t` has another dtype, found when a session is made.
    """
    attributes: dict[str, object] = {"increment": float(increment), "modulus": float(modulus)}
    return _unary(
        "IncrementModInplace", t, "increment_mod_", attributes, out="increment_mod_inplace_out"
    )


def log1p(t: Tensor) -> Tensor:
    """Compute ln(1 + t), accurate where `t` is small.

    Args:
        t: The operand; float16, bfloat16, float32 or float64. -1 gives -inf, smaller
            values give NaN.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Log1p", t, "log1p")


def expm1(t: Tensor) -> Tensor:
    """Compute e^t - 1, accurate where `t` is small.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Expm1", t, "expm1")


def atan(t: Tensor) -> Tensor:
    """Compute the arc tangent of each element, in radians: from -pi/2 to pi/2.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Atan", t, "atan")


def erf(t: Tensor) -> Tensor:
    """Compute the error function, 2 / sqrt(pi) times the integral of e^(-x^2) from 0 to t.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Erf", t, "erf")


def erfc(t: Tensor) -> Tensor:
    """Compute 1 - erf(t), accurate where it is small.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _unary("Erfc", t, "erfc")
