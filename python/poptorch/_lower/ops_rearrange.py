"""Lowerings of operators that take elements in another order, or some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_pointwise import Operand, common_dtype, number, operand
from poptorch._lower.ops_shape import take_range
from poptorch._lower.registry import lowers
from popxl import ops


@lowers("aten::flip", "prims::rev")
def flip(
    call: Call,
    self: popxl.Tensor | None = None,
    dims: Sequence[int] = (),
    a: popxl.Tensor | None = None,
) -> popxl.Tensor:
    """Axes in the reverse order."""
    del call
    t = self if self is not None else a
    assert t is not None
    for dim in dims if t.rank else ():
        axis = dim % t.rank
        t = take_range(t, axis, t.shape[axis] - 1, -1, -1)
    return t


@lowers("aten::roll")
def roll(
    call: Call, self: popxl.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()
) -> popxl.Tensor:
    """Elements moved along axes, those that leave at one end come in at the other."""
    if self.rank == 0:
        return self
    if not dims:
        flat = _rolled(ops.reshape(self, (self.nelms,)), shifts[0], 0)
        return ops.reshape(flat, call.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        self = _rolled(self, shift, dim % self.rank)
    return self


def _rolled(t: popxl.Tensor, shift: int, axis: int) -> popxl.Tensor:
    size = t.shape[axis]
    cut = -shift % size
    if cut == 0:
        return t
    return ops.concat([take_range(t, axis, cut, size), take_range(t, axis, 0, cut)], axis)


@lowers("aten::as_strided", "aten::diagonal", "aten::unfold")
def by_position(call: Call, self: popxl.Tensor, **_ignored: Any) -> popxl.Tensor:
    """Views by where their elements are in memory."""
    del self
    call.lowering.read(call.argument("self"))
    # From the first tensor of the memory, which may need a gradient that this one does not.
    value = call.lowering.values.read_by_position(call.outputs[0])
    is_cut = value.dtype.is_floating_point and not call.outputs[0].requires_grad
    return ops.detach(value) if is_cut else value


@lowers("aten::triu", "aten::tril")
def triangle(call: Call, self: popxl.Tensor, diagonal: int = 0) -> popxl.Tensor:
    """The upper or lower triangle of matrices; zeros elsewhere."""
    rows, columns = self.shape[-2:]
    upper = call.node.name == "aten::triu"
    keep = np.triu if upper else np.tril
    mask = popxl.constant(keep(np.ones((rows, columns), bool), diagonal), popxl.bool)
    zero = broadcast_to(number(0, self.dtype), self.shape)
    return ops.where(broadcast_to(mask, self.shape), self, zero)


@lowers("aten::repeat", "aten::tile")
def repeat(
    call: Call,
    self: popxl.Tensor,
    repeats: Sequence[int] = (),
    dims: Sequence[int] = (),
) -> popxl.Tensor:
    """A tensor several times along each axis."""
    counts = list(repeats or dims)
    counts = [1] * (self.rank - len(counts)) + counts
    sizes = [1] * (len(counts) - self.rank) + list(self.shape)
    apart = [part for size in sizes for part in (1, size)]
    full = [part for pair in zip(counts, sizes, strict=True) for part in pair]
    return ops.reshape(broadcast_to(ops.reshape(self, apart), full), call.shape)


@lowers("aten::slice_scatter", "aten::select_scatter")
def write_range(
    call: Call,
    self: popxl.Tensor,
    src: popxl.Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    index: int = 0,
) -> popxl.Tensor:
    """A tensor with positions of an axis replaced."""
    axis = dim % self.rank
    if call.node.name == "aten::select_scatter":
        position = index % self.shape[axis]
        places = range(position, position + 1)
    else:
        places = range(*slice(start, end, step).indices(self.shape[axis]))
    shape = [len(places) if i == axis else size for i, size in enumerate(self.shape)]
    rows = ops.reshape(cast(src, self.dtype), shape)
    numbers = popxl.constant(np.array(list(places), np.int32), popxl.int32)
    return ops.scatter_reduce(rows, numbers, "none", self, axis)


@lowers("aten::diagonal_scatter")
def write_diagonal(
    call: Call,
    self: popxl.Tensor,
    src: popxl.Tensor,
    offset: int = 0,
    dim1: int = 0,
    dim2: int = 1,
) -> popxl.Tensor:
    """A tensor with the elements of diagonals replaced."""
    del call
    numbers = np.arange(self.nelms, dtype=np.int32).reshape(self.shape)
    places = np.diagonal(numbers, offset, dim1, dim2).ravel()
    flat = ops.scatter_reduce(
        ops.reshape(cast(src, self.dtype), (src.nelms,)),
        popxl.constant(places, popxl.int32),
        "none",
        ops.reshape(self, (self.nelms,)),
        0,
    )
    return ops.reshape(flat, self.shape)


@lowers("aten::eye")
def eye(call: Call, n: int, m: int | None = None, **_ignored: Any) -> popxl.Tensor:
    """Ones on the diagonal."""
    values = np.eye(n, n if m is None else m)
    return popxl.constant(values.astype(call.dtype.as_numpy()), call.dtype)


@lowers("aten::tril_indices", "aten::triu_indices")
def triangle_indices(
    call: Call, row: int, col: int, offset: int = 0, **_ignored: Any
) -> popxl.Tensor:
    """The positions of a triangle of a matrix."""
    find = np.tril_indices if call.node.name == "aten::tril_indices" else np.triu_indices
    values = np.array(find(row, offset, col))
    return popxl.constant(values.astype(call.dtype.as_numpy()), call.dtype)


@lowers("prims::iota")
def iota(call: Call, length: int, start: int = 0, step: int = 1, **_ignored: Any) -> popxl.Tensor:
    """Integers at equal distances."""
    values = start + step * np.arange(length)
    return popxl.constant(values.astype(call.dtype.as_numpy()), call.dtype)


@lowers("aten::bucketize")
def bucketize(
    call: Call,
    self: Operand,
    boundaries: popxl.Tensor,
    out_int32: bool = False,
    right: bool = False,
) -> popxl.Tensor:
    """Between which boundaries elements are."""
    del out_int32
    dtype = common_dtype(self, boundaries)
    return ops.bucketize(operand(self, dtype), cast(boundaries, dtype), right)


@lowers("aten::searchsorted")
def searchsorted(
    call: Call,
    sorted_sequence: popxl.Tensor,
    self: Operand,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: popxl.Tensor | None = None,
) -> popxl.Tensor:
    """How many elements of sorted rows are before each value."""
    del out_int32
    right = right or side == "right"
    dtype = common_dtype(self, sorted_sequence)
    values, sorted_sequence = operand(self, dtype), cast(sorted_sequence, dtype)
    if sorted_sequence.rank == 1 and sorter is None:
        flat = ops.reshape(values, (values.nelms,))
        return ops.reshape(ops.bucketize(flat, sorted_sequence, right), call.shape)
    # The order of a row does not matter to a count of its elements, so neither does a sorter.
    rows = ops.reshape(sorted_sequence, (*sorted_sequence.shape[:-1], 1, -1))
    if sorted_sequence.rank == 1:
        rows = ops.reshape(sorted_sequence, (1,) * values.rank + (-1,))
    columns = ops.reshape(values, (*values.shape, 1))
    after = ops.greater(rows, columns)
    if not right:
        after = ops.logical_or(after, ops.equal(rows, columns))
    return ops.sum(cast(ops.logical_not(after), popxl.int32), [-1])
