"""Lowerings of embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import torch

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_distance import norm_of
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from poptorch._trace.recorder import memory_of
from popxl import ops

SUM, MEAN, MAX = 0, 1, 2


def check_dense(call: Call, scale_grad_by_freq: bool, sparse: bool) -> None:
    """Raise for options of gradients that no program computes.

    Args:
        call: The call.
        scale_grad_by_freq: Whether gradients are divided by counts of rows.
        sparse: Whether gradients are sparse tensors.
    """
    asked = {"scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    names = [f"{name}=True" for name, value in asked.items() if value]
    if names and call.node.from_grad:
        raise createPoptorchError(
            f"{call.node.name.removeprefix('aten::')} at {call.node.location}: {', '.join(names)} "
            "is not supported; leave it away"
        )


@lowers("aten::embedding")
def embedding(
    call: Call,
    weight: popxl.Tensor,
    indices: popxl.Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> popxl.Tensor:
    """Rows of a table. The row of `padding_idx` gets no gradient."""
    check_dense(call, scale_grad_by_freq, sparse)
    rows = cast(ops.gather(weight, indices, 0), call.dtype)
    if padding_idx < 0 or not call.node.requires_grad[0]:
        return rows
    is_padding = ops.equal(indices, number(padding_idx, indices.dtype))
    mask = broadcast_to(ops.reshape(is_padding, (*indices.shape, 1)), rows.shape)
    return ops.where(mask, ops.detach(rows), rows)


@lowers("aten::one_hot")
def one_hot(call: Call, self: popxl.Tensor, num_classes: int = -1) -> popxl.Tensor:
    """1 at the class of each element, 0 at the others."""
    del call
    values = popxl.constant(np.array([0, 1], np.int32), popxl.int32)
    return ops.onehot(self, popxl.constant(num_classes, popxl.int32), values, -1)


@lowers("aten::embedding_renorm")
def embedding_renorm(
    call: Call, self: popxl.Tensor, indices: popxl.Tensor, max_norm: float, norm_type: float
) -> popxl.Tensor:
    """A table whose rows that are read have at most a given norm."""
    del call
    f = popxl.float32
    norms = norm_of(cast(self, f), norm_type, 1)
    read = ops.reshape(indices, (-1,))
    ones = popxl.constant(np.ones(read.shape, np.float32), f)
    none = popxl.constant(np.zeros(norms.shape, np.float32), f)
    is_read = ops.greater(ops.scatter(none, read, ones, 0), number(0, f))
    too_long = ops.logical_and(is_read, ops.greater(norms, number(max_norm, f)))
    shorter = ops.div(number(max_norm, f), ops.add(norms, number(1e-7, f)))
    factor = ops.where(too_long, shorter, number(1, f))
    return ops.mul(self, cast(ops.reshape(factor, (-1, 1)), self.dtype))


def _known_offsets(call: Call) -> list[int] | None:
    """Where bags begin, if that is known while the model is traced."""
    meta = call.argument("offsets")
    recording = call.lowering.recording
    if id(meta) in recording.constants:
        return [int(i) for i in recording.constants[id(meta)][1]]
    for node in recording.nodes:
        if node.name == "aten::arange" and memory_of(node.outputs[0]) == memory_of(meta):
            start, step = node.arguments.get("start", 0), node.arguments.get("step", 1)
            return list(range(start, node.arguments["end"], step))
    return None


@dataclass
class _Bags:
    """Rows of a table that are reduced together.

    Attributes:
        rows: The float32 rows (entries, width).
        kept: Whether each entry counts, as 1 or 0 (entries, 1).
        numbers: The int32 bag of each entry (entries,).
        count: The number of bags.
        size: The number of entries of each bag, if that is one number.
    """

    rows: popxl.Tensor
    kept: popxl.Tensor
    numbers: popxl.Tensor
    count: int
    size: int | None

    def total(self, values: popxl.Tensor) -> popxl.Tensor:
        """The sum over each bag of values (entries, width)."""
        if self.size is not None:
            return ops.sum(ops.reshape(values, (self.count, self.size, values.shape[1])), [1])
        return ops.scatter_reduce(values, self.numbers, "sum", axis=0, axis_size=self.count)

    def largest(self) -> tuple[popxl.Tensor, popxl.Tensor]:
        """The largest values of each bag, 0 for empty ones, and the entries that they are of."""
        lowest = number(-inf, self.rows.dtype)
        is_kept = broadcast_to(ops.greater(self.kept, number(0, self.kept.dtype)), self.rows.shape)
        values, entries = ops.scatter_max(
            ops.where(is_kept, self.rows, lowest),
            self.numbers,
            popxl.constant(np.full((self.count, self.rows.shape[1]), -inf, np.float32)),
            axis=0,
        )
        empty = ops.equal(values, lowest)
        return ops.where(empty, number(0, values.dtype), values), entries


def _bag_numbers(call: Call, offsets: popxl.Tensor, entries: int, count: int) -> popxl.Tensor:
    """The bag of each entry: how many bags begin at or before it, less one."""
    known = _known_offsets(call)
    places = np.arange(entries, dtype=np.int32)
    if known is not None:
        numbers = np.searchsorted(known[:count], places, side="right").astype(np.int32) - 1
        return popxl.constant(numbers, popxl.int32)
    starts = offsets if offsets.shape == (count,) else ops.slice(offsets, [0], [count], [1], [0])
    begun = ops.logical_not(
        ops.greater(
            ops.reshape(starts, (1, -1)), popxl.constant(places.reshape(-1, 1), popxl.int32)
        )
    )
    return ops.sub(ops.sum(cast(begun, popxl.int32), [1]), number(1, popxl.int32))


def _regular_size(call: Call, entries: int, count: int) -> int | None:
    """The number of entries of each bag, if all have as many."""
    known = _known_offsets(call)
    if known is None or entries % count:
        return None
    size = entries // count
    return size if known[:count] == list(range(0, entries, size)) else None


@lowers("aten::embedding_bag", "aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    call: Call,
    weight: popxl.Tensor,
    indices: popxl.Tensor,
    offsets: popxl.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: popxl.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> list[popxl.Tensor]:
    """Sums, means or maxima of rows of a table over bags of entries."""
    check_dense(call, scale_grad_by_freq, sparse)
    del include_last_offset  # the shape of the result says it
    f = popxl.float32
    entries, count = indices.nelms, call.shape[0]
    size = _regular_size(call, entries, count)
    kept: popxl.Tensor = popxl.constant(np.ones((entries, 1), np.float32), f)
    if padding_idx is not None and padding_idx < 0 and call.node.name == "aten::embedding_bag":
        padding_idx += weight.shape[0]
    if padding_idx is not None and padding_idx >= 0:
        is_padding = ops.equal(indices, number(padding_idx, indices.dtype))
        kept = ops.reshape(ops.where(is_padding, number(0, f), number(1, f)), (entries, 1))
    rows = cast(ops.gather(weight, indices, 0), f)
    bags = _Bags(rows, kept, _bag_numbers(call, offsets, entries, count), count, size)
    counts = bags.total(kept)
    chosen = bags.numbers
    if mode == MAX:
        result, at = bags.largest()
        chosen = ops.gather(indices, ops.reshape(at, (-1,)), 0)
    else:
        factors = kept
        if per_sample_weights is not None:
            factors = ops.mul(kept, ops.reshape(cast(per_sample_weights, f), (entries, 1)))
        result = bags.total(ops.mul(rows, factors))
        if mode == MEAN:
            result = ops.div(result, ops.maximum(counts, number(1, f)))
    others = [bags.numbers, ops.reshape(counts, (count,)), chosen]
    return [cast(result, call.dtype), *map(_of_shape, others, call.outputs[1:])]


def _of_shape(value: popxl.Tensor, meta: torch.Tensor) -> popxl.Tensor:
    """What torch keeps for the gradient, which has other shapes from case to case."""
    if value.nelms == meta.numel():
        return ops.reshape(value, tuple(meta.shape))
    return popxl.constant(np.zeros(tuple(meta.shape), np.int32), popxl.int32)
