"""Lowerings of operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.registry import lowers
from popxl import ops
from popxl.ops.utils import make

Operand = popxl.Tensor | float | int | bool


def number(value: float, dtype: popxl.dtype) -> popxl.Tensor:
    """A constant without axes.

    Args:
        value: Its value.
        dtype: Its element type.

    Returns:
        The constant, in the current graph.
    """
    return popxl.constant(value, dtype)


def operand(value: Operand, dtype: popxl.dtype) -> popxl.Tensor:
    """An argument as a tensor of an element type.

    Args:
        value: A tensor or a number.
        dtype: The element type.

    Returns:
        A tensor.
    """
    return cast(value, dtype) if isinstance(value, popxl.Tensor) else number(value, dtype)


def _rank_of(dtype: popxl.dtype) -> int:
    """Booleans yield to integers, and these to floats."""
    return 0 if dtype == popxl.bool else 2 if dtype.is_floating_point else 1


def common_dtype(*values: Operand) -> popxl.dtype:
    """The element type in which several arguments are compared.

    Args:
        *values: Tensors and numbers. Numbers yield to tensors of their kind, and tensors without
            axes to those with some.

    Returns:
        The element type.
    """
    tensors = [value for value in values if isinstance(value, popxl.Tensor)]
    kinds = {_rank_of(t.dtype) for t in tensors}
    largest = [t for t in tensors if _rank_of(t.dtype) == max(kinds)]
    result: np.dtype[Any] = np.result_type(
        *[t.dtype.as_numpy() for t in [t for t in largest if t.rank] or largest]
    )
    has_float = any(isinstance(v, float) for v in values if not isinstance(v, popxl.Tensor))
    found = popxl.dtypes.dtype.as_dtype(result)
    if has_float and not found.is_floating_point:
        return popxl.float32
    if found == popxl.bool and any(type(v) is int for v in values):
        return popxl.int32
    return found


def _scaled(value: Operand, alpha: float, dtype: popxl.dtype) -> popxl.Tensor:
    tensor = operand(value, dtype)
    return tensor if alpha == 1 else ops.mul(tensor, number(alpha, dtype))


@lowers("aten::add")
def add(call: Call, self: Operand, other: Operand, alpha: float = 1) -> popxl.Tensor:
    """`self + alpha * other`; of booleans: or."""
    if call.dtype == popxl.bool:
        left = operand(self, call.dtype)
        return ops.logical_or(left, operand(other, call.dtype)) if alpha else left
    return ops.add(operand(self, call.dtype), _scaled(other, alpha, call.dtype))


@lowers("aten::sub", "aten::subtract")
def sub(call: Call, self: Operand, other: Operand, alpha: float = 1) -> popxl.Tensor:
    """`self - alpha * other`."""
    return ops.sub(operand(self, call.dtype), _scaled(other, alpha, call.dtype))


@lowers("aten::rsub")
def rsub(call: Call, self: Operand, other: Operand, alpha: float = 1) -> popxl.Tensor:
    """`other - alpha * self`."""
    return ops.sub(operand(other, call.dtype), _scaled(self, alpha, call.dtype))


@lowers("aten::mul", "aten::multiply")
def mul(call: Call, self: Operand, other: Operand) -> popxl.Tensor:
    """`self * other`; of booleans: and."""
    if call.dtype == popxl.bool:
        return ops.logical_and(operand(self, call.dtype), operand(other, call.dtype))
    return ops.mul(operand(self, call.dtype), operand(other, call.dtype))


@lowers("aten::div", "aten::true_divide", "aten::divide")
def div(
    call: Call, self: Operand, other: Operand, rounding_mode: str | None = None
) -> popxl.Tensor:
    """`self / other`, rounded as asked."""
    if rounding_mode is None:
        return ops.div(operand(self, call.dtype), operand(other, call.dtype))
    left, right = operand(self, call.dtype), operand(other, call.dtype)
    if rounding_mode == "floor":
        return floored_quotient(left, right)
    if not call.dtype.is_floating_point:
        return ops.div(left, right)
    return truncated(ops.div(ops.detach(left), ops.detach(right)))


def differ_in_sign(a: popxl.Tensor, b: popxl.Tensor) -> popxl.Tensor:
    """Compare signs.

    Args:
        a: A tensor of numbers.
        b: Another one.

    Returns:
        Where one is negative and the other positive.
    """
    return ops.greater(number(0, a.dtype), ops.mul(ops.sign(a), ops.sign(b)))


def floored_quotient(left: popxl.Tensor, right: popxl.Tensor) -> popxl.Tensor:
    """Divide and round down, by the remainder: rounding a quotient may reach a whole number.

    Args:
        left: The dividend.
        right: The divisor, of the same element type.

    Returns:
        The quotient, through which no gradient goes.
    """
    if not left.dtype.is_floating_point:
        quotient = ops.div(left, right)
        return _floored(quotient, left, right)
    dtype = left.dtype
    left, right = (ops.detach(cast(t, popxl.float32)) for t in (left, right))
    rest = ops.fmod(left, right)
    quotient = ops.div(ops.sub(left, rest), right)
    quotient = ops.sub(quotient, cast(differ_in_sign(rest, right), popxl.float32))
    below = ops.floor(quotient)
    is_above = ops.greater(ops.sub(quotient, below), number(0.5, popxl.float32))
    whole = ops.add(below, cast(is_above, popxl.float32))
    is_zero = ops.equal(right, number(0, popxl.float32))
    return cast(ops.where(is_zero, ops.div(left, right), whole), dtype)


def truncated(value: popxl.Tensor) -> popxl.Tensor:
    """Round toward zero.

    Args:
        value: A tensor of floating-point numbers.

    Returns:
        The rounded tensor.
    """
    zero = number(0, value.dtype)
    return ops.where(ops.greater(zero, value), ops.ceil(value), ops.floor(value))


def _floored(quotient: popxl.Tensor, left: popxl.Tensor, right: popxl.Tensor) -> popxl.Tensor:
    """An integer quotient that was truncated, rounded down."""
    remainder = ops.sub(left, ops.mul(quotient, right))
    return ops.sub(quotient, cast(differ_in_sign(remainder, right), left.dtype))


Unary = Callable[[popxl.Tensor], popxl.Tensor]


def _register_unary(name: str, function: Unary) -> None:
    @lowers(f"aten::{name}")
    def lower(call: Call, self: popxl.Tensor) -> popxl.Tensor:
        return function(cast(self, call.dtype))


def _times(factor: float, function: Unary) -> Unary:
    return lambda t: ops.mul(function(t), number(factor, t.dtype))


def sign(t: popxl.Tensor) -> popxl.Tensor:
    """Take the sign, which is 0 for NaN as in torch.

    Args:
        t: A tensor.

    Returns:
        -1, 0 or 1 for each element.
    """
    if not t.dtype.is_floating_point:
        return ops.sign(t)
    return ops.where(ops.isnan(t), number(0, t.dtype), ops.sign(t))


_UNARY: dict[str, Unary] = {
    "abs": ops.abs,
    "absolute": ops.abs,
    "neg": ops.negate,
    "negative": ops.negate,
    "sign": sign,
    "exp": ops.exp,
    "log": ops.log,
    "log2": ops.log2,
    "log10": _times(1 / math.log(10), ops.log),
    "log1p": ops.log1p,
    "expm1": ops.expm1,
    "sqrt": ops.sqrt,
    "sin": ops.sin,
    "cos": ops.cos,
    "tan": lambda t: ops.div(ops.sin(t), ops.cos(t)),
    "tanh": ops.tanh,
    "atan": ops.atan,
    "arctan": ops.atan,
    "erf": ops.erf,
    "erfc": ops.erfc,
    "sigmoid": lambda t: make("Sigmoid", [t], name="sigmoid_out", settings="sigmoid"),
    "relu": ops.relu,
    "silu": ops.swish,
    "square": lambda t: ops.mul(t, t),
    "rsqrt": lambda t: ops.div(number(1, t.dtype), ops.sqrt(t)),
    "reciprocal": lambda t: ops.div(number(1, t.dtype), t),
}
for _name, _function in _UNARY.items():
    _register_unary(_name, _function)


def _register_rounding(name: str, function: Unary) -> None:
    @lowers(f"aten::{name}")
    def lower(call: Call, self: popxl.Tensor) -> popxl.Tensor:
        del call
        return function(self) if self.dtype.is_floating_point else self


_register_rounding("ceil", ops.ceil)
_register_rounding("floor", ops.floor)
_register_rounding("trunc", truncated)
_register_rounding("fix", truncated)


@lowers("aten::gelu")
def gelu(call: Call, self: popxl.Tensor, approximate: str = "none") -> popxl.Tensor:
    """The Gaussian error linear unit, with erf or the approximation by tanh."""
    del call
    return ops.gelu(self) if approximate == "tanh" else ops.geluerf(self)


@lowers("aten::pow")
def power(call: Call, self: Operand, exponent: Operand) -> popxl.Tensor:
    """`self ** exponent`."""
    if isinstance(self, popxl.Tensor) and isinstance(exponent, (int, float)):
        if exponent == 2:
            return ops.mul(cast(self, call.dtype), cast(self, call.dtype))
        if exponent == 0.5:
            return ops.sqrt(cast(self, call.dtype))
    base, power_ = operand(self, call.dtype), operand(exponent, call.dtype)
    if call.node.from_grad and call.dtype.is_floating_point:
        # Parts of the gradient may be out of the range of half precision where it is not.
        base, power_ = cast(base, popxl.float32), cast(power_, popxl.float32)
    return ops.pow(base, power_)


def _register_comparison(
    name: str, compare: Callable[[popxl.Tensor, popxl.Tensor], popxl.Tensor]
) -> None:
    @lowers(f"aten::{name}")
    def lower(call: Call, self: popxl.Tensor, other: Operand) -> popxl.Tensor:
        dtype = common_dtype(self, other)
        return broadcast_to(compare(operand(self, dtype), operand(other, dtype)), call.shape)


def _or_equal(a: popxl.Tensor, b: popxl.Tensor) -> popxl.Tensor:
    return ops.logical_or(ops.greater(a, b), ops.equal(a, b))


_register_comparison("eq", ops.equal)
_register_comparison("ne", lambda a, b: ops.logical_not(ops.equal(a, b)))
_register_comparison("gt", ops.greater)
_register_comparison("lt", lambda a, b: ops.greater(b, a))
_register_comparison("ge", _or_equal)
_register_comparison("le", lambda a, b: _or_equal(b, a))


@lowers("aten::where")
def where(call: Call, condition: popxl.Tensor, self: Operand, other: Operand) -> popxl.Tensor:
    """Elements of `self` where the condition holds, those of `other` elsewhere."""
    return ops.where(
        cast(condition, popxl.bool), operand(self, call.dtype), operand(other, call.dtype)
    )


@lowers("aten::masked_fill")
def masked_fill(call: Call, self: popxl.Tensor, mask: popxl.Tensor, value: Operand) -> popxl.Tensor:
    """A number where the mask holds."""
    return ops.where(cast(mask, popxl.bool), operand(value, call.dtype), self)


@lowers("aten::clamp", "aten::clip")
def clamp(
    call: Call,
    self: popxl.Tensor,
    min: Operand | None = None,
    max: Operand | None = None,
    min_val: float | None = None,
    max_val: float | None = None,
) -> popxl.Tensor:
    """Elements moved into a range."""
    low = min if min_val is None else min_val
    high = max if max_val is None else max_val
    t = cast(self, call.dtype)
    bounds = [-math.inf if low is None else low, math.inf if high is None else high]
    numbers = [float(b) for b in bounds if not isinstance(b, popxl.Tensor)]
    # In torch the gradient of an element that equals a bound passes, which that of clip does not.
    if len(numbers) == 2 and call.dtype.is_floating_point and not call.node.from_grad:
        return ops.clip(t, *numbers)
    if low is not None:
        bound = operand(low, call.dtype)
        if isinstance(low, popxl.Tensor) and high is not None and call.node.from_grad:
            # As in torch, which gives the gradient of an empty range to its upper bound.
            is_range = ops.greater(operand(high, call.dtype), bound)
            bound = ops.where(is_range, bound, ops.detach(bound))
        t = _moved(t, bound, ops.greater)
    if high is not None:
        t = _moved(t, operand(high, call.dtype), lambda a, b: ops.greater(b, a))
    return t


def _moved(
    t: popxl.Tensor, bound: popxl.Tensor, exceeds: Callable[..., popxl.Tensor]
) -> popxl.Tensor:
    """Elements moved to a bound, but those equal to it; NaN where one is."""
    moves = exceeds(bound, t)
    if bound.dtype.is_floating_point:
        moves = ops.logical_or(moves, ops.isnan(bound))
    return ops.where(moves, bound, t)


@lowers("aten::copy")
def copy(call: Call, self: popxl.Tensor, src: popxl.Tensor) -> popxl.Tensor:
    """The elements of another tensor, in the element type of this one."""
    del call
    return cast(src, self.dtype)


@lowers(
    "aten::to",
    "aten::_to_copy",
    "aten::type_as",
    "aten::float",
    "aten::clone",
    "aten::contiguous",
    "aten::detach",
    "aten::alias",
    "aten::lift_fresh",
)
def to(call: Call, self: popxl.Tensor, **_ignored: Any) -> popxl.Tensor:
    """The same elements in the element type of the result."""
    return cast(self, call.dtype)


@lowers("prims::convert_element_type")
def convert_element_type(call: Call, a: popxl.Tensor, **_ignored: Any) -> popxl.Tensor:
    """The same elements in another element type."""
    return cast(a, call.dtype)
