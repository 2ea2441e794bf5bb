"""`tensor[key]` against NumPy."""

import numpy as np
import pytest

import popxl
from popxl import ops

DATA = np.arange(60, dtype=np.float32).reshape(5, 4, 3)


def evaluate(key):
    ir = popxl.Ir()
    with ir.main_graph:
        result = popxl.variable(DATA)[key]
        stream = popxl.d2h_stream(result.shape, result.dtype)
        ops.host_store(stream, result)
    with popxl.Session(ir) as session:
        return session.run()[stream]


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        slice(1, 4),
        slice(None, None, -1),
        slice(4, 0, -2),
        (2, slice(None), 1),
        (slice(0, 5, 2), slice(1, 9), slice(None, None, 2)),
        [0, 3, 3],
        np.array([[1, 2], [4, 0]]),
    ],
    ids=str,
)
def test_like_numpy(key):
    np.testing.assert_array_equal(evaluate(key), DATA[key])


def test_bool_key_keeps_the_shape():
    mask = DATA[:, :1, :1] > 20
    np.testing.assert_array_equal(evaluate(mask), np.where(mask, DATA, 0))


def test_errors():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(DATA)
        for key in (True, "a", 1.0, None, ...):
            with pytest.raises(TypeError):
                v[key]
        for key in (5, (0, ...), (0, 0, 0, 0)):
            with pytest.raises(ValueError, match=r"given|out of range"):
                v[key]
