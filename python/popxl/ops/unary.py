"""Elementwise ops with one input."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, make
from popxl.tensor import Tensor, constant

_INFINITY = float("inf")


def _unary(
    kind: str, t: Tensor, name: str, attributes: dict[str, object] | None = None, out: str = ""
) -> Tensor:
    check_inputs(t=t)
    return make(kind, [t], attributes, name=out or f"{name}_out", settings=name)


def abs(t: Tensor) -> Tensor:
    """Absolute value."""
    return _unary("Abs", t, "abs")


def negate(t: Tensor) -> Tensor:
    """The value with the opposite sign."""
    return _unary("Neg", t, "negate")


def sign(t: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign of the value."""
    return _unary("Sign", t, "sign")


def ceil(t: Tensor) -> Tensor:
    """Rounded up to an integer."""
    return _unary("Ceil", t, "ceil")


def floor(t: Tensor) -> Tensor:
    """Rounded down to an integer."""
    return _unary("Floor", t, "floor")


def exp(t: Tensor) -> Tensor:
    """e to the power of the value."""
    return _unary("Exp", t, "exp")


def exp_(t: Tensor) -> Tensor:
    """`exp`, written to `t`."""
    return _unary("ExpInplace", t, "exp_", out="exp_inplace_out")


def log(t: Tensor) -> Tensor:
    """Natural logarithm."""
    return _unary("Log", t, "log")


def log2(t: Tensor) -> Tensor:
    """Logarithm to base 2, as a quotient of natural logarithms."""
    from popxl.ops.binary import div

    check_inputs(t=t)
    return div(log(t), log(constant(2, t.dtype)))


def sqrt(t: Tensor) -> Tensor:
    """Square root."""
    return _unary("Sqrt", t, "sqrt")


def sin(t: Tensor) -> Tensor:
    """Sine of an angle in radians."""
    return _unary("Sin", t, "sin")


def cos(t: Tensor) -> Tensor:
    """Cosine of an angle in radians."""
    return _unary("Cos", t, "cos")


def tanh(t: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return _unary("Tanh", t, "tanh")


def clip(t: Tensor, min: float = -_INFINITY, max: float = _INFINITY) -> Tensor:
    """min(max(t, min), max)."""
    return _unary("Clip", t, "clip", {"min": float(min), "max": float(max)})


clamp = clip


def isnan(t: Tensor) -> Tensor:
    """bool: whether the element is NaN."""
    return _unary("IsNaN", t, "isnan")


def isinf(t: Tensor) -> Tensor:
    """bool: whether the element is +inf or -inf."""
    return _unary("IsInf", t, "isinf")


def isfinite(t: Tensor) -> Tensor:
    """bool: whether the element is neither NaN nor infinite."""
    from popxl.ops.logic import logical_not, logical_or

    return identity(logical_not(logical_or(isnan(t), isinf(t))), "isfinite_out")


def identity(t: Tensor, output_name: str | None = None) -> Tensor:
    """A copy, called `output_name`."""
    check_inputs(t=t)
    return make("Identity", [t], name=output_name or f"identity_{t.name}", settings="identity")


rename = identity


def detach(t: Tensor) -> Tensor:
    """The value; no gradient passes."""
    return _unary("Detach", t, "detach")


def detach_(t: Tensor) -> Tensor:
    """An alias of `t` through which no gradient passes."""
    return _unary("DetachInplace", t, "detach_", out="detach_out")


def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """The remainder of (t + increment) / modulus, with the sign of the dividend."""
    attributes: dict[str, object] = {"increment": float(increment), "modulus": float(modulus)}
    return _unary("IncrementMod", t, "increment_mod", attributes)


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """`increment_mod`, written to `t`."""
    attributes: dict[str, object] = {"increment": float(increment), "modulus": float(modulus)}
    return _unary(
        "IncrementModInplace", t, "increment_mod_", attributes, out="increment_mod_inplace_out"
    )
