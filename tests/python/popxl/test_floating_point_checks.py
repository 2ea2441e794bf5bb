"""The session option enableFloatingPointChecks: what makes NaN or an infinity ends the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import popart
import popxl
from popxl import ops

X = np.array([1.0, 0.0, 4.0], np.float32)


def run(build: Callable[..., popxl.Tensor], data: Any, enabled: bool = True) -> Any:
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().enableFloatingPointChecks = enabled
    with ir.main_graph, popxl.in_sequence():
        x_in = popxl.h2d_stream(data.shape, popxl.dtype.as_dtype(data.dtype))
        y = build(ops.host_load(x_in))
        y_out = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(y_out, y)
    with popxl.Session(ir) as session:
        return session.run({x_in: data})[y_out]


def masked(x: popxl.Tensor) -> popxl.Tensor:
    is_zero = ops.equal(x, popxl.constant(0.0))
    return ops.softmax(ops.where(is_zero, popxl.constant(-np.inf), x), 0)


MAKES: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("an infinity", lambda x: ops.log(x), np.log),
    ("NaN", lambda x: ops.div(x, x), lambda x: x / x),
    (
        "an infinity",
        lambda x: ops.exp(ops.mul(x, popxl.constant(100.0))),
        lambda x: np.exp(100 * x),
    ),
    ("NaN", lambda x: ops.sqrt(ops.negate(x)), lambda x: np.sqrt(-x)),
]


@pytest.mark.parametrize(("made", "build", "reference"), MAKES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_ops_that_make_such_numbers_end_the_run(
    made: str, build: Callable[..., Any], reference: Callable[..., Any], dtype: Any
) -> None:
    data = X.astype(dtype)
    if dtype == np.float16 and made == "an infinity":
        build = MAKES[0][1]
        reference = np.log
    with pytest.raises(popart.poplar_application_runtime_error) as caught:
        run(build, data)
    assert f"gives {made}, which its operands do not have" in str(caught.value)
    assert "test_floating_point_checks.py" in str(caught.value)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(build, data, enabled=False), reference(data), rtol=1e-3)


def test_numbers_that_are_given_are_no_fault() -> None:
    wanted = np.exp(X - 4) * [1, 0, 1]
    np.testing.assert_allclose(run(masked, X), wanted / wanted.sum(), rtol=1e-6)
    data = np.array([1.0, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(run(lambda x: ops.add(x, x), data), data + data)


def test_a_run_that_was_ended_leaves_weights_and_session_usable() -> None:
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().enableFloatingPointChecks = True
    with ir.main_graph, popxl.in_sequence():
        x_in = popxl.h2d_stream((), popxl.float32)
        weight = popxl.variable(1.0, popxl.float32, name="w")
        ops.add_(weight, ops.log(ops.host_load(x_in)))
    with popxl.Session(ir) as session:
        session.run({x_in: np.float32(np.e)})
        with pytest.raises(popart.poplar_application_runtime_error):
            session.run({x_in: np.float32(0)})
        assert session.get_variable("w") == pytest.approx(2.0)
        session.run({x_in: np.float32(np.e)})
        assert session.get_variable("w") == pytest.approx(3.0)


def test_every_replica_and_device_is_looked_at() -> None:
    ir = popxl.Ir(replication=2)
    ir._pb_ir.getSessionOptions().enableFloatingPointChecks = True
    with ir.main_graph, popxl.in_sequence():
        x_in = popxl.h2d_stream((), popxl.float32)
        x = ops.host_load(x_in)
        with popxl.ipu(1):
            y = ops.log(ops.ipu_copy(x, 1))
        y_out = popxl.d2h_stream((), popxl.float32)
        ops.host_store(y_out, ops.ipu_copy(y, 0))
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run({x_in: np.ones(2, np.float32)})[y_out], [0, 0])
        with pytest.raises(popart.poplar_application_runtime_error, match="gives an infinity"):
            session.run({x_in: np.array([1, 0], np.float32)})
