"""The setting that says whether fused arithmetic becomes machine code."""

import numpy as np
import pytest

import popxl
from pando.settings import use_session_settings
from popxl import ops


def adam_like(seed: int) -> dict[str, np.ndarray]:
    """Some steps of an optimizer on 100,003 values; gives its state."""
    rng = np.random.default_rng(seed)
    values = {
        name: rng.standard_normal(100_003).astype(dtype)
        for name, dtype in (("w", np.float32), ("m", np.float16), ("g", np.float32))
    }
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        w, m, g = (popxl.variable(value, name=name) for name, value in values.items())
        moment = ops.cast(m, popxl.float32) * 0.9 + g * 0.1
        step = moment / (ops.sqrt(ops.abs(g)) + 1e-3)
        ops.var_updates.copy_var_update_(m, ops.cast(moment, popxl.float16))
        ops.var_updates.copy_var_update_(w, w - ops.maximum(step * 0.01, step * 0.02))
    session = popxl.Session(ir, "cpu")
    with session:
        for _ in range(3):
            session.run()
    return {t.name: session.get_tensor_data(t) for t in (w, m)}


def test_results_are_the_same_bit_by_bit() -> None:
    with use_session_settings(machine_code="never"):
        wanted = adam_like(7)
    for choice in ("auto", "always"):
        with use_session_settings(machine_code=choice):
            found = adam_like(7)
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)


def test_an_unknown_choice_is_refused() -> None:
    with (
        use_session_settings(machine_code="sometimes"),
        pytest.raises(ValueError, match="one of 'auto', 'never', 'always'; given 'sometimes'"),
    ):
        adam_like(7)
