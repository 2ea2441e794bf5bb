"""A system that gives no more threads: the user is told so, and the process goes on."""

from __future__ import annotations

import resource

import pytest

from tests.python.popxl.beside_a_run import run_child

# A stack is larger than the memory that is left, which is enough for all else.
STACK_BYTES = 64 << 20

CHILD = """
import re, resource, sys
from contextlib import contextmanager
from pathlib import Path
import numpy as np
import popart, popxl
from popxl import ops
from pando import checkpoint
from pando.settings import use_session_settings

LEFT = 32 << 20

@contextmanager
def no_more_threads(what, kind=popart.popart_runtime_error, left=LEFT):
    own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (own + left, most))
    try:
        yield
        error = None
    except kind as raised:
        error = str(raised)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    assert error is not None and re.search(what, error) and "ulimit" in error, error

def doubled(shape, replicas=1, devices=1, rows=0, variable_shape=None):
    ir = popxl.Ir(replicas)
    with ir.main_graph, popxl.in_sequence():
        output = popxl.d2h_stream(shape, popxl.float32)
        v = popxl.variable(np.ones(variable_shape or shape, np.float32))
        x = v * 1.0 + popxl.constant(np.zeros(shape[-1:], np.float32))
        for device in range(1, devices):
            x = x.copy_to_ipu(device)
            with popxl.ipu(device):
                x = x * 1.0
        if devices > 1:
            x = x.copy_to_ipu(0)
        ops.host_store(output, x + x)
        if rows:
            buffer = popxl.remote_buffer(shape, popxl.float32, rows)
            for row in range(rows):
                ops.remote_store(buffer, row, v)
    session = popxl.Session(ir)
    return session, {output: np.zeros(session._full_input_shape(shape), np.float32)}

def check(session, outputs):
    session.run_with_outputs({}, outputs)
    for value in outputs.values():
        assert (value == 2).all()

folder, what = sys.argv[1:]
if what == "replicas":
    session, outputs = doubled((4,), replicas=200)
    with no_more_threads("for the replicas of a session: wanted 199, given 0"):
        session.__enter__()
elif what == "some replicas":
    session, outputs = doubled((4,), replicas=200)
    with no_more_threads("wanted 199, given [1-9]", left=8 * LEFT):
        session.__enter__()
elif what == "devices":
    session, outputs = doubled((4,), devices=3)
    with no_more_threads("for the virtual devices of a replica: wanted 2, given 0"):
        session.__enter__()
elif what == "copies":
    with use_session_settings(num_threads=8):
        session, outputs = doubled((1 << 20,))
    with no_more_threads("for the kernels of a device"):
        session.__enter__()
elif what == "kernels":
    with use_session_settings(num_threads=8):
        session, outputs = doubled((1 << 10, 1 << 10), variable_shape=(1 << 10, 1))
    with session, no_more_threads("for the kernels of a device"):
        session.run_with_outputs({}, outputs)
elif what == "io":
    with use_session_settings(remote_tier="file", remote_folder=folder, remote_io_threads=3):
        session, outputs = doubled((4,), rows=2)
    with no_more_threads("for the I/O of remote buffers in files"):
        session.__enter__()
elif what == "checkpoint":
    session, outputs = doubled((4,), rows=2)
    with session:
        with no_more_threads("no thread to write a checkpoint", checkpoint.CheckpointError):
            checkpoint.save_later(session, folder, step=1, room_bytes=0)
        check(session, outputs)  # its stores wait for no reader
        assert checkpoint.checkpoints(folder) == []
        assert checkpoint.save_later(session, folder, step=2).wait().step == 2
assert not session.is_attached
for used in ((session, outputs), doubled((8,))):
    with used[0]:
        check(*used)
print("went on")
"""


def limit_stacks() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, most))


WHAT = ["replicas", "some replicas", "devices", "copies", "kernels", "io", "checkpoint"]


@pytest.mark.parametrize("what", WHAT)
def test_a_thread_that_cannot_be_made_is_an_error_and_no_end(tmp_path, what: str) -> None:
    child = run_child(CHILD, str(tmp_path), what, preexec_fn=limit_stacks)
    assert child.returncode == 0, child.stderr
    assert child.stdout == "went on\n"
