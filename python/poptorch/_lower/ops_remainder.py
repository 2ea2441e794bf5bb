"""Quotients that are rounded to whole numbers, and what they leave over."""

from __future__ import annotations

import popxl
from poptorch._lower.lowering import Call
from poptorch._lower.ops_pointwise import (
    Operand,
    differ_in_sign,
    floored_quotient,
    number,
    operand,
)
from poptorch._lower.registry import lowers
from popxl import ops


def _divisor_has_gradient(call: Call) -> bool:
    return bool(getattr(call.argument("other"), "requires_grad", False))


def _with_gradient_of_divisor(
    rest: popxl.Tensor, quotient: popxl.Tensor, right: popxl.Tensor
) -> popxl.Tensor:
    """A remainder as it is, whose gradient for the divisor is the negated quotient."""
    # The quotient of an infinite divisor is 0, and their product would be NaN.
    right = ops.where(ops.isinf(right), number(0, right.dtype), right)
    taken = ops.mul(quotient, right)
    return ops.add(rest, ops.sub(ops.detach(taken), taken))


@lowers("aten::fmod", "prims::fmod")
def fmod(call: Call, self: Operand, other: Operand) -> popxl.Tensor:
    """The remainder with the sign of the dividend."""
    left, right = operand(self, call.dtype), operand(other, call.dtype)
    rest = ops.fmod(left, right)
    if not _divisor_has_gradient(call):
        return rest
    size = floored_quotient(ops.abs(left), ops.abs(right))
    signs = ops.detach(ops.mul(ops.sign(left), ops.sign(right)))
    endless = ops.detach(ops.div(left, right))
    quotient = ops.where(ops.isinf(size), endless, ops.mul(size, signs))
    return _with_gradient_of_divisor(rest, quotient, right)


@lowers("aten::remainder", "prims::remainder")
def remainder(call: Call, self: Operand, other: Operand) -> popxl.Tensor:
    """The remainder with the sign of the divisor."""
    left, right = operand(self, call.dtype), operand(other, call.dtype)
    rest = ops.fmod(left, right)
    rest = ops.where(differ_in_sign(rest, right), ops.add(rest, ops.detach(right)), rest)
    if not _divisor_has_gradient(call):
        return rest
    return _with_gradient_of_divisor(rest, floored_quotient(left, right), right)


@lowers("aten::floor_divide")
def floor_divide(call: Call, self: Operand, other: Operand) -> popxl.Tensor:
    """The quotient, rounded down."""
    return floored_quotient(operand(self, call.dtype), operand(other, call.dtype))
