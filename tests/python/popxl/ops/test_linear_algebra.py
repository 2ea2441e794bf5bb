"""Triangular systems and the Cholesky factor against torch."""

import numpy as np
import pytest
import torch

import popart
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random

FLAGS = [(u, t, d) for u in (False, True) for t in (False, True) for d in (False, True)]


def _matrix(*shape, dtype=np.float32):
    """Also what is not read holds numbers."""
    values = random(*shape) / shape[-1]
    values += np.eye(shape[-1], dtype=np.float32) * np.where(values > 0, 2, -2)
    return values.astype(dtype)


def _solve(upper, transpose, unit):
    def reference(t, b):
        t, b = torch.as_tensor(t), torch.as_tensor(b)
        triangle = t.triu() if upper else t.tril()
        if transpose:
            triangle = triangle.mT
        return torch.linalg.solve_triangular(
            triangle, b, upper=upper != transpose, unitriangular=unit
        )

    return reference


@pytest.mark.parametrize(("upper", "transpose", "unit"), FLAGS)
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 7, 1), (40, 130), (1, 1)])
def test_triangular_solve(shape, upper, transpose, unit):
    arrays = [_matrix(*shape[:-1], shape[-2]), random(*shape, seed=1)]
    reference = _solve(upper, transpose, unit)

    def build(t, b):
        return ops.triangular_solve(t, b, upper, transpose, unit)

    check(build, lambda *a: reference(*a).numpy(), *arrays)
    check_gradient(build, reference, *arrays)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_triangular_solve_in_other_dtypes(dtype):
    arrays = [_matrix(4, 4, dtype=dtype), random(4, 3, dtype=dtype)]

    def reference(t, b):
        wide = _solve(False, False, False)(t.astype(np.float64), b.astype(np.float64))
        return wide.numpy().astype(dtype)

    check(ops.triangular_solve, reference, *arrays)


def _definite(*shape):
    values = random(*shape)
    return values @ np.swapaxes(values, -1, -2) + np.eye(shape[-1], dtype=np.float32)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (3, 2, 5, 5), (150, 150)])
def test_cholesky(shape, upper):
    x = _definite(*shape).astype(np.float32)
    (given,) = outputs(lambda t: ops.cholesky(t, upper), x)
    wanted = torch.linalg.cholesky(torch.from_numpy(x.astype(np.float64)), upper=upper).numpy()
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-4)
    if shape[-1] < 100:
        check_gradient(
            lambda t: ops.cholesky(t, upper), lambda a: torch.linalg.cholesky(a, upper=upper), x
        )


def test_cholesky_of_what_has_no_factor():
    x = np.stack([np.diag([1.0, -1.0, 2.0]), np.eye(3), np.full((3, 3), np.nan)])
    (given,) = outputs(ops.cholesky, x.astype(np.float32))
    assert np.isnan(given[0]).all()
    np.testing.assert_array_equal(given[1], np.eye(3))
    assert np.isnan(given[2]).all()


def test_what_is_refused():
    with pytest.raises(popart.popart_exception, match="wanted square matrices"):
        outputs(ops.cholesky, random(3, 4))
    with pytest.raises(popart.popart_exception, match="wanted b with 3 rows"):
        outputs(ops.triangular_solve, random(3, 3), random(4, 2))
    with pytest.raises(popart.popart_exception, match="float16, float32 or float64"):
        outputs(ops.cholesky, np.eye(3, dtype=np.int32))
