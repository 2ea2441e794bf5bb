"""Cutting and joining of host arrays, against what the elements must be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from popxl_addons import array_munging as munge

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_shard_and_unshard(axis: int) -> None:
    x = RNG.normal(size=(4, 6, 2))
    shards = munge.shard(x, 2, axis)
    length = x.shape[axis] // 2
    np.testing.assert_array_equal(shards[1], x.take(range(length, 2 * length), axis))
    np.testing.assert_array_equal(munge.unshard(shards, axis), x)
    np.testing.assert_array_equal(munge.unshard_arrays(list(shards), axis), x)
    with pytest.raises(ValueError):
        munge.unshard_arrays([x, x[0]], 0)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_repeat_adds_an_axis(axis: int) -> None:
    x = RNG.normal(size=(2, 3))
    result = munge.repeat(x, 4, axis)
    for i in range(4):
        np.testing.assert_array_equal(result.take(i, axis), x)


def test_repeat_axis_tiles() -> None:
    x = np.array([[1, 2], [3, 4]])
    assert munge.repeat_axis(x, 2).tolist() == [[1, 2], [3, 4], [1, 2], [3, 4]]
    assert munge.repeat_axis(x, 2, -1).tolist() == [[1, 2, 1, 2], [3, 4, 3, 4]]


@pytest.mark.parametrize(("a1", "a2"), [(0, 1), (1, 0), (2, 0), (-1, -2)])
def test_two_dimensional_shards(a1: int, a2: int) -> None:
    x = RNG.normal(size=(6, 6, 6))
    shards = munge.shard2D(x, 2, 3, a1, a2)
    parts = munge.split2D(x, 2, 3, a1, a2)
    for i, j in product(range(2), range(3)):
        wanted = x.take(range(3 * i, 3 * i + 3), a1).take(range(2 * j, 2 * j + 2), a2)
        np.testing.assert_array_equal(parts[i][j], wanted)
        np.testing.assert_array_equal(shards[3 * i + j], wanted)
    np.testing.assert_array_equal(munge.unshard2D(shards, 2, 3, a1, a2), x)
    with pytest.raises(AssertionError):
        munge.unshard2D(shards, 2, 2, a1, a2)


@pytest.mark.parametrize(
    ("kind", "repeats", "order"),
    [
        ("contiguous", 2, [0, 1, 0, 1]),
        ("strided", 2, [0, 0, 1, 1]),
        ("strided", 4, [0, 0, 1, 1, 0, 0, 1, 1]),
    ],
)
def test_repeat_shard(kind: str, repeats: int, order: list[int]) -> None:
    x = np.arange(4).reshape(2, 2)
    result = munge.repeat_shard(x, repeats, 2, 0, kind)
    np.testing.assert_array_equal(result, [x[[shard]] for shard in order])
    with pytest.raises(ValueError, match="'contiguous' or 'strided'"):
        munge.repeat_shard(x, 2, 2, 0, "other")


@pytest.mark.parametrize(("tp", "rf"), [(1, 1), (2, 4), (4, 4), (1, 4)])
def test_tensor_parallel_input_and_output(tp: int, rf: int) -> None:
    samples = 8
    data = RNG.normal(size=(samples, 3))
    fed = munge.tensor_parallel_input(data, tp, rf)
    transfers = samples * tp // rf
    assert fed.shape == (*(n for n in (transfers, rf) if n > 1), 3)
    full = fed.reshape(transfers, rf, 3)
    for transfer, replica in product(range(transfers), range(rf)):
        sample = (transfer * rf + replica) // tp
        np.testing.assert_array_equal(full[transfer, replica], data[sample])
    args = (transfers, tp, rf, (3,))
    np.testing.assert_array_equal(munge.tensor_parallel_output(fed, *args), data)
    each = munge.tensor_parallel_output(fed, *args, tp_identical=False)
    np.testing.assert_array_equal(each, munge.repeat(data, tp, 1))
    first = munge.tensor_parallel_output(fed, *args, true_num_host_transfers=1)
    np.testing.assert_array_equal(first, data[: rf // tp])


def test_tensor_parallel_input_alters_copies() -> None:
    data = np.zeros((2, 1))
    fed = munge.tensor_parallel_input(data, 2, 2, lambda copy, i: copy + i)
    assert fed[..., 0].tolist() == [[0, 1], [0, 1]]
    assert not data.any()
    for tp, rf in ((4, 2), (3, 4)):
        with pytest.raises(ValueError, match="must divide"):
            munge.tensor_parallel_input(data, tp, rf)


def test_pad_axis() -> None:
    x = np.ones((2, 2))
    assert munge.pad_axis(x, 3, -1, value=5).tolist() == [[1, 1, 5], [1, 1, 5]]
    np.testing.assert_array_equal(munge.pad_axis(x, 2, 0), x)
    with pytest.raises(AssertionError):
        munge.pad_axis(x, 1, 0)


def test_squeeze_safe() -> None:
    x = np.ones((1, 2, 1))
    assert munge.squeeze_safe(x).shape == (2,)
    assert munge.squeeze_safe(x, 0).shape == (2, 1)
    assert munge.squeeze_safe(x, (1, 2)).shape == (1, 2)


def test_handle_negative_axis() -> None:
    x = np.ones((2, 3))
    assert [munge.handle_negative_axis(x, axis) for axis in (0, 1, -1, -2)] == [0, 1, 1, 0]
    for array, axis in ((x, 2), (x, -3), (np.float32(1), 0)):
        with pytest.raises(IndexError):
            munge.handle_negative_axis(np.asarray(array), axis)
