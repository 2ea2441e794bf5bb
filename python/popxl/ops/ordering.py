"""Ops about the order of elements, scans and counts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from popxl import dtypes
from popxl.constants import constant
from popxl.context import create_op
from popxl.ops.utils import check_inputs, handle_negative_axis, make, outputs_of
from popxl.tensor_base import Tensor


def _arg(kind: str, t: Tensor, dim: int, keepdim: bool, name: str) -> Tensor:
    check_inputs(t=t)
    if not isinstance(dim, int):
        raise TypeError(f"{name}: wanted an int for dim; given {dim!r}")
    attributes: dict[str, object] = {
        "axis": handle_negative_axis(t, dim),
        "keepdims": bool(keepdim),
    }
    return make(kind, [t], attributes, name=f"{name}_out", settings=name)


def argmax(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Find the index of the largest element along an axis, the lowest among equals.

    There is no gradient.

    Args:
        t: The operand; any dtype but float8.
        dim: The axis; a negative one counts from the end.
        keepdim: Whether the axis stays, with size 1.

    Returns:
        A new int32 tensor without the axis, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor; `dim` is not an int.
        ValueError: `t` is not in the current graph.
        popart_exception: The axis is out of range.
    """
    return _arg("ArgMax", t, dim, keepdim, "argmax")


def argmin(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Find the index of the smallest element along an axis, the lowest among equals.

    There is no gradient.

    Args:
        t: The operand; any dtype but float8.
        dim: The axis; a negative one counts from the end.
        keepdim: Whether the axis stays, with size 1.

    Returns:
        A new int32 tensor without the axis, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor; `dim` is not an int.
        ValueError: `t` is not in the current graph.
        popart_exception: The axis is out of range.
    """
    return _arg("ArgMin", t, dim, keepdim, "argmin")


def topk(
    t: Tensor,
    k: int,
    axis: int,
    largest: bool,
    sorted: bool,
    available_memory_proportion: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Find the k largest or smallest elements along an axis, the lowest index first among equals.

    Only the values have a gradient.

    Args:
        t: The operand; any dtype but float8.
        k: How many, from 1 to the size of the axis.
        axis: The axis, not negative.
        largest: Whether the largest are wanted, else the smallest.
        sorted: Whether they are in order, the most extreme first.
        available_memory_proportion: Has no effect: a setting of other devices.

    Returns:
        The values, with the dtype of `t`, and their int32 indices; the size along the axis is k.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: The axis or k is out of range.
    """
    check_inputs(t=t)
    attributes: dict[str, object] = {
        "axis": int(axis),
        "k": int(k),
        "largest": bool(largest),
        "sorted": bool(sorted),
    }
    names = ["topk_out_value", "topk_out_indices"]
    op = create_op("TopK", [t], attributes, names=names, settings_name="topk")
    values, indices = outputs_of(op)
    return values, indices


def sort(t: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Sort the elements along an axis; equal ones keep their order, NaN counts as the largest.

    Only the values have a gradient.

    Args:
        t: The operand; any dtype but float8.
        dim: The axis; a negative one counts from the end.
        descending: Whether the largest element comes first.

    Returns:
        The values, with the dtype of `t`, and the int32 indices that they had; both with its shape.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: The axis is out of range.
    """
    check_inputs(t=t)
    attributes: dict[str, object] = {
        "axis": handle_negative_axis(t, int(dim)),
        "descending": bool(descending),
    }
    names = ["sort_out_value", "sort_out_indices"]
    op = create_op("Sort", [t], attributes, names=names, settings_name="sort")
    values, indices = outputs_of(op)
    return values, indices


def argsort(t: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """Find the indices that sort the elements along an axis, as `sort` does. No gradient.

    Args:
        t: The operand; any dtype but float8.
        dim: The axis; a negative one counts from the end.
        descending: Whether the largest element comes first.

    Returns:
        A new int32 tensor with the shape of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: The axis is out of range.
    """
    return sort(t, dim, descending)[1]


def bucketize(t: Tensor, boundaries: Tensor, right: bool = False) -> Tensor:
    """Find between which boundaries each element lies. There is no gradient.

    Args:
        t: The operand; any dtype but float8. NaN comes after all boundaries.
        boundaries: The limits b, a vector in ascending order with the dtype of `t`. If they are in
            another order, each result is some number from 0 to their number.
        right: Whether an element that equals a limit lies after it.

    Returns:
        A new int32 tensor with the shape of `t`: i where b[i - 1] < t <= b[i], or where
        b[i - 1] <= t < b[i] with `right`.

    Raises:
        TypeError: An argument is not a tensor.
        ValueError: An argument is not in the current graph.
        popart_exception: `boundaries` has another rank or dtype.
    """
    check_inputs(t=t, boundaries=boundaries)
    attributes: dict[str, object] = {"right": bool(right)}
    return make(
        "Bucketize", [t, boundaries], attributes, name="bucketize_out", settings="bucketize"
    )


def cumprod(t: Tensor, dim: int = 0, reverse: bool = False) -> Tensor:
    """Compute the running product along an axis; each element is included in its own product.

    The gradient is right where elements are 0.

    Args:
        t: The operand; any dtype but float8 and bool. Integers wrap.
        dim: The axis; a negative one counts from the end.
        reverse: Whether the product runs from the last element to the first.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: The axis is out of range.
    """
    check_inputs(t=t)
    attributes: dict[str, object] = {
        "axis": handle_negative_axis(t, int(dim)),
        "reverse": bool(reverse),
    }
    return make("CumProd", [t], attributes, name="cumprod_out", settings="cumprod")


def cumsum(t: Tensor, dim: int = 0) -> Tensor:
    """Compute the running sum along an axis; each element is included in its own sum.

    Args:
        t: The operand; any dtype but float8.
        dim: The axis; a negative one counts from the end.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: The axis is out of range, found when a session is made.
    """
    check_inputs(t=t)
    dimension = constant(dim, dtypes.int64, "dim", downcast=False)
    return make("CumSum", [t, dimension], name="cumsum_out", settings="cumsum")


def histogram(t: Tensor, levels: Iterable[float], absolute_of_input: bool) -> Tensor:
    """Count the elements between levels. There is no gradient.

    Args:
        t: The operand; float16, bfloat16 or float32.
        levels: The limits l, strictly increasing; at least one.
        absolute_of_input: Whether |t| is counted instead of t.

    Returns:
        A new uint32 tensor with one more element than there are levels: the counts of t < l[0], of
        l[i - 1] <= t < l[i] for each i, and of t >= l[-1].

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; there are no levels, or they do not increase.
        popart_exception: The dtype is another one, found when a session is made.
    """
    check_inputs(t=t)
    bounds = [float(level) for level in levels]
    if any(upper <= lower for lower, upper in pairwise(bounds)):
        raise ValueError(f"histogram: wanted strictly increasing levels; given {bounds}")
    attributes: dict[str, object] = {
        "levels": bounds,
        "absolute_of_input": bool(absolute_of_input),
    }
    return make("Histogram", [t], attributes, name="histogram_out", settings="histogram")
