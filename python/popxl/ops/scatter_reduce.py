"""Reductions of elements that go to one position."""

from __future__ import annotations

from typing import Literal, get_args

from popxl.ops.utils import check_inputs, handle_negative_axis, make
from popxl.tensor import Tensor

ScatterReductionType = Literal["sum", "max", "min", "none"]


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
    """`scatter_reduce` for every group; with group_size > 1 groups are axis 0."""
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
    """Reduces data[p] into position p whose coordinate `axis` is indices[p].

    Untouched positions hold the initial values, or 0 without. `none` overwrites.
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
