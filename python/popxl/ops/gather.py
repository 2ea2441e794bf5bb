"""Reads and writes at indices given by tensors. Memory proportions have no effect."""

from __future__ import annotations

from popart import popart_exception
from popxl.ops.utils import check_inputs, handle_negative_axis, make
from popxl.tensor import Constant, Tensor


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
    """The slices of `t` along `axis` at the indices; zeros out of range with `zero_OOR`."""
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
    """`gather` for every group; with group_size > 1 groups are axis 0 of both tensors."""
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
    """`gather` for a table that a matrix product uses too."""
    check_inputs(t=t, indices=indices)
    attributes: dict[str, object] = {
        "axis": handle_negative_axis(t, axis),
        "zero_oor": bool(zero_OOR),
    }
    names = ("tiedgather_out", "tied_gather")
    return _gather("PopartTiedGather", t, indices, attributes, names)


def scatter(
    t: Tensor,
    indices: Tensor,
    values: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """A copy of `t` with values[p] at position p whose coordinate `axis` is indices[p]."""
    check_inputs(t=t, indices=indices, values=values)
    attributes: dict[str, object] = {"axis": handle_negative_axis(t, axis)}
    inputs = [t, indices, values]
    return make("Scatter", inputs, attributes, name="scatter_out", settings="scatter")


def onehot(t: Tensor, num_classes: Tensor, values: Tensor, axis: int) -> Tensor:
    """`values[1]` at the class of each element and `values[0]` elsewhere.

    `num_classes` is a constant. Axis -1 appends the class axis, others say where it goes.
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
