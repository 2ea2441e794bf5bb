"""Lowerings of operators that order elements or run along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_index import element_numbers
from poptorch._lower.registry import lowers
from popxl import ops

Scan = Callable[..., popxl.Tensor]


@lowers("aten::median", "aten::nanmedian")
def median(
    call: Call, self: popxl.Tensor, dim: int | None = None, keepdim: bool = False
) -> popxl.Tensor | list[popxl.Tensor]:
    """The lower median, and where it is if an axis is given; that of NaN is NaN."""
    del keepdim
    if self.rank == 0:
        return self if dim is None else [self, popxl.constant(0, popxl.int32)]
    t = ops.reshape(self, (self.nelms,)) if dim is None else self
    axis = (dim or 0) % t.rank
    if not t.dtype.is_floating_point:
        found = _sorted_position(call, t, axis, (t.shape[axis] - 1) // 2)
    else:
        place = _place_of_median(t, axis, call.node.name == "aten::nanmedian")
        numbers = element_numbers(place, t.shape, axis)
        parts = (ops.reshape(part, (t.nelms,)) for part in ops.sort(t, axis))
        found = [ops.reshape(ops.gather(part, numbers, 0), call.shape) for part in parts]
    return found[0] if dim is None else found


def _place_of_median(t: popxl.Tensor, axis: int, skips_nan: bool) -> popxl.Tensor:
    """Where sorted elements, of which NaN are the last ones, have their median."""
    zero, one, two = (popxl.constant(n, popxl.int32) for n in (0, 1, 2))
    are_numbers = cast(ops.logical_not(ops.isnan(t)), popxl.int32)
    count = ops.sum(are_numbers, [axis], True)
    if skips_nan:
        return ops.maximum(ops.div(ops.sub(count, one), two), zero)
    size = t.shape[axis]
    middle = popxl.constant((size - 1) // 2, popxl.int32)
    return ops.where(ops.equal(count, popxl.constant(size, popxl.int32)), middle, count)


@lowers("aten::kthvalue")
def kthvalue(
    call: Call, self: popxl.Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> list[popxl.Tensor]:
    """The k-th smallest elements along an axis and where they are."""
    del keepdim
    if self.rank == 0:
        return [self, popxl.constant(0, popxl.int32)]
    return _sorted_position(call, self, dim, k - 1)


def _sorted_position(call: Call, t: popxl.Tensor, dim: int, place: int) -> list[popxl.Tensor]:
    axis = dim % t.rank
    return [
        ops.reshape(ops.slice(part, [place], [place + 1], [1], [axis]), call.shape)
        for part in ops.sort(t, axis)
    ]


@lowers("aten::sort")
def sort(
    call: Call,
    self: popxl.Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool | None = None,
) -> list[popxl.Tensor]:
    """Elements in order along an axis, and where they were."""
    del call, stable
    if self.rank == 0:
        return [self, popxl.constant(0, popxl.int32)]
    return list(ops.sort(self, dim % self.rank, descending))


@lowers("aten::argsort")
def argsort(
    call: Call,
    self: popxl.Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool | None = None,
) -> popxl.Tensor:
    """Where the elements in order along an axis are."""
    return sort(call, self, dim, descending, stable)[1]


@lowers("aten::topk")
def topk(
    call: Call,
    self: popxl.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> list[popxl.Tensor]:
    """The k largest or smallest elements along an axis, and where they are."""
    del call
    if self.rank == 0:
        return [self, popxl.constant(0, popxl.int32)]
    return list(ops.topk(self, k, dim % self.rank, largest, sorted))


def _along(call: Call, t: popxl.Tensor, dim: int, scan: Scan) -> popxl.Tensor:
    t = cast(t, call.dtype)
    if t.rank == 0:
        return t
    return scan(t, dim % t.rank)


@lowers("aten::cumsum")
def cumsum(call: Call, self: popxl.Tensor, dim: int, **_dtype: Any) -> popxl.Tensor:
    """Running sums."""
    return _along(call, self, dim, ops.cumsum)


@lowers("aten::cumprod")
def cumprod(call: Call, self: popxl.Tensor, dim: int, **_dtype: Any) -> popxl.Tensor:
    """Running products."""
    return _along(call, self, dim, ops.cumprod)


@lowers("aten::cummax", "aten::cummin")
def cummax(call: Call, self: popxl.Tensor, dim: int) -> list[popxl.Tensor]:
    """Running extremes and where they are, by doubling the range that is known."""
    if self.rank == 0:
        return [self, popxl.constant(0, popxl.int32)]
    axis = dim % self.rank
    size = self.shape[axis]
    largest = call.node.name == "aten::cummax"
    wide = cast(self, popxl.int32) if self.dtype == popxl.bool else self
    shape = [-1 if i == axis else 1 for i in range(self.rank)]
    positions = popxl.constant(np.arange(size, dtype=np.int32).reshape(shape), popxl.int32)
    values, places = wide, broadcast_to(positions, self.shape)
    distance = 1
    while distance < size:
        values, places = _joined(values, places, axis, distance, largest)
        distance *= 2
    return [cast(values, self.dtype), places]


def _joined(
    values: popxl.Tensor, places: popxl.Tensor, axis: int, distance: int, largest: bool
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Running extremes of twice the range: the later one of equals, as torch has it."""
    size = values.shape[axis]

    def part(t: popxl.Tensor, start: int, stop: int) -> popxl.Tensor:
        return ops.slice(t, [start], [stop], [1], [axis])

    before, now = part(values, 0, size - distance), part(values, distance, size)
    takes = ops.greater(before, now) if largest else ops.greater(now, before)
    if values.dtype.is_floating_point:
        takes = ops.logical_or(takes, ops.isnan(before))
        takes = ops.logical_and(takes, ops.logical_not(ops.isnan(now)))
    chosen = ops.where(takes, before, now)
    place = ops.where(takes, part(places, 0, size - distance), part(places, distance, size))
    return (
        ops.concat([part(values, 0, distance), chosen], axis),
        ops.concat([part(places, 0, distance), place], axis),
    )


@lowers("aten::logcumsumexp")
def logcumsumexp(call: Call, self: popxl.Tensor, dim: int) -> popxl.Tensor:
    """The logarithm of running sums of exponentials, with the largest element taken out."""
    t = cast(self, popxl.float32)
    if t.rank == 0:
        return cast(t, call.dtype)
    axis = dim % t.rank
    largest = ops.detach(ops.max(t, [axis], True))
    sums = ops.cumsum(ops.exp(ops.sub(t, largest)), axis)
    return cast(ops.add(ops.log(sums), largest), call.dtype)
