"""What the values of variables take of the host's memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import popxl
from popxl import ops
from popxl.utils import to_numpy

MIB = 2**20
LARGE = (16 * MIB,)


def resident_bytes() -> int:
    """Those of this process now, as the kernel says."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status: no line VmRSS")


@pytest.mark.parametrize("given", [np.float64, np.float32, np.int32, ml_dtypes.bfloat16])
def test_zeros_take_no_memory_on_the_host(given: Any) -> None:
    # Memory that was used and freed is what allocators hand out next.
    used = [np.ones(MIB // 4, np.float32) for _ in range(64)]
    del used
    zeros = np.zeros(LARGE, given)
    before = resident_bytes()
    with popxl.Ir().main_graph:
        variables = [popxl.variable(zeros, popxl.float32) for _ in range(4)]
        assert resident_bytes() - before < 8 * MIB
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
        assert resident_bytes() - before < 8 * MIB
        session.run()
        assert session.get_tensor_data(trained)[:3].tolist() == [1.5] * 3
        assert session.get_tensor_data(rate) == 0.5


def test_too_large_arrays_are_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="bytes for an array of shape"):
        to_numpy(np.broadcast_to(np.float32(1), (2**46,)), popxl.float32)


LEAVING = """
import numpy as np
import popxl
from popxl import ops

ir = popxl.Ir()
with ir.main_graph, popxl.in_sequence():
    variables = [popxl.variable(np.zeros(4 << 20), popxl.float32) for _ in range(8)]
    for v in variables:
        v += 1.0

def peak_kibibytes():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

with popxl.Session(ir) as session:
    session.run()
    before = peak_kibibytes()
print((peak_kibibytes() - before) // 1024)
assert all((session.get_tensor_data(v) == 1).all() for v in variables)
"""


def test_leaving_a_session_does_not_hold_variables_twice() -> None:
    result = subprocess.run(
        [sys.executable, "-c", LEAVING], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) < 40, "of 128 MiB that come back, 16 MiB at a time"


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
