"""Lowerings of operators that choose elements by flat positions, masks or counts."""

from __future__ import annotations

import itertools

import numpy as np

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_index import ScatterReduction, summable, wrapped
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops


def _flat(t: popxl.Tensor) -> popxl.Tensor:
    return ops.reshape(t, (t.nelms,))


@lowers("aten::take")
def take(call: Call, self: popxl.Tensor, index: popxl.Tensor) -> popxl.Tensor:
    """Elements by their numbers in row-major order."""
    found = ops.gather(_flat(self), wrapped(_flat(index), self.nelms), 0)
    return ops.reshape(found, call.shape)


@lowers("aten::put")
def put(
    call: Call,
    self: popxl.Tensor,
    index: popxl.Tensor,
    source: popxl.Tensor,
    accumulate: bool = False,
) -> popxl.Tensor:
    """Elements replaced or added to by their numbers in row-major order."""
    target = _flat(summable(self) if accumulate else self)
    places = wrapped(_flat(index), self.nelms)
    reduction: ScatterReduction = "sum" if accumulate else "none"
    values = cast(_flat(source), target.dtype)
    return ops.reshape(ops.scatter_reduce(values, places, reduction, target, 0), call.shape)


@lowers("aten::masked_scatter")
def masked_scatter(
    call: Call, self: popxl.Tensor, mask: popxl.Tensor, source: popxl.Tensor
) -> popxl.Tensor:
    """The elements of a source, in order, where a mask holds."""
    holds = broadcast_to(cast(mask, popxl.bool), call.shape)
    counts = ops.cumsum(_flat(cast(holds, popxl.int32)), 0)
    # Places in front of the first element of the mask are read, but not used.
    places = ops.maximum(ops.sub(counts, number(1, popxl.int32)), number(0, popxl.int32))
    last = number(source.nelms - 1, popxl.int32)
    places = ops.where(ops.greater(places, last), last, places)
    found = ops.reshape(ops.gather(_flat(source), places, 0), call.shape)
    return ops.where(holds, cast(found, self.dtype), broadcast_to(self, call.shape))


@lowers("aten::bincount")
def bincount(
    call: Call, self: popxl.Tensor, weights: popxl.Tensor | None = None, minlength: int = 0
) -> popxl.Tensor:
    """How often each number occurs, or the sum of the weights of its places.

    Numbers of `minlength` and above are not counted: the size of the result is fixed.
    """
    one = broadcast_to(number(1, call.dtype), self.shape)
    counted = one if weights is None else cast(weights, call.dtype)
    places = cast(self, popxl.int32)
    # The row behind the last one takes what is not counted.
    beyond = number(minlength, popxl.int32)
    places = ops.where(ops.greater(places, beyond), beyond, places)
    blank = broadcast_to(number(0, call.dtype), (minlength + 1,))
    counts = ops.scatter_reduce(counted, places, "sum", blank, 0)
    return ops.slice(counts, [0], [minlength], [1], [0])


@lowers("aten::histc")
def histc(
    call: Call, self: popxl.Tensor, bins: int = 100, min: float = 0, max: float = 0
) -> popxl.Tensor:
    """How many elements lie in each of a number of equal parts of a range.

    A range from a number to itself stands for that of the elements, as in torch.
    """
    flat = _flat(cast(self, popxl.float32))
    if min < max:
        low, high = number(min, popxl.float32), number(max, popxl.float32)
    else:
        low, high = ops.min(flat, 0), ops.max(flat, 0)
        alike = ops.equal(low, high)
        one = number(1, popxl.float32)
        low = ops.where(alike, ops.sub(low, one), low)
        high = ops.where(alike, ops.add(high, one), high)
    share = ops.div(ops.sub(flat, low), ops.sub(high, low))
    # The upper limit belongs to the last part.
    last = number(bins - 1, popxl.float32)
    places = ops.floor(ops.mul(share, number(bins, popxl.float32)))
    places = ops.where(ops.greater(places, last), last, places)
    outside = ops.logical_or(ops.greater(low, flat), ops.greater(flat, high))
    outside = ops.logical_or(outside, ops.isnan(flat))
    places = ops.where(outside, number(bins, popxl.float32), places)
    return bincount(call, places, None, bins)


@lowers("aten::repeat_interleave")
def repeat_interleave(call: Call, repeats: popxl.Tensor, output_size: int) -> popxl.Tensor:
    """The number of each position, as often as it is repeated."""
    del call
    ends = ops.cumsum(cast(repeats, popxl.int32), 0)
    places = popxl.constant(np.arange(output_size, dtype=np.int32), popxl.int32)
    return ops.bucketize(places, ends, True)


@lowers("aten::combinations")
def combinations(
    call: Call, self: popxl.Tensor, r: int = 2, with_replacement: bool = False
) -> popxl.Tensor:
    """All choices of a number of elements, in order."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(self.nelms), r)), np.int32).reshape(-1)
    return ops.reshape(ops.gather(self, popxl.constant(places, popxl.int32), 0), call.shape)


@lowers("aten::mode")
def mode(
    call: Call, self: popxl.Tensor, dim: int = -1, keepdim: bool = False
) -> list[popxl.Tensor]:
    """The smallest of the most frequent elements along an axis, and the last place of each."""
    del keepdim
    if self.rank == 0:
        return [self, popxl.constant(0, popxl.int32)]
    axis = dim % self.rank
    size = self.shape[axis]
    ordered, places = ops.sort(self, axis)
    last = ops.transpose(ordered, [*(i for i in range(self.rank) if i != axis), axis])
    rows = ops.reshape(last, (-1, size, 1))
    equal = cast(ops.equal(rows, ops.reshape(last, (-1, 1, size))), popxl.int32)
    # The first of the sorted elements with the largest count; its equals follow it.
    # A NaN, which equals nothing, counts as one element.
    counts = ops.maximum(ops.sum(equal, [2]), number(1, popxl.int32))
    first = ops.argmax(counts, 1, True)
    count = ops.max(counts, [1], True)
    chosen = ops.add(first, ops.sub(count, number(1, popxl.int32)))
    starts = popxl.constant(np.arange(rows.shape[0], dtype=np.int32).reshape(-1, 1) * size)
    numbers = _flat(ops.add(chosen, cast(starts, popxl.int32)))
    moved = ops.transpose(places, [*(i for i in range(self.rank) if i != axis), axis])
    return [ops.reshape(ops.gather(_flat(part), numbers, 0), call.shape) for part in (last, moved)]
