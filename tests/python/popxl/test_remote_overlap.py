"""Remote transfers beside the program: where loads start, what is in memory, what is counted."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from tests.python.popxl.remote_testing import files, phases_program
from tests.python.popxl.replica_testing import store


def instructions(session):
    text = session._pb_session.program.disassembly()
    return [line.split()[0] for line in text.splitlines()[1:]]


def test_loads_start_early_within_the_budget(tmp_path):
    ir, _ = phases_program()
    with files(tmp_path):
        order = instructions(popxl.Session(ir))
    assert order[:4] == ["RemoteLoadStart"] * 4
    assert order[4] == "RemoteLoadWait"
    assert order.count("RemoteLoadWait") == 4
    with files(tmp_path, remote_prefetch_bytes=0):
        order = instructions(popxl.Session(ir))
    assert order.count("RemoteLoad") == 4
    one_row = {"remote_prefetch_bytes": 5000 * 4 + 1000}
    with files(tmp_path, **one_row):
        order = instructions(popxl.Session(ir))
    started = np.cumsum([name == "RemoteLoadStart" for name in order])
    waited = np.cumsum([name in ("RemoteLoadWait", "RemoteLoad") for name in order])
    assert np.max(started - waited) == 2  # the one that the program asks for, and one early
    assert "RemoteLoadStart" not in instructions(popxl.Session(ir))


def updates_program(width=5000, rows=(0, 1, 2)):
    """Doubles rows, one after the other."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((width,), popxl.float32, 4)
        variables = [
            popxl.remote_variable(np.full(width, i + 1, np.float32), buffer, i) for i in range(4)
        ]
        for row in rows:
            ops.remote_store(buffer, row, ops.cumsum(ops.remote_load(buffer, row), 0))
    return ir, variables


def test_a_load_does_not_wait_for_stores_of_other_rows(tmp_path):
    ir, variables = updates_program()
    with files(tmp_path):
        session = popxl.Session(ir)
    order = instructions(session)
    assert order[:3] == ["RemoteLoadStart"] * 3
    with session:
        session.run()
        for i, variable in enumerate(variables):
            value = np.full(5000, i + 1, np.float32)
            wanted = np.cumsum(value) if i < 3 else value
            np.testing.assert_allclose(session.get_tensor_data(variable), wanted)
    # The second load is of what the first stored.
    ir, variables = updates_program(rows=(1, 1, 2))
    with files(tmp_path):
        session = popxl.Session(ir)
    order = instructions(session)
    assert [name for name in order if "Start" in name or "Store" in name] == [
        "RemoteLoadStart",
        "RemoteLoadStart",
        "RemoteStore",
        "RemoteLoadStart",
        "RemoteStore",
        "RemoteStore",
    ]
    with session:
        session.run()
        wanted = np.cumsum(np.cumsum(np.full(5000, 2, np.float64)))
        np.testing.assert_allclose(session.get_tensor_data(variables[1]), wanted, rtol=1e-4)


def test_phases_have_their_own_rows_only(tmp_path):
    """Rows of several sizes are loaded phase by phase, not size by size."""
    ir = popxl.Ir()
    sizes, phases = (64, 128, 256), 6
    with ir.main_graph, popxl.in_sequence():
        buffers = [popxl.remote_buffer((n, n), popxl.float32, phases) for n in sizes]
        for row in range(phases):
            loaded = [ops.remote_load(buffer, row) for buffer in buffers]
            total = sum((ops.sum(ops.exp(x)) for x in loaded[1:]), ops.sum(loaded[0] @ loaded[0]))
            ops.remote_store(buffers[0], row, loaded[0] * total)
    with files(tmp_path, remote_prefetch_bytes=0):
        memory = popxl.Session(ir)._pb_session.program.memory
    one_phase = 4 * sum(n * n for n in sizes)
    assert memory.peak_frame_bytes < 2 * one_phase


def test_the_report_looks_into_the_frames_of_callees():
    ir = popxl.Ir()

    def branch(x):
        return ops.cumsum(ops.exp(x) @ x, 0)

    with ir.main_graph:
        x = popxl.variable(np.ones((50, 50), np.float32)) + 0.0
        large = ir.create_graph(branch, x)
        small = ir.create_graph(lambda x: x + 1.0, x)
        (y,) = ops.conditional(
            popxl.variable(True, popxl.bool), large, small, then_inputs=[x], else_inputs=[x]
        )
        store(y)
    memory = popxl.Session(ir)._pb_session.program.memory
    alive = memory.alive_at_peak
    frame = next(i for i, tensor in enumerate(alive) if tensor.name.startswith("frame of "))
    assert alive[frame + 1].depth == alive[frame].depth + 1
    assert max(memory.timeline) == memory.peak_frame_bytes
    assert len(memory.timeline) > 4


def test_early_loads_are_given_up_when_they_do_not_fit(tmp_path):
    ir, output = phases_program()
    with files(tmp_path, remote_prefetch_bytes=0):
        plan = popxl.Session(ir)._pb_session.program.memory
    limit = plan.persistent_bytes + plan.peak_frame_bytes
    with files(tmp_path, memory_limit_bytes=limit):
        session = popxl.Session(ir)
    with session:
        assert np.isfinite(session.run()[output]).all()
    with files(tmp_path, memory_limit_bytes=limit - 1), pytest.raises(popart.OutOfMemoryException):
        popxl.Session(ir)


def test_the_report_counts_bytes_and_seconds(tmp_path):
    ir, _ = phases_program()
    with files(tmp_path, profile=True):
        session = popxl.Session(ir)
    with session:
        session.run()
        report = session._pb_session.program.io_report
        assert report.bytes_stored == 4 * 5000 * 4  # the upload of the variables
        assert report.bytes_loaded == 4 * 5000 * 4
        assert report.io_seconds > 0
        assert report.busy_seconds > 0
        assert report.waiting_seconds >= 0
        waits = [row for row in session._pb_session.trace() if "RemoteLoadWait" in row.kernel]
        assert sum(row.calls for row in waits) == 4
