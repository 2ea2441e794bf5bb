"""Comparisons, logic and selection."""

from __future__ import annotations

from popxl import dtypes
from popxl.ops.utils import cast_if_needed, check_inputs, make
from popxl.tensor import Tensor


def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """bool: lhs == rhs."""
    check_inputs(lhs=lhs, rhs=rhs)
    return make("Equal", [lhs, rhs], name="equal_out", settings="equal")


def greater(input: Tensor, other: Tensor) -> Tensor:
    """bool: input > other."""
    check_inputs(input=input, other=other)
    return make("Greater", [input, other], name="greater_out", settings="greater")


def _logical(kind: str, lhs: Tensor, rhs: Tensor, name: str) -> Tensor:
    check_inputs(lhs=lhs, rhs=rhs)
    operands = [cast_if_needed(lhs, dtypes.bool), cast_if_needed(rhs, dtypes.bool)]
    return make(kind, operands, name=f"{name}_out", settings=name)


def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """bool: both are nonzero."""
    return _logical("And", lhs, rhs, "and")


def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """bool: one or both are nonzero."""
    return _logical("Or", lhs, rhs, "or")


def logical_not(t: Tensor) -> Tensor:
    """bool: the element is zero."""
    check_inputs(t=t)
    return make("Not", [cast_if_needed(t, dtypes.bool)], name="not_out", settings="logical_not")


def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """`lhs` where the condition is nonzero, else `rhs`."""
    check_inputs(condition=condition, lhs=lhs, rhs=rhs)
    inputs = [cast_if_needed(condition, dtypes.bool), lhs, rhs]
    return make("Where", inputs, name="where_out", settings="where")
