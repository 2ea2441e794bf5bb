"""Products with bias and activation, which run as one kernel, against float64 NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import popxl
from popxl import ops


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": gelu,
    "none": lambda x: x,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("rows", [(5,), (70,), (3, 40)], ids=str)
@pytest.mark.parametrize("columns", [10, 48])
def test_linear_with_activation(activation: str, rows: tuple[int, ...], columns: int) -> None:
    random = np.random.default_rng(3)
    x = random.standard_normal((*rows, 64)).astype(np.float32)
    w = random.standard_normal((64, columns)).astype(np.float32)
    b = random.standard_normal(columns).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph:
        y = popxl.variable(x) @ popxl.variable(w) + popxl.variable(b)
        if activation != "none":
            y = getattr(ops, activation)(y)
        stream = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(stream, y)
    with popxl.Session(ir, "cpu") as session:
        given = session.run()[stream]
        program = session._pb_session.program.disassembly()
    assert [line.split()[0] for line in program.splitlines()[1:] if line] == ["Fused", "HostStore"]
    wanted = ACTIVATIONS[activation](x.astype(np.float64) @ w + b)
    np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-5)
