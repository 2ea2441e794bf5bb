"""Sorts, buckets and running products against NumPy and torch."""

import numpy as np
import pytest
import torch

import popart
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random

DTYPES = [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.uint32]
DTYPES += [np.int64, np.uint64, np.bool_]


def _torch_sort(x, dim, descending):
    values, indices = torch.sort(torch.from_numpy(x), dim=dim, descending=descending, stable=True)
    return values.numpy(), indices.numpy().astype(np.int32)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [1, 7, 300])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in (np.uint32, np.uint64)])
def test_sort(dtype, size, descending):
    # Few different values: many equals, whose order shows.
    x = np.random.default_rng(size).integers(0, 9, (3, size, 2)).astype(dtype)
    check(lambda t: ops.sort(t, 1, descending), lambda a: _torch_sort(a, 1, descending), x)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.int32, np.int64])
def test_sort_far_apart(dtype):
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, 500, dtype=dtype, endpoint=True)
    values, indices = outputs(lambda t: ops.sort(t), x)
    np.testing.assert_array_equal(values, np.sort(x))
    np.testing.assert_array_equal(indices, np.argsort(x, kind="stable"))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [12, 260])
def test_sort_special_values(size, descending):
    pool = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, -1e-37], np.float32)
    x = pool[np.random.default_rng(1).integers(0, len(pool), size)]
    wanted, wanted_indices = _torch_sort(x, 0, descending)
    values, indices = outputs(lambda t: ops.sort(t, 0, descending), x)
    np.testing.assert_array_equal(indices, wanted_indices)
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(np.signbit(values), np.signbit(wanted))


def test_sort_gradient():
    check_gradient(lambda t: ops.sort(t, 1)[0], lambda x: torch.sort(x, dim=1)[0], random(3, 200))


def test_argsort():
    x = random(4, 150)
    check(
        lambda t: ops.argsort(t, 0, True),
        lambda a: np.argsort(-a, axis=0, kind="stable").astype(np.int32),
        x,
    )


def test_sort_refuses_axes():
    with pytest.raises(popart.popart_exception, match="axis 2 is out of range"):
        outputs(lambda t: ops.sort(t, 2), random(3, 4))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
def test_bucketize(dtype, right):
    x = np.random.default_rng(3).integers(0, 12, (4, 50)).astype(dtype)
    boundaries = np.array([1, 3, 3, 8], dtype)
    check(
        lambda t, b: ops.bucketize(t, b, right),
        lambda a, b: np.searchsorted(b, a, side="right" if right else "left").astype(np.int32),
        x,
        boundaries,
    )


@pytest.mark.parametrize("right", [False, True])
def test_bucketize_special_values(right):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    boundaries = np.array([-np.inf, 0.0, np.inf], np.float32)
    wanted = torch.bucketize(torch.from_numpy(x), torch.from_numpy(boundaries), right=right)
    (given,) = outputs(lambda t, b: ops.bucketize(t, b, right), x, boundaries)
    np.testing.assert_array_equal(given, wanted.numpy())


def test_bucketize_refuses():
    with pytest.raises(popart.popart_exception, match="wanted a vector of boundaries"):
        outputs(ops.bucketize, random(3), random(2, 2))
    with pytest.raises(popart.popart_exception, match="wanted boundaries of t's dtype"):
        outputs(ops.bucketize, random(3), random(2, dtype=np.float16))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
def test_cumprod(dtype, reverse):
    x = random(3, 6, 5, low=1.0, high=3.0).astype(dtype)

    def reference(a):
        a = np.flip(a, 1) if reverse else a
        products = np.cumprod(
            a.astype(np.float64 if a.dtype.kind == "f" else a.dtype),
            axis=1,
            dtype=None if a.dtype.kind == "f" else a.dtype,
        )
        return (np.flip(products, 1) if reverse else products).astype(dtype)

    check(lambda t: ops.cumprod(t, 1, reverse), reference, x)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_cumprod_gradient(zeros):
    x = random(2, 7, 3)
    x[:, 2 : 2 + zeros] = 0.0
    check_gradient(lambda t: ops.cumprod(t, 1), lambda a: torch.cumprod(a, 1), x)
    check_gradient(
        lambda t: ops.cumprod(t, 1, True),
        lambda a: torch.flip(torch.cumprod(torch.flip(a, [1]), 1), [1]),
        x,
    )
