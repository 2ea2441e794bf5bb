"""Lowerings of functions about points: the farthest ones of a set, and the nearest ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_pointwise import number
from poptorch._lower.ops_shape import take_range
from poptorch._lower.registry import lowers
from poptorch._trace.points import sample_counts
from popxl import ops


def _squared_distances(x: popxl.Tensor, y: popxl.Tensor) -> popxl.Tensor:
    """Between all rows (number of x, dimensions) and (number of y, dimensions)."""
    total: popxl.Tensor | None = None
    # One coordinate at a time, so that nothing of rank 3 is made.
    for axis in range(x.shape[1]):
        one = take_range(x, 1, axis, axis + 1)
        other = ops.reshape(take_range(y, 1, axis, axis + 1), (1, y.shape[0]))
        difference = ops.sub(one, other)
        square = ops.mul(difference, difference)
        total = square if total is None else ops.add(total, square)
    return (
        popxl.constant(np.zeros((x.shape[0], y.shape[0]), np.float32)) if total is None else total
    )


def _random_row(call: Call, rows: int) -> popxl.Tensor:
    uniform = ops.random_uniform(call.seed(), (1,))
    row = cast(ops.floor(ops.mul(uniform, number(rows, popxl.float32))), popxl.int32)
    last = number(rows - 1, popxl.int32)
    return ops.where(ops.greater(row, last), ops.reshape(last, (1,)), row)


def _row_at(points: popxl.Tensor, row: popxl.Tensor) -> popxl.Tensor:
    return ops.dynamic_slice(points, row, [0], [1], True)


def _distances_to(points: popxl.Tensor, row: popxl.Tensor) -> popxl.Tensor:
    return ops.reshape(_squared_distances(points, _row_at(points, row)), (points.shape[0],))


def _next_point(points: popxl.Tensor, count: int) -> popxl.Graph:
    """A graph that adds one to the rows that were chosen."""
    graph = popxl.gcg().ir.create_empty_graph("farthest_point")
    with graph:
        position = popxl.graph_input((1,), popxl.int32, "position")
        chosen = popxl.graph_input((count,), popxl.int32, "chosen")
        distances = popxl.graph_input((points.shape[0],), popxl.float32, "distances")
        given = popxl.graph_input(points.shape, popxl.float32, "points")
        row = ops.reshape(ops.argmax(distances), (1,))
        nearer = _distances_to(given, row)
        popxl.graph_output(ops.add(position, number(1, popxl.int32)))
        popxl.graph_output(ops.dynamic_update(chosen, position, row, [0], [1], True))
        popxl.graph_output(ops.where(ops.greater(distances, nearer), nearer, distances))
    return graph


def _sample(points: popxl.Tensor, count: int, first: popxl.Tensor) -> popxl.Tensor:
    """The rows of `count` points, the first of which is known."""
    zero = popxl.constant(np.zeros(1, np.int32))
    rows = popxl.constant(np.zeros(count, np.int32))
    chosen = ops.dynamic_update(rows, zero, first, [0], [1], True)
    if count == 1:
        return chosen
    one = popxl.constant(np.ones(1, np.int32))
    graph = _next_point(points, count)
    distances = _distances_to(points, first)
    return ops.repeat(graph, count - 1, one, chosen, distances, points)[1]


@lowers("poptorch::fps")
def fps(
    call: Call, src: popxl.Tensor, ptr: Sequence[int], ratio: float, random_start: bool
) -> popxl.Tensor:
    """Each segment is a loop over the points that are chosen."""
    points = cast(src, popxl.float32)
    found = []
    for (begin, end), count in zip(itertools.pairwise(ptr), sample_counts(ptr, ratio), strict=True):
        segment = take_range(points, 0, begin, end)
        zero = popxl.constant(np.zeros(1, np.int32))
        first = _random_row(call, end - begin) if random_start else zero
        found.append(ops.add(_sample(segment, count, first), number(begin, popxl.int32)))
    return found[0] if len(found) == 1 else ops.concat(found)


@lowers("poptorch::nearest")
def nearest(
    call: Call, x: popxl.Tensor, y: popxl.Tensor, batch_x: popxl.Tensor, batch_y: popxl.Tensor
) -> popxl.Tensor:
    """The least distance of each row, where those to rows of other batches are infinite."""
    del call
    distances = _squared_distances(cast(x, popxl.float32), cast(y, popxl.float32))
    of_x = ops.reshape(batch_x, (x.shape[0], 1))
    of_y = ops.reshape(cast(batch_y, batch_x.dtype), (1, y.shape[0]))
    together = ops.equal(of_x, of_y)
    infinite = number(np.inf, popxl.float32)
    return ops.argmin(ops.where(together, distances, infinite), 1)


@lowers("poptorch::nearest_batch_list")
def nearest_batch_list(
    call: Call,
    x: popxl.Tensor,
    y: popxl.Tensor,
    batch_x: Sequence[int],
    batch_y: Sequence[int],
) -> popxl.Tensor:
    """Each batch on its own."""
    del call
    points, others = cast(x, popxl.float32), cast(y, popxl.float32)
    found = []
    for batch in sorted(set(batch_x)):
        rows = take_range(points, 0, *np.searchsorted(batch_x, [batch, batch + 1]).tolist())
        first, last = np.searchsorted(batch_y, [batch, batch + 1]).tolist()
        distances = _squared_distances(rows, take_range(others, 0, first, last))
        found.append(ops.add(ops.argmin(distances, 1), number(first, popxl.int32)))
    return found[0] if len(found) == 1 else ops.concat(found)
