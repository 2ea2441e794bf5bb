"""What `torch.ops.poptorch` computes about points: the farthest of each set, the nearest ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch

from poptorch._impl import createPoptorchError


def sample_counts(ptr: Sequence[int], ratio: float) -> list[int]:
    """How many points `fps` takes of each segment.

    Args:
        ptr: The first row of each segment, and behind them the number of rows.
        ratio: The part of each segment that is taken.

    Returns:
        `ceil(rows * ratio)` of each segment.
    """
    return [math.ceil((end - begin) * ratio) for begin, end in itertools.pairwise(ptr)]


def check_farthest_points(src: torch.Tensor, ptr: Sequence[int], ratio: float) -> None:
    """Raise for arguments that `fps` does not take.

    Args:
        src: The points.
        ptr: The first row of each segment, and behind them the number of rows.
        ratio: The part of each segment that is taken.
    """
    if src.dim() != 2:
        raise createPoptorchError(
            f"fps: wanted points of the shape (number, dimensions); given {list(src.shape)}"
        )
    if not 0.0 < ratio <= 1.0:
        raise createPoptorchError(f"fps: wanted a ratio above 0 and at most 1; given {ratio}")
    ascending = all(begin < end for begin, end in itertools.pairwise(ptr))
    if len(ptr) < 2 or ptr[0] < 0 or ptr[-1] > src.shape[0] or not ascending:
        raise createPoptorchError(
            f"fps: wanted a ptr that ascends from 0 to the number of points, {src.shape[0]}; "
            f"given {list(ptr)}"
        )


def _farthest_of_segment(points: torch.Tensor, count: int, first: int) -> list[int]:
    chosen = [first]
    distances = (points - points[first]).square().sum(1)
    while len(chosen) < count:
        chosen.append(int(distances.argmax()))
        distances = torch.minimum(distances, (points - points[chosen[-1]]).square().sum(1))
    return chosen


def farthest_points(
    src: torch.Tensor, ptr: Sequence[int], ratio: float, random_start: bool
) -> torch.Tensor:
    """Sample points far from each other, in each segment on its own.

    Args:
        src: The points (number, dimensions), floats.
        ptr: The first row of each segment, and behind them the number of rows.
        ratio: The part of each segment that is taken; above 0, at most 1.
        random_start: Whether the first point of a segment is random; otherwise it is its first row.

    Returns:
        The int32 rows of the points that were chosen, segment by segment, in order of choice.
    """
    check_farthest_points(src, ptr, ratio)
    counts = sample_counts(ptr, ratio)
    if src.is_meta:
        return torch.empty(sum(counts), dtype=torch.int32, device="meta")
    rows: list[int] = []
    for begin, end, count in zip(ptr, ptr[1:], counts, strict=False):
        points = src.detach()[begin:end]
        first = int(torch.randint(end - begin, ())) if random_start else 0
        rows += [begin + row for row in _farthest_of_segment(points, count, first)]
    return torch.tensor(rows, dtype=torch.int32)


def _check_points(x: torch.Tensor, y: torch.Tensor) -> None:
    if x.dim() != 2 or y.dim() != 2 or x.shape[1] != y.shape[1]:
        raise createPoptorchError(
            "nearest: wanted points (number, dimensions) with the same dimensions; given the "
            f"shapes {list(x.shape)} and {list(y.shape)}"
        )


def _check_batch_lengths(x: torch.Tensor, y: torch.Tensor, of_x: int, of_y: int) -> None:
    if (of_x, of_y) != (x.shape[0], y.shape[0]):
        raise createPoptorchError(
            f"nearest: wanted a batch number for each of {x.shape[0]} rows of x and "
            f"{y.shape[0]} rows of y; given {of_x} and {of_y}"
        )


def check_batches(batch_x: Sequence[int], batch_y: Sequence[int]) -> None:
    """Raise for batch numbers that do not ascend, or that rows of `y` lack.

    Args:
        batch_x: The number of the batch of each row of `x`.
        batch_y: The number of the batch of each row of `y`.
    """
    for name, batch in (("batch_x", batch_x), ("batch_y", batch_y)):
        if any(a > b for a, b in itertools.pairwise(batch)):
            raise createPoptorchError(f"nearest: wanted a {name} that is sorted; given {batch}")
    missing = sorted(set(batch_x) - set(batch_y))
    if missing:
        raise createPoptorchError(
            f"nearest: wanted rows of y in every batch of x; given none in {missing}"
        )


def nearest_points(
    x: torch.Tensor, y: torch.Tensor, batch_x: torch.Tensor, batch_y: torch.Tensor
) -> torch.Tensor:
    """Find the row of `y` that is nearest to each row of `x` within the same batch.

    Args:
        x: Points (number, dimensions), floats.
        y: Points (number, dimensions), floats.
        batch_x: The number of the batch of each row of `x` (number of x,), integers, sorted.
        batch_y: The number of the batch of each row of `y` (number of y,), integers, sorted.

    Returns:
        The int32 rows of `y` (number of x,), the first of equally near ones.
    """
    _check_points(x, y)
    if batch_x.dim() != 1 or batch_y.dim() != 1:
        raise createPoptorchError(
            "nearest: wanted batch numbers of one dimension; given the shapes "
            f"{list(batch_x.shape)} and {list(batch_y.shape)}"
        )
    _check_batch_lengths(x, y, batch_x.shape[0], batch_y.shape[0])
    if x.is_meta:
        return torch.empty(x.shape[0], dtype=torch.int32, device="meta")
    check_batches(batch_x.tolist(), batch_y.tolist())
    distances = (x.detach()[:, None] - y.detach()[None]).square().sum(2)
    apart = batch_x[:, None] != batch_y[None]
    return distances.masked_fill(apart, torch.inf).argmin(1).to(torch.int32)


def nearest_points_of_lists(
    x: torch.Tensor, y: torch.Tensor, batch_x: Sequence[int], batch_y: Sequence[int]
) -> torch.Tensor:
    """Find nearest points as `nearest_points` does, with batch numbers that are known.

    Args:
        x: Points (number, dimensions), floats.
        y: Points (number, dimensions), floats.
        batch_x: The number of the batch of each row of `x`, sorted.
        batch_y: The number of the batch of each row of `y`, sorted.

    Returns:
        The int32 rows of `y` (number of x,), the first of equally near ones.
    """
    _check_points(x, y)
    _check_batch_lengths(x, y, len(batch_x), len(batch_y))
    check_batches(batch_x, batch_y)
    if x.is_meta:
        return torch.empty(x.shape[0], dtype=torch.int32, device="meta")
    return nearest_points(x, y, torch.tensor(batch_x), torch.tensor(batch_y))
