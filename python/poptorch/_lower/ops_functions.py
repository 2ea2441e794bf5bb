"""Lowerings of functions of numbers that are compositions of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_pointwise import (
    Operand,
    common_dtype,
    number,
    operand,
    sign,
    truncated,
)
from poptorch._lower.registry import lowers
from poptorch._lower.views import with_gradient_of
from popxl import ops

Unary = Callable[[popxl.Tensor], popxl.Tensor]
Binary = Callable[[popxl.Tensor, popxl.Tensor], popxl.Tensor]


def _plus(t: popxl.Tensor, value: float) -> popxl.Tensor:
    return ops.add(t, number(value, t.dtype))


def _times(t: popxl.Tensor, value: float) -> popxl.Tensor:
    return ops.mul(t, number(value, t.dtype))


def _one_minus(t: popxl.Tensor) -> popxl.Tensor:
    return ops.sub(number(1, t.dtype), t)


def arcsine(t: popxl.Tensor) -> popxl.Tensor:
    """atan(x / sqrt((1 - x) (1 + x))), which keeps the digits of 1 - x."""
    return ops.atan(ops.div(t, ops.sqrt(ops.mul(_one_minus(t), _plus(t, 1)))))


def arccosine(t: popxl.Tensor) -> popxl.Tensor:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    return _times(ops.atan(ops.sqrt(ops.div(_one_minus(t), _plus(t, 1)))), 2)


def hyperbolic_sine(t: popxl.Tensor) -> popxl.Tensor:
    """(expm1(x) - expm1(-x)) / 2."""
    return _times(ops.sub(ops.expm1(t), ops.expm1(ops.negate(t))), 0.5)


def hyperbolic_cosine(t: popxl.Tensor) -> popxl.Tensor:
    """(exp(x) + exp(-x)) / 2."""
    return _times(ops.add(ops.exp(t), ops.exp(ops.negate(t))), 0.5)


def area_sine(t: popxl.Tensor) -> popxl.Tensor:
    """sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2)))."""
    square = ops.mul(t, t)
    rest = ops.div(square, _plus(ops.sqrt(_plus(square, 1)), 1))
    # That of 0 is 1: the gradient there is 1, not 0 as that of |x|.
    sign = ops.where(ops.greater(number(0, t.dtype), t), number(-1, t.dtype), number(1, t.dtype))
    return ops.mul(sign, ops.log1p(ops.add(ops.mul(t, sign), rest)))


def area_cosine(t: popxl.Tensor) -> popxl.Tensor:
    """log1p(y + sqrt(2 y + y^2)) with y = x - 1."""
    above = _plus(t, -1)
    return ops.log1p(ops.add(above, ops.sqrt(ops.mul(above, _plus(above, 2)))))


def _in_range(t: popxl.Tensor, function: Unary, sign: popxl.Tensor | None = None) -> popxl.Tensor:
    """An area function, which is log(2 t) where squares are too large."""
    large = ops.greater(ops.abs(t), number(1e18, t.dtype))
    usual = function(ops.where(large, number(1, t.dtype), t))
    size = t if sign is None else ops.mul(t, ops.detach(sign))
    grown = _plus(ops.log(ops.where(large, size, number(1, t.dtype))), math.log(2))
    if sign is not None:
        grown = ops.mul(grown, ops.detach(sign))
    return ops.where(large, grown, usual)


def area_tangent(t: popxl.Tensor) -> popxl.Tensor:
    """log1p(2 x / (1 - x)) / 2."""
    return _times(ops.log1p(ops.div(_times(t, 2), _one_minus(t))), 0.5)


def rounded(t: popxl.Tensor) -> popxl.Tensor:
    """Round to the nearest integer, halves to the even one.

    Args:
        t: A tensor of floating-point numbers.

    Returns:
        The rounded tensor.
    """
    below = ops.floor(t)
    rest = ops.sub(t, below)
    half = number(0.5, t.dtype)
    is_odd = ops.greater(ops.sub(below, _times(ops.floor(_times(below, 0.5)), 2)), half)
    up = ops.logical_or(ops.greater(rest, half), ops.logical_and(ops.equal(rest, half), is_odd))
    return ops.add(below, cast(up, t.dtype))


_UNARY: dict[str, Unary] = {
    "asin": arcsine,
    "arcsin": arcsine,
    "acos": arccosine,
    "arccos": arccosine,
    "sinh": hyperbolic_sine,
    "cosh": hyperbolic_cosine,
    "asinh": lambda t: _in_range(t, area_sine, ops.sign(t)),
    "arcsinh": lambda t: _in_range(t, area_sine, ops.sign(t)),
    "acosh": lambda t: _in_range(t, area_cosine),
    "arccosh": lambda t: _in_range(t, area_cosine),
    "atanh": area_tangent,
    "arctanh": area_tangent,
    "exp2": lambda t: ops.exp(_times(t, math.log(2))),
    "frac": lambda t: ops.sub(t, truncated(t)),
    "sgn": sign,
}


def _register_unary(name: str, function: Unary) -> None:
    @lowers(f"aten::{name}", f"prims::{name}")
    def lower(call: Call, self: popxl.Tensor) -> popxl.Tensor:
        t = cast(self, call.dtype)
        # Half precision loses in each step what a function of one step keeps.
        wide = cast(t, popxl.float32) if t.dtype.is_floating_point else t
        return cast(function(wide), call.dtype)


for _name, _function in _UNARY.items():
    _register_unary(_name, _function)


@lowers("aten::round", "prims::round")
def round_(call: Call, self: popxl.Tensor, decimals: int = 0) -> popxl.Tensor:
    """Round to a number of decimals, halves to the even digit."""
    del call
    if not self.dtype.is_floating_point:
        return self
    if decimals == 0:
        return rounded(self)
    scale = number(10.0 ** abs(decimals), popxl.float32)
    wide = cast(self, popxl.float32)
    if decimals > 0:
        return cast(ops.div(rounded(ops.mul(wide, scale)), scale), self.dtype)
    return cast(ops.mul(rounded(ops.div(wide, scale)), scale), self.dtype)


def root(t: popxl.Tensor) -> popxl.Tensor:
    """Take the square root, which has a gradient of 0 at 0.

    Args:
        t: A tensor of floats, none of which is negative.

    Returns:
        Its roots.
    """
    zero, one = number(0, t.dtype), number(1, t.dtype)
    nothing = ops.equal(t, zero)
    return ops.where(nothing, zero, ops.sqrt(ops.where(nothing, one, t)))


def _of_unit_size(x: popxl.Tensor, y: popxl.Tensor) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Two numbers over the larger of their sizes; infinities are as large as each other."""
    zero, one = number(0, x.dtype), number(1, x.dtype)
    size = ops.maximum(ops.abs(x), ops.abs(y))
    endless = ops.isinf(size)
    scale = ops.where(ops.logical_or(endless, ops.equal(size, zero)), one, size)

    def scaled(t: popxl.Tensor) -> popxl.Tensor:
        ends = ops.where(ops.isinf(t), ops.sign(t), ops.mul(t, zero))
        return ops.where(endless, ends, ops.div(t, scale))

    return scaled(x), scaled(y)


def _angle_of(x: popxl.Tensor, y: popxl.Tensor, shape: tuple[int, ...]) -> popxl.Tensor:
    zero, one = number(0, x.dtype), number(1, x.dtype)
    radius = ops.sqrt(ops.add(ops.mul(x, x), ops.mul(y, y)))
    right = broadcast_to(ops.greater(x, zero), shape)
    above = ops.where(right, y, ops.sub(radius, x))
    below = ops.where(right, ops.add(radius, x), y)
    below = ops.where(ops.equal(radius, zero), one, below)
    return _times(ops.atan(ops.div(above, below)), 2)


def is_negative(t: popxl.Tensor) -> popxl.Tensor:
    """Compare with 0, from which -0 differs.

    Args:
        t: A tensor of signed numbers.

    Returns:
        Whether elements have a minus sign; NaN has none.
    """
    zero = number(0, t.dtype)
    if t.dtype.is_floating_point:
        # Zeros have signs, which their reciprocals show.
        t = ops.where(ops.equal(t, zero), ops.div(number(1, t.dtype), t), t)
    return ops.greater(zero, t)


def _with_sign_of(size: popxl.Tensor, sign: popxl.Tensor) -> popxl.Tensor:
    factor = ops.where(is_negative(sign), number(-1, size.dtype), number(1, size.dtype))
    return ops.mul(size, factor)


@lowers("aten::atan2", "aten::arctan2", "prims::atan2")
def atan2(call: Call, self: popxl.Tensor, other: popxl.Tensor) -> popxl.Tensor:
    """The angle of (x, y) = (other, self): 2 atan(y / (r + x)), left of 0 2 atan((r - x) / y).

    At the origin it is that of the signs of both zeros.
    """
    y, x = (cast(operand(t, call.dtype), popxl.float32) for t in (self, other))
    zero, one = number(0, popxl.float32), number(1, popxl.float32)
    angle = _angle_of(*_of_unit_size(x, y), call.shape)
    at_origin = ops.logical_and(ops.equal(x, zero), ops.equal(y, zero))
    half_turn = ops.where(is_negative(x), number(math.pi, popxl.float32), zero)
    angle = ops.where(at_origin, _with_sign_of(half_turn, y), angle)
    if call.node.from_grad:
        squares = ops.add(ops.mul(x, x), ops.mul(y, y))
        # x dy - y dx over the squares; nothing at the origin.
        squares = ops.detach(ops.where(ops.equal(squares, zero), one, squares))
        turn = ops.sub(ops.mul(ops.detach(x), y), ops.mul(ops.detach(y), x))
        angle = with_gradient_of(angle, ops.div(turn, squares))
    return cast(angle, call.dtype)


@lowers("aten::sinc", "aten::special_sinc")
def sinc(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """`sin(pi x) / (pi x)`; at 0 it is 1, with a gradient of 0."""
    t = _times(cast(self, popxl.float32), math.pi)
    one = number(1, popxl.float32)
    is_zero = ops.equal(t, number(0, popxl.float32))
    safe = ops.where(is_zero, one, t)
    return cast(ops.where(is_zero, one, ops.div(ops.sin(safe), safe)), call.dtype)


@lowers("aten::hypot", "prims::hypot")
def hypot(call: Call, self: popxl.Tensor, other: popxl.Tensor) -> popxl.Tensor:
    """The length of (x, y), of parts that are scaled so that squares stay in range."""
    x, y = (cast(operand(t, call.dtype), popxl.float32) for t in (self, other))
    zero, one = number(0, popxl.float32), number(1, popxl.float32)
    scale = ops.detach(ops.maximum(ops.abs(x), ops.abs(y)))
    scale = ops.where(ops.logical_or(ops.equal(scale, zero), ops.isinf(scale)), one, scale)
    endless = ops.logical_or(ops.isinf(x), ops.isinf(y))
    x, y = ops.div(x, scale), ops.div(y, scale)
    length = ops.mul(ops.sqrt(ops.add(ops.mul(x, x), ops.mul(y, y))), scale)
    return cast(ops.where(endless, number(math.inf, popxl.float32), length), call.dtype)


@lowers("aten::copysign", "prims::copysign")
def copysign(call: Call, self: Operand, other: Operand) -> popxl.Tensor:
    """The magnitude of one number with the sign of another; zeros have signs."""
    size, sign = operand(self, call.dtype), ops.detach(operand(other, call.dtype))
    return _with_sign_of(ops.abs(size), sign)


@lowers("aten::maximum", "prims::maximum")
def maximum(call: Call, self: popxl.Tensor, other: popxl.Tensor) -> popxl.Tensor:
    """The larger element; NaN where one is."""
    return _extreme(call, self, other, lambda a, b: ops.greater(b, a), ops.maximum)


@lowers("aten::minimum", "prims::minimum")
def minimum(call: Call, self: popxl.Tensor, other: popxl.Tensor) -> popxl.Tensor:
    """The smaller element; NaN where one is."""
    return _extreme(call, self, other, ops.greater, None)


def _extreme(
    call: Call, self: Operand, other: Operand, second: Binary, kernel: Binary | None
) -> popxl.Tensor:
    left, right = operand(self, call.dtype), operand(other, call.dtype)
    if call.dtype == popxl.bool:
        wide = [cast(t, popxl.int32) for t in (left, right)]
        return cast(ops.where(second(*wide), wide[1], wide[0]), popxl.bool)
    if kernel is not None and not call.node.from_grad:
        return kernel(left, right)
    takes_right = second(left, right)
    if call.dtype.is_floating_point:
        takes_right = ops.logical_or(takes_right, ops.isnan(broadcast_to(right, call.shape)))
    chosen = ops.where(takes_right, right, left)
    if not call.node.from_grad:
        return chosen
    # Where both are equal, each gets half of the gradient.
    mean = _times(ops.add(left, right), 0.5)
    return ops.where(ops.equal(left, right), mean, chosen)


@lowers("aten::fmax", "prims::fmax", "aten::fmin", "prims::fmin")
def fmax(call: Call, self: popxl.Tensor, other: popxl.Tensor) -> popxl.Tensor:
    """The larger or smaller element; the other one where one is NaN."""
    left, right = operand(self, call.dtype), operand(other, call.dtype)
    largest = call.node.name.endswith("fmax")
    if not call.dtype.is_floating_point:
        return (maximum if largest else minimum)(call, self, other)
    takes_right = ops.greater(right, left) if largest else ops.greater(left, right)
    takes_right = ops.logical_or(takes_right, ops.isnan(broadcast_to(left, call.shape)))
    return ops.where(takes_right, right, left)


def truth(value: Operand) -> popxl.Tensor:
    """Whether elements are not zero.

    Args:
        value: A tensor, or a number.

    Returns:
        A tensor of booleans.
    """
    if not isinstance(value, popxl.Tensor):
        return number(bool(value), popxl.bool)
    return cast(value, popxl.bool)


def _not_equal(a: popxl.Tensor, b: popxl.Tensor) -> popxl.Tensor:
    return ops.logical_or(
        ops.logical_and(a, ops.logical_not(b)), ops.logical_and(b, ops.logical_not(a))
    )


_LOGIC: dict[str, Binary] = {
    "and": ops.logical_and,
    "or": ops.logical_or,
    "xor": _not_equal,
}


def _bits(t: popxl.Tensor) -> tuple[popxl.Tensor, list[popxl.Tensor]]:
    """The sign bit of integers and their other bits, the lowest first, as booleans."""
    width = t.dtype.as_numpy().itemsize * 8
    signed = t.dtype.is_signed
    wide = cast(t, popxl.int32)
    negative = ops.greater(number(0, popxl.int32), wide)
    count = width - 1 if signed else width
    lowest = -(2 ** (width - 1))
    rest = ops.where(negative, ops.sub(wide, number(lowest, popxl.int32)), wide)
    bits = []
    two = number(2, popxl.int32)
    for _ in range(count):
        half = ops.div(rest, two)
        bits.append(cast(ops.sub(rest, ops.mul(half, two)), popxl.bool))
        rest = half
    return negative, bits


def _integer_bitwise(
    a: popxl.Tensor, b: popxl.Tensor, combine: Binary, dtype: popxl.dtype
) -> popxl.Tensor:
    """A bitwise operation by the bits: the core has none."""
    (sign_a, bits_a), (sign_b, bits_b) = _bits(a), _bits(b)
    total = None
    for place, (x, y) in enumerate(zip(bits_a, bits_b, strict=True)):
        part = ops.mul(cast(combine(x, y), popxl.int32), number(1 << place, popxl.int32))
        total = part if total is None else ops.add(total, part)
    assert total is not None
    width = dtype.as_numpy().itemsize * 8
    if dtype.is_signed:
        lowest = number(-(2 ** (width - 1)), popxl.int32)
        total = ops.add(total, ops.mul(cast(combine(sign_a, sign_b), popxl.int32), lowest))
    return cast(total, dtype)


def _register_logic(name: str, combine: Binary) -> None:
    @lowers(f"aten::logical_{name}")
    def logical(call: Call, self: Operand, other: Operand) -> popxl.Tensor:
        return cast(combine(truth(self), truth(other)), call.dtype)

    @lowers(f"aten::bitwise_{name}", f"prims::bitwise_{name}", f"aten::__{name}__")
    def bitwise(call: Call, self: Operand, other: Operand) -> popxl.Tensor:
        if call.dtype == popxl.bool:
            return combine(truth(self), truth(other))
        left = broadcast_to(operand(self, call.dtype), call.shape)
        right = broadcast_to(operand(other, call.dtype), call.shape)
        return _integer_bitwise(left, right, combine, call.dtype)


for _logic, _combine in _LOGIC.items():
    _register_logic(_logic, _combine)


@lowers("aten::logical_not")
def logical_not(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """Whether elements are zero."""
    return cast(ops.logical_not(truth(self)), call.dtype)


@lowers("aten::bitwise_not", "prims::bitwise_not")
def bitwise_not(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """All bits inverted: -x - 1."""
    if call.dtype == popxl.bool:
        return ops.logical_not(self)
    if not call.dtype.is_signed:
        top = number(2 ** (8 * call.dtype.as_numpy().itemsize) - 1, popxl.int32)
        return cast(ops.sub(top, cast(self, popxl.int32)), call.dtype)
    return ops.sub(number(-1, call.dtype), self)


def _register_test(name: str, test: Unary) -> None:
    @lowers(f"aten::{name}")
    def lower(call: Call, self: popxl.Tensor) -> popxl.Tensor:
        if self.dtype.is_floating_point:
            return test(self)
        always = number(name == "isfinite", popxl.bool)
        return broadcast_to(always, call.shape)


def _infinite(sign: int) -> Unary:
    def test(t: popxl.Tensor) -> popxl.Tensor:
        zero = number(0, t.dtype)
        side = ops.greater(t, zero) if sign > 0 else ops.greater(zero, t)
        return ops.logical_and(ops.isinf(t), side)

    return test


for _name, _function in {
    "isnan": ops.isnan,
    "isinf": ops.isinf,
    "isfinite": ops.isfinite,
    "isposinf": _infinite(1),
    "isneginf": _infinite(-1),
}.items():
    _register_test(_name, _function)


@lowers("aten::angle")
def angle(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """Pi where numbers are negative, else 0; NaN stays."""
    x = cast(self, call.dtype)
    zero, half_turn = (number(value, call.dtype) for value in (0, math.pi))
    turned = ops.where(ops.greater(zero, x), half_turn, zero)
    return ops.where(ops.isnan(x), x, turned)


@lowers("aten::signbit", "prims::signbit")
def signbit(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """Whether elements are negative."""
    del call
    if self.dtype == popxl.bool or not self.dtype.is_signed:
        return broadcast_to(number(False, popxl.bool), self.shape)
    return is_negative(self)


@lowers("prims::eq", "prims::ne", "prims::gt", "prims::lt", "prims::ge", "prims::le")
def compare(call: Call, self: popxl.Tensor, other: popxl.Tensor) -> popxl.Tensor:
    """Comparisons that torch's decompositions end in."""
    dtype = common_dtype(self, other)
    a, b = operand(self, dtype), operand(other, dtype)
    kind = call.node.name.rpartition(":")[2]
    tests: dict[str, Callable[[], popxl.Tensor]] = {
        "eq": lambda: ops.equal(a, b),
        "ne": lambda: ops.logical_not(ops.equal(a, b)),
        "gt": lambda: ops.greater(a, b),
        "lt": lambda: ops.greater(b, a),
        "ge": lambda: ops.logical_or(ops.greater(a, b), ops.equal(a, b)),
        "le": lambda: ops.logical_or(ops.greater(b, a), ops.equal(a, b)),
    }
    return tests[kind]()
