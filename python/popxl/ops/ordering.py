"""Ops about the order of elements, scans and counts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from popxl import dtypes
from popxl.context import create_op
from popxl.ops.utils import check_inputs, handle_negative_axis, make, outputs_of
from popxl.tensor import Tensor, constant


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
    """int32 index of the largest element along `dim`, the lowest among equals."""
    return _arg("ArgMax", t, dim, keepdim, "argmax")


def argmin(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """int32 index of the smallest element along `dim`, the lowest among equals."""
    return _arg("ArgMin", t, dim, keepdim, "argmin")


def topk(
    t: Tensor,
    k: int,
    axis: int,
    largest: bool,
    sorted: bool,
    available_memory_proportion: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest (smallest) elements along `axis` and their int32 indices."""
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


def cumsum(t: Tensor, dim: int = 0) -> Tensor:
    """Running sum along `dim`, each element included in its own sum."""
    check_inputs(t=t)
    dimension = constant(dim, dtypes.int64, "dim", downcast=False)
    return make("CumSum", [t, dimension], name="cumsum_out", settings="cumsum")


def histogram(t: Tensor, levels: Iterable[float], absolute_of_input: bool) -> Tensor:
    """uint32 counts of x < l0, l0 <= x < l1, ..., x >= the last level; of |x| if asked."""
    check_inputs(t=t)
    bounds = [float(level) for level in levels]
    if any(upper <= lower for lower, upper in pairwise(bounds)):
        raise ValueError(f"histogram: wanted strictly increasing levels; given {bounds}")
    attributes: dict[str, object] = {
        "levels": bounds,
        "absolute_of_input": bool(absolute_of_input),
    }
    return make("Histogram", [t], attributes, name="histogram_out", settings="histogram")
