"""Products of groups of rows against torch."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random

# Ends of groups of ten rows: all used, some empty, rows that belong to none, all in one, in none.
ENDS = [[4, 7, 10], [0, 6, 6], [3, 3, 9], [10, 10, 10], [0, 0, 0]]


def _groups(ends):
    return zip([0, *ends[:-1]], ends, strict=True)


def _matmul(ends):
    def reference(x, w):
        x, w = torch.as_tensor(x), torch.as_tensor(w)
        parts = [x[a:b] @ w[i] for i, (a, b) in enumerate(_groups(ends))]
        return torch.cat([*parts, x.new_zeros(len(x) - ends[-1], w.shape[2])])

    return reference


def _outer(ends):
    def reference(x, y):
        x, y = torch.as_tensor(x), torch.as_tensor(y)
        return torch.stack([x[a:b].T @ y[a:b] for a, b in _groups(ends)])

    return reference


def _constant(ends, dtype=popxl.int32):
    return popxl.constant(ends, dtype)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(("k", "n"), [(5, 7), (1, 1), (64, 130)])
def test_values_and_gradients(ends, k, n):
    arrays = [random(10, k), random(3, k, n, seed=1)]

    def build(x, w):
        return ops.grouped_matmul(x, w, _constant(ends))

    check(build, lambda *a: _matmul(ends)(*a).numpy(), *arrays)
    check_gradient(build, _matmul(ends), *arrays)

    def build_outer(x, y):
        return ops.grouped_outer(x, y, _constant(ends))

    rows = [arrays[0], random(10, n, seed=2)]
    check(build_outer, lambda *a: _outer(ends)(*a).numpy(), *rows)
    check_gradient(build_outer, _outer(ends), *rows)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_matrices_that_are_transposed_views(dtype):
    arrays = [random(10, 6, dtype=dtype), random(3, 9, 6, seed=1, dtype=dtype)]
    ends = ENDS[0]

    def reference(x, w):
        x, w = torch.as_tensor(x), torch.as_tensor(w)
        return _matmul(ends)(x, w.mT)

    def build(x, w):
        return ops.grouped_matmul(x, ops.transpose(w, (0, 2, 1)), _constant(ends))

    def in_float64(*a):
        return reference(*(v.astype(np.float64) for v in a)).numpy().astype(dtype)

    check(build, in_float64, *arrays)
    if dtype is np.float32:
        check_gradient(build, reference, *arrays)


def test_operands_that_are_slices_of_rows():
    x, w = random(10, 12), random(3, 8, 12, seed=1)

    def build(x, w):
        left = ops.slice(x, 2, 10, 1, 1)
        right = ops.slice(w, 1, 6, 1, 2)
        return ops.grouped_matmul(left, right, _constant(ENDS[0]))

    wanted = _matmul(ENDS[0])(x[:, 2:10].copy(), w[:, :, 1:6].copy())
    check(build, lambda *_: wanted.numpy(), x, w)


@pytest.mark.parametrize("k", [1, 5])
def test_axes_of_one_element_whose_stride_is_negative(k):
    x, w = random(3, k + 2), random(4, k, 6, seed=1)

    def build(x, w):
        row = ops.slice(x, 2, 1, -1, 0)
        left = ops.slice(row, 2, 1, -1, 1) if k == 1 else ops.slice(row, 1, k + 1, 1, 1)
        return ops.grouped_matmul(left, ops.slice(w, 3, 2, -1, 0), _constant([1]))

    first = 2 if k == 1 else 1
    wanted = x[2:, first : first + k] @ w[3]
    check(build, lambda *_: wanted, x, w)


@pytest.mark.parametrize("dtype", [popxl.int64, popxl.uint8, popxl.int16])
def test_ends_of_any_integers(dtype):
    arrays = [random(10, 5), random(3, 5, 7, seed=1)]
    (given,) = outputs(lambda x, w: ops.grouped_matmul(x, w, _constant(ENDS[2], dtype)), *arrays)
    np.testing.assert_allclose(given, _matmul(ENDS[2])(*arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "counted"), [([-3, 5, 2**31 - 1], [0, 5, 10]), ([6, 4, 8], [6, 6, 8])]
)
def test_ends_out_of_order_or_range_count_as_the_nearest(given, counted):
    arrays = [random(10, 5), random(3, 5, 7, seed=1)]
    check(
        lambda x, w: ops.grouped_matmul(x, w, _constant(given)),
        lambda *a: _matmul(counted)(*a).numpy(),
        *arrays,
    )
    rows = [arrays[0], random(10, 4, seed=2)]
    check(
        lambda x, y: ops.grouped_outer(x, y, _constant(given)),
        lambda *a: _outer(counted)(*a).numpy(),
        *rows,
    )


def test_rows_that_belong_to_no_group_do_not_spread_what_is_no_number():
    x = random(10, 5)
    x[9] = np.nan
    w = random(3, 5, 7, seed=1)
    (given,) = outputs(lambda x, w: ops.grouped_matmul(x, w, _constant(ENDS[2])), x, w)
    assert np.isfinite(given).all()


@pytest.mark.parametrize(
    ("x", "w", "ends", "message"),
    [
        ((10, 5), (3, 6, 7), [1, 2, 3], r"wanted x \(rows, k\), w \(groups, k, n\)"),
        ((10, 5), (3, 5, 7), [1, 2], r"and ends \(groups\)"),
        ((10,), (3, 5, 7), [1, 2, 3], r"wanted x \(rows, k\)"),
    ],
)
def test_shapes_that_do_not_fit(x, w, ends, message):
    ir = popxl.Ir()
    with ir.main_graph, pytest.raises(popart.popart_exception, match=message):
        ops.grouped_matmul(popxl.variable(np.ones(x)), popxl.variable(np.ones(w)), _constant(ends))


def test_rows_of_an_outer_product_must_be_equally_many():
    ir = popxl.Ir()
    with ir.main_graph, pytest.raises(popart.popart_exception, match="equally many rows"):
        left, right = popxl.variable(np.ones((4, 2))), popxl.variable(np.ones((3, 2)))
        ops.grouped_outer(left, right, _constant([1, 3]))
