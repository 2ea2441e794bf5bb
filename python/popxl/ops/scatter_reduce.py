"""Reductions of elements that go to one position."""

from __future__ import annotations

from typing import Literal, get_args

from popxl.context import create_op
from popxl.ops.utils import check_inputs, handle_negative_axis, make, outputs_of
from popxl.tensor_base import Tensor

ScatterReductionType = Literal["sum", "max", "min", "none", "prod"]


def grouped_scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: ScatterReductionType,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    group_size: int = 1,
    enable_index_broadcast: bool = True,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Reduce elements as `scatter_reduce` does, in every group (axis 0 of all tensors) on its own.

    Args:
        data: What is reduced; any dtype but float8.
        indices: Integers: positions along `axis`, in the shape of `data` or as one vector a group.
        reduction: `sum`, `prod`, `max`, `min` or `none`, which overwrites.
        initial_values: What is reduced into, of the dtype of `data` and its shape but for `axis`.
        axis: The axis of `data`, counted with that of groups; a negative one counts from the end.
        axis_size: The size of the result along `axis`; wanted only without `initial_values`.
        group_size: The number of groups; with 1 there is no axis of groups.
        enable_index_broadcast: Whether a vector of indices holds for whole slices of `data`.
        available_memory_proportion: Has no effect: a setting of other devices.

    Returns:
        A new tensor with the dtype of `data` and the shape of `initial_values`, or else that of
        `data` with `axis_size` along `axis`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the reduction is unknown, or neither `initial_values` nor `axis_size` is
            given.
        popart_exception: Shapes do not fit, or the axis is out of range or that of the groups;
            dtypes do not fit, found when a session is made.
    """
    check_inputs(data=data, indices=indices)
    if reduction not in get_args(ScatterReductionType):
        raise ValueError(
            f"Not a valid scatter reduction type: {reduction}. Must choose from: "
            f"{', '.join(get_args(ScatterReductionType))}"
        )
    attributes: dict[str, object] = {
        "reduction": reduction,
        "axis": handle_negative_axis(data, axis),
        "group_size": int(group_size),
        "index_broadcast": bool(enable_index_broadcast),
    }
    inputs = [data, indices]
    if initial_values is not None:
        check_inputs(data=data, indices=indices, initial_values=initial_values)
        inputs.append(initial_values)
    elif axis_size is None:
        raise ValueError("scatter_reduce: give initial_values or axis_size")
    else:
        attributes["axis_size"] = int(axis_size)
    return make(
        "ScatterReduce", inputs, attributes, name="scatterreduce_out", settings="scatter_reduce"
    )


def scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: ScatterReductionType,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    enable_index_broadcast: bool = True,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Reduce the elements of `data` that go to one position.

    The element data[p] goes to position p with coordinate `axis` replaced by indices[p]. Positions
    that none goes to hold the initial values, or 0 without. With `none` the last element written
    stays, and which one that is, is unspecified.

    Args:
        data: What is reduced; any dtype but float8.
        indices: Integers: positions along `axis`, in the shape of `data` or as a vector along
            `axis`.
        reduction: `sum`, `prod`, `max`, `min` or `none`, which overwrites.
        initial_values: What is reduced into, of the dtype of `data` and its shape but for `axis`.
        axis: The axis; a negative one counts from the end.
        axis_size: The size of the result along `axis`; wanted only without `initial_values`.
        enable_index_broadcast: Whether a vector of indices holds for whole slices of `data`. If
            not, the indices have the rank of `data`, may be smaller, and stand for single elements.
        available_memory_proportion: Has no effect: a setting of other devices.

    Returns:
        A new tensor with the dtype of `data` and the shape of `initial_values`, or else that of
        `data` with `axis_size` along `axis`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the reduction is unknown, or neither `initial_values` nor `axis_size` is
            given.
        popart_exception: Shapes do not fit, or the axis is out of range; dtypes do not fit, found
            when a session is made.
    """
    return grouped_scatter_reduce(
        data,
        indices,
        reduction,
        initial_values,
        axis,
        axis_size,
        1,
        enable_index_broadcast,
        available_memory_proportion,
    )


def _scatter_extreme(
    reduction: str,
    data: Tensor,
    indices: Tensor,
    initial_values: Tensor | None,
    axis: int,
    axis_size: int | None,
    enable_index_broadcast: bool,
) -> tuple[Tensor, Tensor]:
    check_inputs(data=data, indices=indices)
    attributes: dict[str, object] = {
        "reduction": reduction,
        "axis": handle_negative_axis(data, axis),
        "index_broadcast": bool(enable_index_broadcast),
    }
    inputs = [data, indices]
    name = f"scatter_{reduction}"
    if initial_values is not None:
        check_inputs(data=data, indices=indices, initial_values=initial_values)
        inputs.append(initial_values)
    elif axis_size is None:
        raise ValueError(f"{name}: give initial_values or axis_size")
    else:
        attributes["axis_size"] = int(axis_size)
    op = create_op(
        "ScatterArgReduce",
        inputs,
        attributes,
        names=(f"{name}_out", f"{name}_positions"),
        settings_name=name,
    )
    values, positions = outputs_of(op)
    return values, positions


def scatter_max(
    data: Tensor,
    indices: Tensor,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    enable_index_broadcast: bool = True,
) -> tuple[Tensor, Tensor]:
    """Find the largest element that goes to each position, and where it comes from.

    The values are those of `scatter_reduce` with `max`; of equal elements the first one counts,
    and an initial value before them. NaN counts as the largest. The gradient of a value goes to the
    one element that it is, while `scatter_reduce` gives it to all equal ones.

    Args:
        data: What is reduced; any dtype but float8.
        indices: Integers: positions along `axis`, in the shape of `data` or as a vector along
            `axis`. Those out of range are skipped.
        initial_values: What is reduced into, of the dtype of `data` and its shape but for `axis`.
        axis: The axis; a negative one counts from the end.
        axis_size: The size of the result along `axis`; wanted only without `initial_values`.
        enable_index_broadcast: Whether a vector of indices holds for whole slices of `data`. If
            not, the indices have the rank of `data`, may be smaller, and stand for single elements.

    Returns:
        The values, with the dtype of `data` and the shape of `initial_values`, or else that of
        `data` with `axis_size` along `axis`; and their positions along `axis` of `data`, int32 of
        the same shape: `data.shape[axis]` where no element came, which leaves 0 without initial
        values, or where the initial value is the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; neither `initial_values` nor `axis_size` is given.
        popart_exception: Shapes do not fit, or the axis is out of range; dtypes do not fit, found
            when a session is made.
    """
    return _scatter_extreme(
        "max", data, indices, initial_values, axis, axis_size, enable_index_broadcast
    )


def scatter_min(
    data: Tensor,
    indices: Tensor,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    enable_index_broadcast: bool = True,
) -> tuple[Tensor, Tensor]:
    """Find the smallest element that goes to each position, and where it comes from.

    The values are those of `scatter_reduce` with `min`; of equal elements the first one counts,
    and an initial value before them. NaN counts as the smallest. The gradient of a value goes to
    the one element that it is, while `scatter_reduce` gives it to all equal ones.

    Args:
        data: What is reduced; any dtype but float8.
        indices: Integers: positions along `axis`, in the shape of `data` or as a vector along
            `axis`. Those out of range are skipped.
        initial_values: What is reduced into, of the dtype of `data` and its shape but for `axis`.
        axis: The axis; a negative one counts from the end.
        axis_size: The size of the result along `axis`; wanted only without `initial_values`.
        enable_index_broadcast: Whether a vector of indices holds for whole slices of `data`. If
            not, the indices have the rank of `data`, may be smaller, and stand for single elements.

    Returns:
        The values, with the dtype of `data` and the shape of `initial_values`, or else that of
        `data` with `axis_size` along `axis`; and their positions along `axis` of `data`, int32 of
        the same shape: `data.shape[axis]` where no element came, which leaves 0 without initial
        values, or where the initial value is the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; neither `initial_values` nor `axis_size` is given.
        popart_exception: Shapes do not fit, or the axis is out of range; dtypes do not fit, found
            when a session is made.
    """
    return _scatter_extreme(
        "min", data, indices, initial_values, axis, axis_size, enable_index_broadcast
    )
