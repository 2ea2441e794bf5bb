"""Comparisons, logic and selection."""

from __future__ import annotations

from popxl import dtypes
from popxl.ops.utils import cast_if_needed, check_inputs, make
from popxl.tensor_base import Tensor


def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Tell where lhs == rhs. There is no gradient.

    Args:
        lhs: The first operand; any dtype but float8.
        rhs: The second operand, of the dtype of `lhs`. Shapes broadcast as in NumPy.

    Returns:
        A new bool tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes do not broadcast; the dtypes differ, found when a session is
            made.
    """
    check_inputs(lhs=lhs, rhs=rhs)
    return make("Equal", [lhs, rhs], name="equal_out", settings="equal")


def greater(input: Tensor, other: Tensor) -> Tensor:
    """Tell where input > other. There is no gradient.

    Args:
        input: The first operand; any dtype but float8.
        other: The second operand, of the dtype of `input`. Shapes broadcast as in NumPy.

    Returns:
        A new bool tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes do not broadcast; the dtypes differ, found when a session is
            made.
    """
    check_inputs(input=input, other=other)
    return make("Greater", [input, other], name="greater_out", settings="greater")


def _logical(kind: str, lhs: Tensor, rhs: Tensor, name: str) -> Tensor:
    check_inputs(lhs=lhs, rhs=rhs)
    operands = [cast_if_needed(lhs, dtypes.bool), cast_if_needed(rhs, dtypes.bool)]
    return make(kind, operands, name=f"{name}_out", settings=name)


def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Tell where both operands are nonzero. There is no gradient.

    Args:
        lhs: The first operand, of any dtype; it is cast to bool.
        rhs: The second operand, of any dtype; it is cast to bool. Shapes broadcast as in NumPy.

    Returns:
        A new bool tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes do not broadcast.
    """
    return _logical("And", lhs, rhs, "and")


def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Tell where at least one operand is nonzero. There is no gradient.

    Args:
        lhs: The first operand, of any dtype; it is cast to bool.
        rhs: The second operand, of any dtype; it is cast to bool. Shapes broadcast as in NumPy.

    Returns:
        A new bool tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes do not broadcast.
    """
    return _logical("Or", lhs, rhs, "or")


def logical_not(t: Tensor) -> Tensor:
    """Tell where the operand is zero. There is no gradient.

    Args:
        t: The operand, of any dtype; it is cast to bool.

    Returns:
        A new bool tensor with the shape of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    check_inputs(t=t)
    return make("Not", [cast_if_needed(t, dtypes.bool)], name="not_out", settings="logical_not")


def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Choose `lhs` where the condition is nonzero, else `rhs`.

    Args:
        condition: What decides, of any dtype; it is cast to bool.
        lhs: The values where the condition is nonzero; any dtype but float8.
        rhs: The values elsewhere, of the dtype of `lhs`. All three shapes broadcast as in NumPy.

    Returns:
        A new tensor of the broadcast shape and the dtype of `lhs`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The dtypes of `lhs` and `rhs` differ, or the shapes do not broadcast.
    """
    check_inputs(condition=condition, lhs=lhs, rhs=rhs)
    inputs = [cast_if_needed(condition, dtypes.bool), lhs, rhs]
    return make("Where", inputs, name="where_out", settings="where")
