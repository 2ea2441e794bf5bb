"""Farthest and nearest points on the CPU, beside NumPy and SciPy; and their errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

import poptorch


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def farthest(points, count):
    """The definition, in NumPy."""
    chosen = [0]
    while len(chosen) < count:
        distances = ((points[:, None] - points[chosen]) ** 2).sum(-1).min(1)
        chosen.append(int(distances.argmax()))
    return chosen


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
def test_fps(ratio):
    points, ptr = values(40, 3), [0, 7, 25, 40]
    wanted = [
        begin + row
        for begin, end in ((0, 7), (7, 25), (25, 40))
        for row in farthest(points[begin:end].numpy(), math.ceil((end - begin) * ratio))
    ]
    sampled = poptorch.fps(points, ptr, ratio)
    assert sampled.dtype == torch.int32 and sampled.tolist() == wanted
    assert poptorch.fps(points.to("meta"), ptr, ratio).shape == (len(wanted),)


def test_fps_with_a_random_start_goes_on_from_it():
    torch.manual_seed(1)
    starts = set()
    for _ in range(20):
        first, second = poptorch.fps(torch.tensor([[0.0], [1.0], [5.0]]), [0, 3], 0.6, True)
        assert int(second) == {0: 2, 1: 2, 2: 0}[int(first)]
        starts.add(int(first))
    assert starts == {0, 1, 2}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("points", [0, 4]), "`src` must be a tensor"),
        ((torch.ones(4, 2), (0, 4)), "`ptr` must be a list of integers."),
        ((torch.ones(4, 2), [0, 4.0]), "`ptr` must be a list of integers."),
        ((torch.ones(4, 2), [0]), "`ptr` must have at least two entries"),
        ((torch.ones(4, 2), [0, 4], 1), "`ratio` must be a float"),
        ((torch.ones(4, 2), [0, 4], 0.5, 1), "`random_start` must be a bool"),
        ((torch.ones(4, 2), [0, 4], 0.0), "wanted a ratio above 0 and at most 1"),
        ((torch.ones(4, 2), [0, 4], 1.5), "wanted a ratio above 0 and at most 1"),
        ((torch.ones(4), [0, 4]), r"the shape \(number, dimensions\)"),
        ((torch.ones(4, 2), [0, 5]), "ascends from 0 to the number of points"),
        ((torch.ones(4, 2), [0, 3, 2]), "ascends from 0 to the number of points"),
    ],
)
def test_arguments_of_fps_are_checked(arguments, text):
    with pytest.raises(poptorch.Error, match=text):
        poptorch.fps(*arguments)


def test_nearest():
    x, y = values(30, 3), values(20, 3, seed=1)
    found = poptorch.nearest(x, y)
    assert found.dtype == torch.int32
    assert np.array_equal(found, cKDTree(y.numpy()).query(x.numpy())[1])
    assert poptorch.nearest(x.to("meta"), y.to("meta")).shape == (30,)


BATCH_X, BATCH_Y = [0] * 10 + [1] * 12 + [2] * 8, [0] * 5 + [1] * 8 + [2] * 7


@pytest.mark.parametrize(
    ("batch_x", "batch_y"),
    [
        (BATCH_X, BATCH_Y),
        (torch.tensor(BATCH_X), torch.tensor(BATCH_Y, dtype=torch.int64)),
        (BATCH_X, torch.tensor(BATCH_Y)),
        (torch.tensor(BATCH_X, dtype=torch.int32), BATCH_Y),
    ],
)
def test_nearest_within_batches(batch_x, batch_y):
    x, y = values(30, 3), values(20, 3, seed=1)
    wanted = [
        first + cKDTree(y[first:last].numpy()).query(row.numpy())[1]
        for row, batch in zip(x, BATCH_X, strict=True)
        for first, last in [((0, 5), (5, 13), (13, 20))[batch]]
    ]
    assert poptorch.nearest(x, y, batch_x, batch_y).tolist() == wanted


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([[1.0]], torch.ones(2, 1)), "`x` must be a tensor"),
        ((torch.ones(2, 1), 1.0), "`y` must be a tensor"),
        ((torch.ones(2, 1), torch.ones(2, 1), (0, 0)), "`batch_x` must be a list or a tensor"),
        ((torch.ones(2, 1), torch.ones(2, 1), None, 3), "`batch_y` must be a list or a tensor"),
        ((torch.ones(2, 1), torch.ones(2, 2)), "with the same dimensions"),
        ((torch.ones(2, 1), torch.ones(2, 1), [0], [0, 0]), "given 1 and 2"),
        ((torch.ones(2, 1), torch.ones(2, 1), [1, 0], [0, 1]), "a batch_x that is sorted"),
        ((torch.ones(2, 1), torch.ones(2, 1), [0, 1], [0, 0]), r"given none in \[1\]"),
        (
            (torch.ones(2, 1), torch.ones(2, 1), torch.ones(2, 1), torch.ones(2)),
            "batch numbers of one dimension",
        ),
    ],
)
def test_arguments_of_nearest_are_checked(arguments, text):
    with pytest.raises(poptorch.Error, match=text):
        poptorch.nearest(*arguments)
