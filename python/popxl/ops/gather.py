"""Reads and writes at indices given by tensors. Memory proportions have no effect."""

from __future__ import annotations

from popart import popart_exception
from popxl.ops.utils import check_inputs, handle_negative_axis, make
from popxl.tensor_base import Constant, Tensor


def _gather(
    kind: str, t: Tensor, indices: Tensor, attributes: dict[str, object], names: tuple[str, str]
) -> Tensor:
    out, settings = names
    return make(kind, [t, indices], attributes, name=out, settings=settings)


def gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,
) -> Tensor:
    """Take the slices of a tensor at indices along an axis, as `numpy.take` does.

    Indices that repeat add up in the gradient of `t`; indices have no gradient.

    Args:
        t: The tensor that is read, of any dtype.
        indices: Positions along `axis`, of any integer dtype and shape. They are read as unsigned
            numbers, so negative ones are out of range.
        axis: The axis; a negative one counts from the end.
        available_memory_proportion: Has no effect: a setting of other devices.
        zero_OOR: Whether indices out of range give zeros; their values are unspecified otherwise.

    Returns:
        A new tensor of shape `t.shape[:axis] + indices.shape + t.shape[axis + 1:]`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The axis is out of range; the indices are not integers, found when a
            session is made.
    """
    check_inputs(t=t, indices=indices)
    attributes: dict[str, object] = {
        "axis": handle_negative_axis(t, axis),
        "zero_oor": bool(zero_OOR),
    }
    return _gather("Gather", t, indices, attributes, ("gather_out", "gather"))


def groupedgather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    group_size: int = 1,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,
) -> Tensor:
    """Take slices as `gather` does, in every group on its own.

    With a `group_size` above 1, axis 0 of both tensors counts the groups, and group b of the result
    is `gather(t[b], indices[b], axis - 1)`. With 1 it is `gather`.

    Args:
        t: The tensor that is read, of any dtype.
        indices: Positions along `axis`, of any integer dtype; read as unsigned numbers.
        axis: The axis of `t`, counted with the axis of groups; a negative one counts from the end.
        group_size: The number of groups.
        available_memory_proportion: Has no effect: a setting of other devices.
        zero_OOR: Whether indices out of range give zeros; their values are unspecified otherwise.

    Returns:
        A new tensor; for several groups of shape `t.shape[:axis] + indices.shape[1:] + t.shape[axis
        + 1:]`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The axis is out of range or that of the groups, or axis 0 of a tensor does
            not have the size `group_size`; the indices are not integers, found when a session is
            made.
    """
    check_inputs(t=t, indices=indices)
    attributes: dict[str, object] = {
        "axis": handle_negative_axis(t, axis),
        "group_size": int(group_size),
        "zero_oor": bool(zero_OOR),
    }
    return _gather("Gather", t, indices, attributes, ("gather_out", "groupedgather"))


def tied_gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,
) -> Tensor:
    """Take slices as `gather` does, of a table that a matrix product uses too.

    The values are those of `gather`.

    Args:
        t: The tensor that is read, of any dtype.
        indices: Positions along `axis`, of any integer dtype and shape; read as unsigned numbers.
        axis: The axis; a negative one counts from the end.
        available_memory_proportion: Has no effect: a setting of other devices.
        zero_OOR: Whether indices out of range give zeros; their values are unspecified otherwise.

    Returns:
        A new tensor of shape `t.shape[:axis] + indices.shape + t.shape[axis + 1:]`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The axis is out of range; the indices are not integers, found when a
            session is made.
    """
    check_inputs(t=t, indices=indices)
    attributes: dict[str, object] = {
        "axis": handle_negative_axis(t, axis),
        "zero_oor": bool(zero_OOR),
    }
    names = ("tiedgather_out", "tied_gather")
    return _gather("TiedGather", t, indices, attributes, names)


def scatter(
    t: Tensor,
    indices: Tensor,
    values: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Copy a tensor with some elements replaced.

    For each position p of the indices, the element at p with coordinate `axis` replaced by
    indices[p] becomes values[p]. Indices out of range are skipped; which of several values stays is
    unspecified.

    Args:
        t: The tensor that is copied, of any dtype.
        indices: Integers that are not negative, of the rank of `t` and nowhere larger but along
            `axis`.
        values: The new elements, of the shape of `indices` and the dtype of `t`.
        axis: The axis; a negative one counts from the end.
        available_memory_proportion: Has no effect: a setting of other devices.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: Shapes do not fit, or the axis is out of range; dtypes do not fit, found
            when a session is made.
    """
    check_inputs(t=t, indices=indices, values=values)
    attributes: dict[str, object] = {"axis": handle_negative_axis(t, axis)}
    inputs = [t, indices, values]
    return make("Scatter", inputs, attributes, name="scatter_out", settings="scatter")


def onehot(t: Tensor, num_classes: Tensor, values: Tensor, axis: int) -> Tensor:
    """Write `values[1]` at the class of each element and `values[0]` at the other classes.

    An element outside of 0 to num_classes - 1 gets no `values[1]`. Only `values` has a gradient.

    Args:
        t: The class of each element; any integer dtype.
        num_classes: The number of classes: a constant of one element.
        values: The values off and on: a tensor of shape (2,), whose dtype the result has.
        axis: Where the new axis of classes goes, from 0 to the rank of `t`; -1: to the end.

    Returns:
        A new tensor of the rank of `t` plus 1.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: `num_classes` is no constant of one element, a shape does not fit, or the
            axis is out of range; a dtype does not fit, found when a session is made.
    """
    check_inputs(t=t, num_classes=num_classes, values=values)
    if not isinstance(num_classes, Constant) or num_classes.nelms != 1:
        raise popart_exception(
            f"onehot: num_classes {num_classes!r} does not have data: wanted a constant of one "
            "element"
        )
    attributes: dict[str, object] = {
        "num_classes": int(num_classes._pb.data.reshape(-1)[0]),
        "axis": int(axis),
    }
    return make("OneHot", [t, values], attributes, name="onehot_out", settings="onehot")
