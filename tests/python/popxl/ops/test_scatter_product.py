"""scatter_reduce with products against torch."""

import numpy as np
import pytest
import torch

from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, random

INDICES = np.array([[0, 2, 1], [0, 2, 4], [1, 2, 4], [0, 0, 4]], np.int32)


def _torch(data, indices, initial=None, size=5):
    data, indices = torch.as_tensor(data), torch.as_tensor(indices).long()
    if initial is not None:
        return torch.as_tensor(initial).scatter_reduce(0, indices, data, "prod")
    ones = torch.ones((size, *data.shape[1:]), dtype=data.dtype)
    touched = torch.zeros_like(ones).scatter(0, indices, 1.0)
    return ones.scatter_reduce(0, indices, data, "prod") * touched


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_values(dtype):
    x = random(4, 3, low=1.0, high=4.0).astype(dtype)
    initial = random(5, 3, low=1.0, high=4.0, seed=1).astype(dtype)
    check(
        lambda d, i, s: ops.scatter_reduce(d, i, "prod", s),
        lambda *a: _torch(*a).numpy(),
        x,
        INDICES,
        initial,
    )
    if np.issubdtype(dtype, np.floating):
        check(
            lambda d, i: ops.scatter_reduce(d, i, "prod", axis_size=5),
            lambda *a: _torch(*a).numpy(),
            x,
            INDICES,
        )


@pytest.mark.parametrize("zeros", [[], [(0, 0)], [(0, 0), (1, 0)], [(0, 1), (1, 1), (2, 1)]])
def test_gradients_where_factors_are_zero(zeros):
    x, initial = random(4, 3), random(5, 3, seed=1)
    for place in zeros:
        x[place] = 0.0
    initial[2, 1] = initial[3, 0] = 0.0
    check_gradient(
        lambda d, s, i: ops.scatter_reduce(d, i, "prod", s),
        lambda d, s, i: _torch(d, i, s),
        x,
        initial,
        INDICES,
    )
    check_gradient(
        lambda d, i: ops.scatter_reduce(d, i, "prod", axis_size=5),
        lambda d, i: _torch(d, i),
        x,
        INDICES,
    )
