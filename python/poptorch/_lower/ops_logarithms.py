"""Lowerings of functions that are made of logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_pointwise import Operand, number, operand
from poptorch._lower.registry import lowers
from popxl import ops


def _times_logarithm(
    call: Call,
    self: Operand,
    other: Operand,
    logarithm: Callable[[popxl.Tensor], popxl.Tensor],
    least: float,
) -> popxl.Tensor:
    """`self` times a logarithm that begins at `least`: 0 where `self` is 0, NaN where `other` is.

    There `other` has no gradient, and that of `self` is the logarithm, or 0 where that is infinite.
    """
    left, right = (cast(operand(t, call.dtype), popxl.float32) for t in (self, other))
    is_finite = ops.logical_and(
        ops.greater(right, number(least, popxl.float32)),
        ops.greater(number(math.inf, popxl.float32), right),
    )
    is_zero = ops.equal(left, number(0, popxl.float32))
    is_taken = ops.logical_or(is_finite, ops.isnan(right))
    keeps = ops.logical_and(is_zero, ops.logical_not(is_taken))
    safe = ops.where(keeps, number(least + 1, popxl.float32), right)
    return cast(ops.mul(left, logarithm(safe)), call.dtype)


@lowers("aten::xlogy", "aten::special_xlogy")
def xlogy(call: Call, self: Operand, other: Operand) -> popxl.Tensor:
    """`self * log(other)`."""
    return _times_logarithm(call, self, other, ops.log, 0)


@lowers("aten::special_xlog1py")
def xlog1py(call: Call, self: Operand, other: Operand) -> popxl.Tensor:
    """`self * log(1 + other)`."""
    return _times_logarithm(call, self, other, ops.log1p, -1)


@lowers("aten::logit", "aten::special_logit")
def logit(call: Call, self: popxl.Tensor, eps: float | None = None) -> popxl.Tensor:
    """`log(x / (1 - x))`, of numbers moved to `[eps, 1 - eps]`, outside of which is no gradient."""
    t = cast(self, popxl.float32)
    if eps is not None:
        t = ops.clip(t, eps, 1 - eps)
    return cast(ops.sub(ops.log(t), ops.log1p(ops.negate(t))), call.dtype)
