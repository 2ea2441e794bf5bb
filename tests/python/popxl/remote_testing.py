"""Programs and settings for tests of remote buffers in files."""

import numpy as np

import popxl
from pando.settings import use_session_settings
from popxl import ops
from tests.python.popxl.replica_testing import store


def files(folder, **changes):
    """Settings of the file tier, with small budgets."""
    settings = {
        "num_threads": 1,
        "remote_tier": "file",
        "remote_folder": str(folder),
        "remote_staging_bytes": 1 << 20,
        "remote_prefetch_bytes": 1 << 20,
    }
    return use_session_settings(**{**settings, **changes})


def phases_program(width=5000):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((width,), popxl.float32, 4)
        for i in range(4):
            popxl.remote_variable(np.full(width, i + 1, np.float32), buffer, i)
        x = ops.remote_load(buffer, 0)
        total = x
        for i in range(1, 4):
            total = ops.cumsum(total, 0) + ops.remote_load(buffer, i)
        output = store(total)
    return ir, output
