"""Sessions that several threads use, that signals interrupt and that processes leave."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

import popart
from tests.python.popxl.beside_a_run import LongProgram, run_child

CALLS = Path(__file__).parent / "session_calls.py"


@pytest.mark.parametrize("table", ["session", "internal", "core", "helpers"])
def test_every_method_returns_beside_a_run(table: str) -> None:
    """The script fails for a method that its tables do not know."""
    child = run_child(CALLS.read_text(), table)
    assert child.returncode == 0, child.stderr
    assert len(json.loads(child.stdout)) >= 10


ARRAYS = """
import gc, weakref
import numpy as np
from tests.python.popxl.beside_a_run import LongProgram, Watch

with Watch() as watch:
    core = LongProgram().session._core
    inputs, outputs = [np.array(True)], [np.zeros(4, np.int32)]
    arrays = [weakref.ref(array) for array in (*inputs, *outputs)]

    def forget():
        inputs.clear()
        outputs.clear()
        gc.collect()
        return [array() is not None for array in arrays]

    held = watch.beside(lambda: core.run(inputs, outputs), forget)
    assert held == [True, True], held
    assert [array() for array in arrays] == [None, None]

    store = bytearray(16)

    def resize():
        try:
            store.clear()
        except BufferError:
            return True

    assert watch.beside(lambda: core.run([np.array(True)], [store]), resize)
    core.run([np.array(False)], [store])
    assert np.frombuffer(store, np.int32).tolist() == [2] * 4
    store.clear()
"""


def test_arrays_are_held_while_a_run_uses_them() -> None:
    child = run_child(ARRAYS)
    assert child.returncode == 0, child.stderr


LEAVE = """
import os, sys, threading
from tests.python.popxl.beside_a_run import LongProgram, Watch

with Watch() as watch:
    program = LongProgram()
    threading.Thread(target=program.run_long, daemon=True).start()
    watch.wait_for_a_run()
    waiting = program.session._core.weights_to_host
    threading.Thread(target=waiting, daemon=True).start()
"""


def test_a_process_ends_while_threads_are_in_a_session() -> None:
    child = run_child(LEAVE)
    assert (child.returncode, child.stderr) == (0, "")


WAITING = """
import os, signal, sys, threading
from tests.python.popxl.beside_a_run import LongProgram, Watch

with Watch() as watch:
    program = LongProgram()
    threading.Thread(target=program.run_long, daemon=True).start()
    watch.wait_for_a_run()
    calling = threading.Event()

    def interrupt():
        calling.wait()
        os.kill(os.getpid(), signal.SIGINT)

    for call in (program.session._core.trace, program.run_short):
        calling.clear()
        threading.Thread(target=interrupt).start()
        calling.set()
        try:
            call()
            raise AssertionError("the other thread's run ended")
        except KeyboardInterrupt:
            pass
"""


def test_a_call_that_waits_for_another_threads_run_is_interrupted() -> None:
    child = run_child(WAITING)
    assert (child.returncode, child.stderr) == (0, "")


def test_a_signal_handler_that_calls_the_session_of_the_run_is_told() -> None:
    program = LongProgram()

    def handler(*_: object) -> None:
        program.session.get_tensor_data(program.v)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        # The handler is called within the run, however late the signal comes.
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(popart.popart_exception, match="from within a call of its own"):
            program.run_long()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    program.run_short()
    # The run was stopped before the variable changed, or after.
    assert np.ptp(program.session.get_tensor_data(program.v)) == 0
    program.session.__exit__(None, None, None)


READER = """
import os, signal, sys, threading
import numpy as np
import popxl
from popxl import ops
from pando.settings import use_session_settings
from tests.python.popxl.beside_a_run import Watch

folder, tier, staging, replicas = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
ROWS, SHAPE = 3, (2048,)
ir = popxl.Ir(replicas)
with ir.main_graph, popxl.in_sequence():
    buffer = popxl.remote_buffer(SHAPE, popxl.int32, ROWS)
    v = popxl.variable(np.ones(SHAPE, np.int32), name="v")
    ops.print_tensor(popxl.constant(1), title="inside")
    for row in range(ROWS):
        ops.remote_store(buffer, row, v)
with use_session_settings(
    remote_tier=tier, remote_folder=folder, remote_staging_bytes=staging, num_threads=1
):
    session = popxl.Session(ir)
def interrupt():
    watch.wait_for_a_run(replicas)
    os.kill(os.getpid(), signal.SIGINT)

with Watch() as watch, session:
    core = session._core
    snapshot = core.snapshot(0)  # that nobody reads
    for is_again in range(2):
        threading.Thread(target=interrupt).start()
        try:
            session.run()
            raise AssertionError("the run did not wait for the reader")
        except KeyboardInterrupt:
            pass
    # The reader has what there was; then the program goes on.
    row, found = np.ones(SHAPE, np.int32), []
    while (place := snapshot.next_row(row)) is not None:
        assert not row.any()
        found.append((place.replica, place.slot))
    assert sorted(found) == [(r, s) for r in range(replicas) for s in range(ROWS)]
    session.run()
    watch.wait_for_a_run(replicas)
    for replica in range(replicas):
        core.read_remote(replica, 0, ROWS - 1, row)
        assert (row == 1).all()
    # The next snapshot does not wait for that reader, nor does a session that is left.
    unread = core.snapshot(0)
    threading.Thread(target=interrupt).start()
    try:
        session.run()
        raise AssertionError("the run did not wait for the reader")
    except KeyboardInterrupt:
        pass
    assert core.snapshot(0).next_row(row) is not None
"""


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(("tier", "staging"), [("ram", 0), ("file", 0), ("file", 1 << 20)])
def test_a_store_that_waits_for_a_reader_is_interrupted(
    tmp_path: Path, tier: str, staging: int, replicas: int
) -> None:
    child = run_child(READER, str(tmp_path), tier, str(staging), str(replicas))
    assert child.returncode == 0, child.stderr
