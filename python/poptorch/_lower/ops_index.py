"""Lowerings of operators that read or write at positions given by tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_pointwise import Operand, number, operand
from poptorch._lower.registry import lowers
from poptorch._lower.views import with_gradient_of
from popxl import ops

ScatterReduction = Literal["sum", "max", "min", "none", "prod"]


def wrapped(index: popxl.Tensor, size: int) -> popxl.Tensor:
    """Positions in which negative ones count from the end, as positions that do not.

    Args:
        index: The positions.
        size: The size of the axis.

    Returns:
        Positions of int32.
    """
    index = cast(index, popxl.int32)
    negative = ops.greater(number(0, popxl.int32), index)
    return ops.where(negative, ops.add(index, number(size, popxl.int32)), index)


@lowers("aten::index_select")
def index_select(call: Call, self: popxl.Tensor, dim: int, index: popxl.Tensor) -> popxl.Tensor:
    """Positions of an axis."""
    if self.rank == 0:
        return ops.reshape(self, call.shape)
    vector = index if index.rank else ops.reshape(index, (1,))
    return ops.gather(self, cast(vector, popxl.int32), dim % self.rank)


def element_numbers(index: popxl.Tensor, shape: Sequence[int], axis: int) -> popxl.Tensor:
    """For elements of an index along an axis, their numbers in a tensor in row-major order.

    Args:
        index: Positions along the axis; the other axes are positions themselves.
        shape: The shape of the tensor that they are in.
        axis: The axis, not negative.

    Returns:
        Numbers of int32, in the shape of `index`.
    """
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    base = np.zeros(index.shape, np.int32)
    for i, size in enumerate(index.shape):
        if i != axis:
            steps = np.arange(size, dtype=np.int32) * strides[i]
            base += steps.reshape([-1 if i == j else 1 for j in range(len(index.shape))])
    along = ops.mul(cast(index, popxl.int32), number(strides[axis], popxl.int32))
    return ops.add(along, popxl.constant(base, popxl.int32))


def _elements_at(t: popxl.Tensor, index: popxl.Tensor, axis: int) -> popxl.Tensor:
    """Elements at positions along an axis, in the shape of `index`."""
    return ops.gather(ops.reshape(t, (t.nelms,)), element_numbers(index, t.shape, axis), 0)


@lowers("aten::gather")
def gather(
    call: Call, self: popxl.Tensor, dim: int, index: popxl.Tensor, sparse_grad: bool = False
) -> popxl.Tensor:
    """Elements at positions along an axis."""
    del sparse_grad
    if self.rank == 0 or index.rank == 0:
        flat = ops.reshape(self, (self.nelms,))
        found = ops.gather(flat, ops.reshape(cast(index, popxl.int32), (index.nelms,)), 0)
        return ops.reshape(found, call.shape)
    return _elements_at(self, index, dim % self.rank)


def summable(t: popxl.Tensor) -> popxl.Tensor:
    """A tensor as numbers: booleans as 0 and 1.

    Args:
        t: The tensor.

    Returns:
        The tensor itself where it has numbers.
    """
    return cast(t, popxl.int32) if t.dtype == popxl.bool else t


class _Indexed:
    """An advanced index: the axes it takes, moved to the front and made one."""

    def __init__(self, t: popxl.Tensor, indices: Sequence[popxl.Tensor | None]) -> None:
        axes = [i for i, index in enumerate(indices) if index is not None]
        given = [index for index in indices if index is not None]
        self.shape = np.broadcast_shapes(*(index.shape for index in given))
        self.order = [*axes, *(i for i in range(t.rank) if i not in axes)]
        self.rest = tuple(t.shape[i] for i in self.order[len(axes) :])
        self.sizes = [t.shape[i] for i in axes]
        # Torch puts the new axes where the old ones were, if those were side by side.
        adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
        self.place = axes[0] if adjacent else 0
        self.numbers = self._numbers(given)
        self._permuted = tuple(t.shape[i] for i in self.order)

    def _numbers(self, given: Sequence[popxl.Tensor]) -> popxl.Tensor:
        total = None
        for i, index in enumerate(given):
            stride = number(math.prod(self.sizes[i + 1 :]), popxl.int32)
            part = ops.mul(wrapped(index, self.sizes[i]), stride)
            total = part if total is None else ops.add(total, part)
        assert total is not None
        return ops.reshape(broadcast_to(total, self.shape), (math.prod(self.shape),))

    def rows(self, t: popxl.Tensor) -> popxl.Tensor:
        """The tensor as a matrix of rows, one for each position of the indexed axes."""
        if self.order != sorted(self.order):
            t = ops.transpose(t, self.order)
        return ops.reshape(t, (math.prod(self.sizes), math.prod(self.rest)))

    def back(self, rows: popxl.Tensor) -> popxl.Tensor:
        """Such a matrix in the shape of the tensor."""
        t = ops.reshape(rows, self._permuted)
        inverse = [int(i) for i in np.argsort(self.order)]
        return ops.transpose(t, inverse) if self.order != sorted(self.order) else t

    def _axes_to_place(self) -> list[int]:
        """The permutation of (index axes, rest) to where torch puts them."""
        count = len(self.shape)
        rest = list(range(count, count + len(self.rest)))
        return [*rest[: self.place], *range(count), *rest[self.place :]]

    def result(self, rows: popxl.Tensor) -> popxl.Tensor:
        """Rows that were read in the shape of the result of indexing."""
        t = ops.reshape(rows, (*self.shape, *self.rest))
        order = self._axes_to_place()
        return ops.transpose(t, order) if order != sorted(order) else t

    def given_rows(self, values: popxl.Tensor) -> popxl.Tensor:
        """Values to be written as rows."""
        order = self._axes_to_place()
        sizes = (*self.shape, *self.rest)
        full = broadcast_to(values, tuple(sizes[i] for i in order))
        if order != sorted(order):
            full = ops.transpose(full, [int(i) for i in np.argsort(order)])
        return ops.reshape(full, (math.prod(self.shape), math.prod(self.rest)))


@lowers("aten::index", "aten::_unsafe_index")
def index(call: Call, self: popxl.Tensor, indices: Sequence[popxl.Tensor | None]) -> popxl.Tensor:
    """Elements at positions of several axes."""
    del call
    axes = [i for i, one in enumerate(indices) if one is not None]
    if len(axes) == 1:
        only = indices[axes[0]]
        assert only is not None
        return ops.gather(self, wrapped(only, self.shape[axes[0]]), axes[0])
    indexed = _Indexed(self, indices)
    return indexed.result(ops.gather(indexed.rows(self), indexed.numbers, 0))


@lowers("aten::index_put", "aten::_unsafe_index_put", "aten::_index_put_impl")
def index_put(
    call: Call,
    self: popxl.Tensor,
    indices: Sequence[popxl.Tensor | None],
    values: popxl.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> popxl.Tensor:
    """A tensor with elements at positions replaced or added to."""
    del unsafe
    if accumulate:
        self = summable(self)
    values = cast(values, self.dtype)
    masks = [i for i in indices if i is not None and i.dtype == popxl.bool]
    if masks:
        return _masked_put(call, self, indices, values, accumulate)
    indexed = _Indexed(self, indices)
    reduction: ScatterReduction = "sum" if accumulate else "none"
    rows = ops.scatter_reduce(
        indexed.given_rows(values), indexed.numbers, reduction, indexed.rows(self), 0
    )
    return indexed.back(rows)


def _masked_put(
    call: Call,
    self: popxl.Tensor,
    indices: Sequence[popxl.Tensor | None],
    values: popxl.Tensor,
    accumulate: bool,
) -> popxl.Tensor:
    (first, *others) = [i for i, one in enumerate(indices) if one is not None]
    mask = indices[first]
    assert mask is not None
    if others or (values.nelms != 1 and values.rank > self.rank - first - mask.rank):
        raise createPoptorchError(
            f"Writing with a mask, as at {call.node.location}, takes one mask and a value that "
            f"does not depend on how many elements it has; given values of shape {values.shape}"
        )
    trailing = self.rank - first - mask.rank
    wide = ops.reshape(mask, (*mask.shape, *([1] * trailing)))
    new = ops.add(self, values) if accumulate else values
    return ops.where(broadcast_to(wide, self.shape), broadcast_to(new, self.shape), self)


@lowers("aten::index_add", "aten::index_copy", "aten::index_fill")
def index_write(
    call: Call,
    self: popxl.Tensor,
    dim: int,
    index: popxl.Tensor,
    source: popxl.Tensor | None = None,
    value: Operand | None = None,
    alpha: float = 1,
) -> popxl.Tensor:
    """Positions of an axis added to, replaced, or filled."""
    if self.rank == 0:
        whole = ops.reshape(self, (1,))
        part = None if source is None else ops.reshape(source, (1,))
        return ops.reshape(index_write(call, whole, 0, index, part, value, alpha), ())
    is_sum = call.node.name.startswith("aten::index_add")
    if is_sum:
        self = summable(self)
    axis = dim % self.rank
    vector = cast(ops.reshape(index, (index.nelms,)), popxl.int32)
    shape = (*self.shape[:axis], index.nelms, *self.shape[axis + 1 :])
    if source is None:
        assert value is not None
        source = broadcast_to(operand(value, self.dtype), shape)
        vector = wrapped(vector, self.shape[axis])
    source = ops.reshape(cast(source, self.dtype), shape)
    if alpha != 1:
        source = ops.mul(source, number(alpha, self.dtype))
    reduction: ScatterReduction = "sum" if is_sum else "none"
    return ops.scatter_reduce(source, vector, reduction, self, axis)


_REDUCTIONS: dict[str, ScatterReduction] = {
    "sum": "sum",
    "add": "sum",
    "prod": "prod",
    "multiply": "prod",
    "mean": "sum",
    "amax": "max",
    "amin": "min",
}


def _identity(reduction: str, dtype: popxl.dtype) -> float:
    """What a reduction begins with."""
    if reduction in ("sum", "add", "mean"):
        return 0
    if reduction in ("prod", "multiply"):
        return 1
    limits: Any = np.finfo(np.float32) if dtype.is_floating_point else np.iinfo(dtype.as_numpy())
    if dtype.is_floating_point:
        return -math.inf if reduction == "amax" else math.inf
    return int(limits.min if reduction == "amax" else limits.max)


def _with_shared_gradient(
    result: popxl.Tensor,
    self: popxl.Tensor,
    axis: int,
    index: popxl.Tensor,
    src: popxl.Tensor,
    include_self: bool,
    by_rows: bool,
) -> popxl.Tensor:
    """Extrema whose gradient equal elements share, as in torch.

    There an element of `self` that equals the result has a share also where it takes no part.
    """
    mode: dict[str, Any] = {"axis": axis, "enable_index_broadcast": by_rows}
    dtype = result.dtype

    def at_places(t: popxl.Tensor) -> popxl.Tensor:
        return ops.gather(t, index, axis) if by_rows else _elements_at(t, index, axis)

    found = ops.detach(result)
    won = cast(ops.equal(ops.detach(src), at_places(found)), dtype)
    kept = cast(ops.equal(ops.detach(self), found), dtype)
    counts = ops.scatter_reduce(won, index, "sum", kept, **mode)
    share = ops.div(number(1, dtype), counts)
    of_self = ops.mul(kept, share)
    if not include_self:
        nothing = broadcast_to(number(0, dtype), src.shape)
        of_self = ops.scatter_reduce(nothing, index, "none", of_self, **mode)
    of_src = ops.mul(src, ops.detach(ops.mul(won, at_places(share))))
    before = ops.mul(self, ops.detach(of_self))
    return with_gradient_of(result, ops.scatter_reduce(of_src, index, "sum", before, **mode))


def reduce_into(
    call: Call,
    self: popxl.Tensor,
    axis: int,
    index: popxl.Tensor,
    src: popxl.Tensor,
    reduction: str,
    include_self: bool,
    by_rows: bool,
) -> popxl.Tensor:
    """Reduce elements into the positions of a tensor along an axis.

    Args:
        call: The call that does it.
        self: The tensor that they are reduced into.
        axis: The axis, not negative.
        index: Positions: of single elements, or a vector for whole slices.
        src: The elements.
        reduction: `sum`, `prod`, `mean`, `amax` or `amin`.
        include_self: Whether the elements of `self` take part where something is reduced.
        by_rows: Whether `index` is a vector for slices.

    Returns:
        A new tensor of the shape of `self`; of numbers, where that has booleans.
    """
    self = summable(self)
    src = cast(src, self.dtype)
    start = self
    mode: dict[str, Any] = {"axis": axis, "enable_index_broadcast": by_rows}
    if not include_self:
        blank = broadcast_to(number(_identity(reduction, self.dtype), self.dtype), src.shape)
        start = ops.scatter_reduce(blank, index, "none", self, **mode)
    result = ops.scatter_reduce(src, index, _REDUCTIONS[reduction], start, **mode)
    if reduction in ("amax", "amin") and call.node.from_grad:
        return _with_shared_gradient(result, self, axis, index, src, include_self, by_rows)
    if reduction != "mean":
        return result
    ones = broadcast_to(number(1, popxl.float32), src.shape)
    base = broadcast_to(number(1 if include_self else 0, popxl.float32), self.shape)
    counts = ops.scatter_reduce(ones, index, "sum", base, **mode)
    counts = ops.maximum(counts, number(1, popxl.float32))
    if self.dtype.is_floating_point:
        return cast(ops.div(cast(result, popxl.float32), counts), self.dtype)
    quotient = ops.floor(ops.div(cast(result, popxl.float32), counts))
    return cast(quotient, self.dtype)


def _cut(src: popxl.Tensor, shape: Sequence[int]) -> popxl.Tensor:
    """The first elements of a tensor along every axis."""
    if src.shape == tuple(shape):
        return src
    axes = list(range(src.rank))
    return ops.slice(src, [0] * src.rank, list(shape), [1] * src.rank, axes)


@lowers("aten::scatter", "aten::scatter_add", "aten::scatter_reduce")
def scatter(
    call: Call,
    self: popxl.Tensor,
    dim: int,
    index: popxl.Tensor,
    src: popxl.Tensor | None = None,
    value: Operand | None = None,
    reduce: str | None = None,
    include_self: bool = True,
) -> popxl.Tensor:
    """Elements written to, or reduced into, positions along an axis."""
    shape = call.shape
    if self.rank == 0:
        self = ops.reshape(self, (1,))
    if index.rank == 0:
        index = ops.reshape(index, (1,))
    axis = dim % self.rank
    if src is None:
        assert value is not None
        src = broadcast_to(operand(value, self.dtype), index.shape)
    elif src.rank == 0:
        src = ops.reshape(src, (1,))
    src = _cut(cast(src, self.dtype), index.shape)
    index = cast(index, popxl.int32)
    if call.node.name.startswith("aten::scatter_add"):
        reduce = "sum"
    if reduce is None:
        mode: dict[str, Any] = {"axis": axis, "enable_index_broadcast": False}
        result = ops.scatter_reduce(src, index, "none", self, **mode)
    else:
        result = reduce_into(call, self, axis, index, src, reduce, include_self, by_rows=False)
    return ops.reshape(result, shape) if result.shape != shape else result


@lowers("aten::index_reduce")
def index_reduce(
    call: Call,
    self: popxl.Tensor,
    dim: int,
    index: popxl.Tensor,
    source: popxl.Tensor,
    reduce: str,
    include_self: bool = True,
) -> popxl.Tensor:
    """Slices reduced into positions of an axis."""
    if self.rank == 0:
        self, source = ops.reshape(self, (1,)), ops.reshape(source, (1,))
    vector = cast(ops.reshape(index, (index.nelms,)), popxl.int32)
    axis = dim % self.rank
    result = reduce_into(call, self, axis, vector, source, reduce, include_self, by_rows=True)
    return ops.reshape(result, call.shape)
