"""Denormal numbers: zero in runs, or kept where the settings say so."""

import numpy as np
import pytest

import popxl
from pando.settings import use_session_settings
from popxl import ops

SMALLEST = np.float32(2.0**-126)
# Denormals, alone and as results of normal numbers; more than one block of lanes.
GIVEN = np.concatenate([np.full(70, 2.0**-140), np.full(70, 2.0**-126)]).astype(np.float32)


def halves(**settings):
    """GIVEN * 0.5, pointwise and by a matrix product."""
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(GIVEN)
        outputs = [x * 0.5, ops.reshape(x, (140, 1)) @ popxl.constant(np.full((1, 1), 0.5))]
        streams = []
        for output in outputs:
            streams.append(popxl.d2h_stream(output.shape, output.dtype))
            ops.host_store(streams[-1], output)
    with use_session_settings(**settings), popxl.Session(ir, "cpu") as session:
        results = session.run()
        return [np.array(results[stream]).ravel() for stream in streams]


@pytest.mark.parametrize("machine_code", ["never", "always"])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_denormals(machine_code, num_threads):
    settings = {"machine_code": machine_code, "num_threads": num_threads}
    for result in halves(**settings):
        np.testing.assert_array_equal(result, np.zeros(140, np.float32))
    for result in halves(flush_denormals=False, **settings):
        np.testing.assert_array_equal(result, GIVEN.astype(np.float64) * 0.5)
        assert (result[result != 0] < SMALLEST).all() and result.all()
    # The state of the thread that runs is as it was.
    assert np.float32(2.0**-127) * np.float32(0.5) != 0
