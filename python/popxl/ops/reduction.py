"""Reductions over axes: an int, several, or None for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from popart import popart_exception
from popxl.context import create_op
from popxl.ops.utils import check_inputs, make, outputs_of
from popxl.tensor_base import Tensor

Axes = int | Iterable[int] | None


def _axes(t: Tensor, axis: Axes, name: str) -> list[int]:
    """Sorted axes, counted from the first."""
    if axis is None:
        return list(range(t.rank))
    axes = [axis] if isinstance(axis, int) else list(axis)
    for a in axes:
        if not -t.rank <= a < t.rank:
            raise popart_exception(
                f"{name}: axis {a} is out of range for {t!r}: wanted -{t.rank} to {t.rank - 1}"
            )
    return sorted({int(a) % t.rank for a in axes})


def _reduce(kind: str, t: Tensor, axis: Axes, keepdims: bool, name: str, settings: str) -> Tensor:
    check_inputs(t=t)
    attributes: dict[str, object] = {"axes": _axes(t, axis, name), "keepdims": bool(keepdims)}
    return make(kind, [t], attributes, name=f"{name}_out", settings=settings)


def sum(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Sum the elements along axes.

    Args:
        t: The operand; any dtype but bool and float8.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    return _reduce("ReduceSum", t, axis, keepdims, "sum", "ReduceSum")


def mean(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Compute the arithmetic mean along axes. Integers are truncated toward zero.

    Elements of float16 are summed and divided in float32, integers of less than 32 bits in int32.

    Args:
        t: The operand; any dtype but bool and float8.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    return _reduce("ReduceMean", t, axis, keepdims, "mean", "ReduceMean")


def max(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Find the maximum along axes. Each element that equals it gets the full gradient.

    Args:
        t: The operand; any dtype but bool and float8.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    return _reduce("ReduceMax", t, axis, keepdims, "max", "ReduceMax")


def min(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Find the minimum along axes. Each element that equals it gets the full gradient.

    Args:
        t: The operand; any dtype but bool and float8.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    return _reduce("ReduceMin", t, axis, keepdims, "min", "ReduceMin")


def prod(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Multiply the elements along axes.

    Args:
        t: The operand; any dtype but bool and float8.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    # The name of these ops in profiles lacks a letter.
    return _reduce("ReduceProd", t, axis, keepdims, "prod", "ReducProd")


def l1(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Sum the magnitudes |t| along axes.

    Args:
        t: The operand; any dtype but bool and float8.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    return _reduce("ReduceL1", t, axis, keepdims, "l1", "ReduceL1")


def l2(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Compute the square root of the sum of t^2 along axes. Where it is 0 the gradient is NaN.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    return _reduce("ReduceL2", t, axis, keepdims, "l2", "ReduceL2")


def sumsquare(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Compute the sum of t^2 along axes.

    Args:
        t: The operand; any dtype but bool and float8.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    return _reduce("ReduceSumSquare", t, axis, keepdims, "sumsquare", "ReduceSumSquare")


def logsum(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Compute the natural logarithm of the sum along axes.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    return _reduce("ReduceLogSum", t, axis, keepdims, "logsum", "ReduceLogSum")


def logsumexp(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Compute ln(sum(e^t)) along axes, as m + ln(sum(e^(t - m))) with the maximum m.

    Where all elements are -inf, or one is inf, that is the result. Elements of float16 are summed
    in float32.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range.
    """
    return _reduce("ReduceLogSumExp", t, axis, keepdims, "logsumexp", "ReduceLogSumExp")


def median(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Find the lower median along axes: element (n - 1) // 2 of n in ascending order.

    The element that was chosen gets the gradient.

    Args:
        t: The operand; any dtype but float8. Several axes are taken together.
        axis: The axis or axes to reduce; negative ones count from the end. None: all axes; an empty
            list: none.
        keepdims: Whether the reduced axes stay, with size 1.

    Returns:
        A new tensor with the dtype of `t` and without the reduced axes, or with size 1 there.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: An axis is out of range, or there are no elements along the axes.
    """
    check_inputs(t=t)
    op = create_op(
        "ReduceMedian",
        [t],
        {"axes": _axes(t, axis, "median"), "keepdims": bool(keepdims)},
        names=["median_out", "median_indices_out"],
        settings_name="ReduceMedian",
    )
    return outputs_of(op)[0]
