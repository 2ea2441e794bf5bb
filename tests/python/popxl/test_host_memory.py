"""What the values of variables take of the host's memory."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import popxl
from pando import checkpoint
from pando.process_memory import resident_bytes
from pando.settings import use_session_settings
from popxl import host_pages, ops
from popxl.utils import to_numpy

MIB = 2**20
LARGE = (16 * MIB,)  # elements
HALF_OF_ONE = 32 * MIB  # bytes of LARGE float32; allocators may keep less than this


@pytest.mark.parametrize("given", [np.float64, np.float32, np.int32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("is_broadcast", [False, True])
def test_zeros_take_no_memory_on_the_host(given: Any, is_broadcast: bool) -> None:
    # Memory that was used and freed is what allocators hand out next.
    used = [np.ones(MIB // 4, np.float32) for _ in range(64)]
    del used
    zeros = np.broadcast_to(given(0), LARGE) if is_broadcast else np.zeros(LARGE, given)
    before = resident_bytes()
    with popxl.Ir().main_graph:
        variables = [popxl.variable(zeros, popxl.float32) for _ in range(4)]
        assert resident_bytes() - before < HALF_OF_ONE
        assert not variables[0]._record.data.any()


def test_an_update_of_zeros_starts_from_zeros_again() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.zeros((300, 200)), popxl.float32)
        v += 1.0
    with popxl.Session(ir) as session:
        session.run()
        session.weights_from_host()
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), np.ones((300, 200), np.float32))


@pytest.mark.parametrize("shape", [(3, 5), (333, 201)])
def test_values_are_copied_as_numpy_converts_them(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).normal(0, 9, shape)
    values[0] = [-0.0, np.inf, np.nan, 1e300, 0.0] + [7.0] * (shape[1] - 5)
    forms = {"C": values, "F": np.asfortranarray(values), "reversed": values[::-1, ::-1]}
    forms["zero strides"] = np.broadcast_to(values[0], shape)
    forms["negative zeros"] = np.full(shape, -0.0)
    forms["zeros"] = np.zeros(shape)
    forms["other byte order"] = values.astype(">f8")
    for name, given in forms.items():
        for dtype in (popxl.float32, popxl.float16, popxl.bfloat16, popxl.float64, None):
            kind = np.dtype(np.float32) if dtype is None else dtype.as_numpy()
            found = to_numpy(given, dtype)
            with np.errstate(over="ignore"):
                wanted = given.astype(kind)
            if name == "other byte order" and dtype is None:
                continue  # 64 bits of another order are no float64 to be made smaller
            assert (found.dtype, found.shape) == (kind, shape)
            assert found.flags.c_contiguous and found.flags.writeable
            assert found.tobytes() == wanted.tobytes(), (name, dtype)
            assert not np.may_share_memory(found, given)


def test_writing_a_variable_leaves_the_others_on_the_device() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        trained = popxl.variable(np.zeros(LARGE, np.float32))
        rate = popxl.variable(np.float32(1))
        ops.scaled_add_(trained, popxl.constant(np.ones(LARGE, np.float32)), b=rate)
    with popxl.Session(ir) as session:
        session.run()
        before = resident_bytes()
        session.write_variable_data(rate, 0.5)
        assert resident_bytes() - before < HALF_OF_ONE
        session.run()
        assert session.get_tensor_data(trained)[:3].tolist() == [1.5] * 3
        assert session.get_tensor_data(rate) == 0.5


def test_arrays_that_lie_together_give_their_memory_back_one_by_one() -> None:
    shape = (3, MIB // 8)  # of 1.5 MiB, so that huge pages have parts of two
    given = [np.full(shape, i + 1, np.float32) for i in range(96)]
    arrays = [to_numpy(one, popxl.float32) for one in given]
    before = resident_bytes()
    views = [array[1:] for array in arrays]
    for i in range(1, 96, 4):
        arrays[i] = views[i] = given[i]  # the array is gone
        assert host_pages.give_up(arrays[i + 1])
        views[i + 2] = given[0]
    after = resident_bytes()
    assert before - after > 0.9 * 48 * given[0].nbytes
    for i, (array, wanted) in enumerate(zip(arrays, given, strict=True)):
        np.testing.assert_array_equal(array, 0 * wanted if i % 4 == 2 else wanted)
    arrays[2][:] = given[2]
    np.testing.assert_array_equal(arrays[2], given[2])
    np.testing.assert_array_equal(views[0], given[0][1:])
    assert not host_pages.give_up(given[0])


def test_too_large_arrays_are_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="bytes for an array of shape"):
        to_numpy(np.broadcast_to(np.float32(1), (2**46,)), popxl.float32)


PROGRAM = """
import sys
import numpy as np
import popxl
from pando import checkpoint
from pando.settings import use_session_settings

ir = popxl.Ir()
with ir.main_graph, popxl.in_sequence():
    variables = [popxl.variable(np.zeros(4 << 20), popxl.float32) for _ in range(8)]
    for v in variables:
        v += 1.0

def peak_kibibytes():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

"""
LEAVING = """
with popxl.Session(ir) as session:
    session.run()
    before = peak_kibibytes()
print((peak_kibibytes() - before) // 1024)
assert all((session.get_tensor_data(v) == 1).all() for v in variables)
"""
SAVING = """
with popxl.Session(ir) as session:
    session.run()
    before = peak_kibibytes()
    checkpoint.save(session, sys.argv[1], step=1)
    print((peak_kibibytes() - before) // 1024)
    session.run()
    checkpoint.load(session, sys.argv[1])
assert all((session.get_tensor_data(v) == 1).all() for v in variables)
"""


READING = """
with use_session_settings(keep_host_values=False):
    session = popxl.Session(ir)
with session:
    session.run()
    before = peak_kibibytes()
    values = session.get_variables()
    print((peak_kibibytes() - before) // 1024 - 128)
    assert all((value == 1).all() for value in values.values())
"""
WRITING = """
values = {v.name: np.full(4 << 20, 7, np.float32) for v in variables}
with use_session_settings(keep_host_values=False):
    session = popxl.Session(ir)
with session:
    session.run()
    before = peak_kibibytes()
    session.set_variables(values)
    print((peak_kibibytes() - before) // 1024)
    session.run()
assert all((session.get_tensor_data(v) == 8).all() for v in variables)
"""


@pytest.mark.parametrize(
    ("program", "mebibytes"),
    [(LEAVING, 16), (SAVING, 16), (READING, 64), (WRITING, 64)],
    ids=["leaving", "saving", "reading", "writing"],
)
def test_variables_are_not_held_twice(program: str, mebibytes: int, tmp_path: Path) -> None:
    """Of 128 MiB, so many move at a time."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM + program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(result.stdout) < mebibytes + 24


def test_what_waits_for_the_end_of_a_session_may_fail() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.zeros(3, np.float32))
        v += 1.0

    def fail() -> None:
        raise OSError("the disk is full")

    session = popxl.Session(ir)
    with pytest.raises(OSError, match="disk is full"), session:
        session.run()
        session._before_unload(fail)
    assert not session.is_attached
    assert session.get_tensor_data(v).tolist() == [1.0] * 3


def counting_program() -> tuple[popxl.Ir, popxl.tensor.Variable, popxl.tensor.Variable]:
    """Every run adds 1 to the first variable; the second one is large, too, and stays."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.ones(LARGE), popxl.float32, name="v")
        other = popxl.variable(np.full(LARGE, 2.0), popxl.float32, name="other")
        v += 1.0
        ops.host_store(popxl.d2h_stream((), popxl.float32), ops.sum(other))
    return ir, v, other


@pytest.fixture
def lean() -> Iterator[None]:
    with use_session_settings(keep_host_values=False):
        yield


def first(values: np.ndarray) -> float:
    assert (values == values[0]).all()
    return float(values[0])


@pytest.mark.usefixtures("lean")
def test_values_that_only_the_device_has_take_memory_once() -> None:
    ir, v, other = counting_program()
    before = resident_bytes()
    with popxl.Session(ir) as session:
        assert abs(resident_bytes() - before) < HALF_OF_ONE
        session.run()
        assert session._core.memory.persistent_bytes >= 2 * 4 * LARGE[0]
        assert first(session.get_variable("v")) == 2.0
        session.set_variable("v", np.full(LARGE, 5.0, np.float32))
        session.run()
        assert abs(resident_bytes() - before) < HALF_OF_ONE
        with pytest.raises(ValueError, match=r"no value of the variable 'v'.*keep_host_values"):
            session.weights_from_host()
        assert first(session.get_tensor_data(v)) == 6.0
        assert first(session.get_tensor_data(other)) == 2.0
        # What was shown stays.
        session.run()
        shown = session.get_tensor_data(v)
        session.write_variable_data(v, 1.0)
        session.run()
        assert first(shown) == 1.0
    assert first(session.get_tensor_data(v)) == 2.0
    with session:
        session.run()
    assert first(session.get_tensor_data(v)) == 3.0


@pytest.mark.usefixtures("lean")
@pytest.mark.parametrize("how", ["error", "weights_to_host_on_exit", "by hand"])
def test_no_way_to_leave_a_session_loses_values(how: str) -> None:
    ir, v, other = counting_program()
    session = popxl.Session(ir)
    with contextlib.suppress(ZeroDivisionError), session:
        session.run()
        if how == "error":
            raise ZeroDivisionError
        if how == "weights_to_host_on_exit":
            session.weights_to_host_on_exit = False
        else:
            session._pb_session.setEngineIsLoaded(False)
    assert first(session.get_tensor_data(v)) == 2.0
    assert first(session.get_tensor_data(other)) == 2.0
    with session:
        session.run()
        session.weights_to_host()
        assert first(session.get_tensor_data(v)) == 3.0


@pytest.mark.usefixtures("lean")
def test_sessions_that_keep_what_the_host_had_on_exit_keep_it() -> None:
    ir, v, _ = counting_program()
    session = popxl.Session(ir, weights_to_host_on_exit=False)
    for _ in range(2):
        with session:
            session.run()
            session.weights_from_host()
    assert first(session.get_tensor_data(v)) == 1.0


@pytest.mark.usefixtures("lean")
def test_another_session_is_told_that_only_a_device_has_the_values() -> None:
    ir, _, _ = counting_program()
    one, two = popxl.Session(ir), popxl.Session(ir)
    with one:
        one.run()
        with pytest.raises(ValueError, match="no value of the variable"), two:
            pass
        with pytest.raises(ValueError, match="no value of the variable"):
            two.get_variable("v")
        assert not two.is_attached
        one.weights_to_host()
        with two:
            two.run()
            assert first(two.get_variable("v")) == 3.0
    with two:
        assert first(two.get_variable("v")) == 2.0


@pytest.mark.usefixtures("lean")
def test_values_on_the_device_alone_are_in_checkpoints(tmp_path: Path) -> None:
    ir, v, _ = counting_program()
    with popxl.Session(ir) as session:
        session.run()
        checkpoint.save(session, tmp_path / "at 2", step=1)
        session.run()
        checkpoint.load(session, tmp_path / "at 2")
        assert first(session.get_variable("v")) == 2.0
        session.run()
    assert first(session.get_tensor_data(v)) == 3.0


@pytest.mark.usefixtures("lean")
def test_values_of_replicas_and_remote_buffers_come_back() -> None:
    ir = popxl.Ir(replication=2)
    values = np.arange(2 * MIB, dtype=np.float32).reshape(2, -1)
    with ir.main_graph, popxl.in_sequence():
        grouped = popxl.variable(
            values, name="grouped", replica_grouping=ir.replica_grouping(group_size=1)
        )
        grouped += 1.0
        buffer = popxl.remote_buffer((MIB,), popxl.float32, 1)
        remote = popxl.remote_variable(values[1], buffer, 0, name="remote")
        ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) * 2.0)
        handle, shard = popxl.replica_sharded_variable(values[0], popxl.float32, "sharded")
        shard += 3.0
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_variable("sharded"), values[0] + 3.0)
    np.testing.assert_array_equal(session.get_tensor_data(grouped), values + 1.0)
    np.testing.assert_array_equal(session.get_tensor_data(remote), values[1] * 2.0)
    np.testing.assert_array_equal(session.get_tensor_data(handle), values[0] + 3.0)
