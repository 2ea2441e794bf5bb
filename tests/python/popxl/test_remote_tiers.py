"""Remote buffers in files: the same values as in RAM, faults."""

import errno
import html
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import popart
import popxl
from pando.session_info import session_report
from pando.settings import session_settings, use_session_settings
from popxl import ops
from popxl.ops import collectives
from tests.python.popxl.remote_testing import (
    files,
    phases_program,
    random_program,
    random_steps,
)
from tests.python.popxl.replica_testing import load, store


@pytest.fixture(params=["auto", "threads"])
def io(request, monkeypatch):
    """How files are read and written by sessions that do not say, also in processes they start."""
    monkeypatch.setenv("PANDO_REMOTE_IO", request.param)
    return request.param


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(tmp_path, seed):
    steps = random_steps(seed)
    settings = [
        {},
        {"remote_prefetch_bytes": 0},
        {"remote_staging_bytes": 0},
        {"remote_prefetch_bytes": 5000, "remote_staging_bytes": 9000, "remote_io_threads": 3},
        {"remote_direct": False, "remote_io": "threads"},
        {"remote_tiers": {1: "ram"}},
    ]
    program = random_program(steps, (1027,), dynamic=seed % 2 == 0)
    with files(tmp_path, **settings[seed % len(settings)]):
        session = popxl.Session(program.ir)
    program.check(session, steps)
    assert [path.name for path in tmp_path.iterdir()] == ["pando.lock"]


# Loops, replicas, shards.


def loop_program(rows=6, width=3000):
    """Row i of the second buffer becomes row i of the first, doubled, plus the rows before."""
    data = np.random.default_rng(3).integers(-8, 9, (rows, width)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source = popxl.remote_buffer((width,), popxl.float32, rows)
        target = popxl.remote_buffer((width,), popxl.float32, rows)
        for i, row in enumerate(data):
            popxl.remote_variable(row, source, i)
        results = [
            popxl.remote_variable(np.zeros_like(row), target, i) for i, row in enumerate(data)
        ]

        def body(total, offset: popxl.TensorByRef):
            x = ops.remote_load(source, offset)
            total = total + x
            ops.remote_store(target, offset, total * 2.0)
            offset += 1
            return total

        total = popxl.constant(np.zeros(width, np.float32))
        offset = popxl.variable(0, popxl.uint32)
        (total,) = ops.repeat(ir.create_graph(body, total, offset), rows, total, offset)
        output = store(total)
    return ir, results, output, data


@pytest.mark.usefixtures("io")
def test_a_loop_over_rows(tmp_path):
    ir, results, output, data = loop_program()
    with files(tmp_path):
        session = popxl.Session(ir)
    with session:
        np.testing.assert_array_equal(session.run()[output], data.sum(0))
        for i, variable in enumerate(results):
            wanted = 2 * data[: i + 1].sum(0)
            np.testing.assert_array_equal(session.get_tensor_data(variable), wanted)


def sharded_training(replicas, elements):
    """w -= mean(w - x), with w sharded over the replicas in a remote buffer."""
    value = np.arange(elements, dtype=np.float32)
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.replica_sharded_buffer((elements,), popxl.float32, entries=2)
        w = popxl.remote_replica_sharded_variable(value, buffer, 1)
        stream, x = load((elements,), popxl.float32)
        shard = ops.remote_load(buffer, 1)
        whole = collectives.replicated_all_gather(shard)
        step = collectives.replica_sharded_slice(
            collectives.replicated_all_reduce(whole - x, "mean")
        )
        ops.remote_store(buffer, 1, shard - step)
    return ir, w, stream


@pytest.mark.parametrize("replicas", [2, 3])
def test_sharded_buffers_have_the_same_bits_as_in_ram(tmp_path, replicas):
    elements = 1001
    x = np.random.default_rng(4).standard_normal((replicas, elements)).astype(np.float32)

    def train():
        ir, w, stream = sharded_training(replicas, elements)
        with popxl.Session(ir) as session:
            for _ in range(3):
                session.run({stream: x})
            return session.get_tensor_data(w).copy()

    in_ram = train()
    with files(tmp_path):
        in_files = train()
    np.testing.assert_array_equal(in_files, in_ram)
    np.testing.assert_allclose(in_ram, x.mean(0), atol=1e-3)


def device_program(rows=4, width=2000):
    """Device 0 loads and doubles rows; device 1 adds them to rows of its own, in two rounds."""
    rng = np.random.default_rng(8)
    first, second = rng.integers(-8, 9, (2, rows, width)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source = popxl.remote_buffer((width,), popxl.float32, rows)
        target = popxl.remote_buffer((width,), popxl.float32, rows)
        for i in range(rows):
            popxl.remote_variable(first[i], source, i)
        variables = [popxl.remote_variable(second[i], target, i) for i in range(rows)]
        for _ in range(2):
            for i in range(rows):
                with popxl.ipu(0):
                    x = ops.remote_load(source, i) * 2.0
                    ops.remote_store(source, i, x)
                    x = ops.ipu_copy(x, 1)
                with popxl.ipu(1):
                    ops.remote_store(target, i, x + ops.remote_load(target, i))
    return ir, variables, second + 6 * first


@pytest.mark.parametrize("prefetch", [0, 20_000, 1 << 20])
def test_virtual_devices(tmp_path, prefetch):
    ir, variables, wanted = device_program()
    with files(tmp_path, num_threads=2, remote_prefetch_bytes=prefetch):
        session = popxl.Session(ir)
    with session:
        session.run()
        for variable, row in zip(variables, wanted, strict=True):
            np.testing.assert_array_equal(session.get_tensor_data(variable), row)


# Faults.


def test_settings_are_checked(tmp_path):
    ir, _ = phases_program()
    with use_session_settings(remote_tier="tape"), pytest.raises(ValueError, match="'tape'"):
        popxl.Session(ir)
    with files(""), pytest.raises(ValueError, match="remote_folder"):
        popxl.Session(ir)
    with files(tmp_path, remote_io_threads=0), pytest.raises(ValueError, match="io_threads"):
        popxl.Session(ir)
    with files(tmp_path, remote_staging_bytes=-1), pytest.raises(ValueError, match="staging_bytes"):
        popxl.Session(ir)
    with files(tmp_path, remote_io="tape"), pytest.raises(ValueError, match="'tape'"):
        popxl.Session(ir)


def test_the_environment_chooses_the_tier(tmp_path, monkeypatch):
    monkeypatch.setenv("PANDO_REMOTE_TIER", "file")
    monkeypatch.setenv("PANDO_REMOTE_FOLDER", str(tmp_path))
    assert session_settings().remote()["tier"] == "file"
    ir, _ = phases_program()
    with popxl.Session(ir) as session:
        session.run()
        assert len(list(tmp_path.glob("pando-run-*/buffer-1.replica-0.remote"))) == 1


def io_method(session):
    return session._pb_session.program.io_method


def test_it_is_said_how_files_are_used(tmp_path):
    ir, _ = phases_program()
    with files(tmp_path, remote_tier="ram"):
        assert io_method(popxl.Session(ir)) == ""
    with files(tmp_path, remote_io="threads"):
        session = popxl.Session(ir)
    assert io_method(session) == "threads"
    assert "remote buffers in files: threads\n" in session._pb_session.program.explain()
    with files(tmp_path):
        session = popxl.Session(ir)
    method = io_method(session)
    assert method == "io_uring" or method.startswith("threads (io_uring is not used: ")
    with session:
        report = session_report(session)
    assert f"remote buffers in files: {method}\n" in report.text()
    assert report.as_dict()["io_method"] == method
    assert html.escape(method) in report.html()


# Refuses io_uring as a sandbox does: system calls with its number (the same on every machine) end
# with the given error.
WITHOUT_URING = """
import ctypes, struct, sys
import numpy as np
import popart, popxl
from tests.python.popxl.test_remote_tiers import files, io_method, phases_program

load_number, is_equal, give = 0x20, 0x15, 0x06
rules = [(load_number, 0, 0, 0), (is_equal, 0, 1, 425), (give, 0, 0, 0x00050000 | int(sys.argv[2])),
         (give, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) == 0, ctypes.get_errno()

ir, output = phases_program()
with files(sys.argv[1]):
    session = popxl.Session(ir)
with session:
    assert np.isfinite(session.run()[output]).all()
print(io_method(session))
with files(sys.argv[1], remote_io="io_uring"):
    try:
        popxl.Session(ir)
    except popart.popart_runtime_error as error:
        print(error)
"""


@pytest.mark.parametrize(("error", "why"), [(errno.EPERM, "permitted"), (errno.ENOSYS, "kernel")])
def test_without_io_uring_threads_do_it(tmp_path, error, why):
    said = " ".join(run_python(WITHOUT_URING, tmp_path, error))
    method, _, refused = said.partition(") ")
    assert method.startswith("threads (io_uring is not used: ")
    assert refused.startswith("wanted io_uring for remote buffers in files, but ")
    assert "choose remote_io='auto' or 'threads'" in refused
    if "without liburing" not in method:
        assert why in method and why in refused


@pytest.mark.parametrize("tier", ["ram", "file"])
def test_a_row_out_of_range_costs_no_value(tmp_path, tier):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((4,), popxl.float32, 3)
        w = popxl.variable(np.arange(4, dtype=np.float32))
        stream, entry = load((), popxl.int32)
        ops.remote_store(buffer, 0, w)
        w += 1.0
        output = store(ops.remote_load(buffer, entry))
    with files(tmp_path, remote_tier=tier):
        session = popxl.Session(ir)
    with session:
        for wrong in (3, -1):
            with pytest.raises(popart.popart_runtime_error, match=f"has 3 entries.* {wrong}"):
                session.run({stream: np.array(wrong, np.int32)})
        session.weights_to_host()
        value = session.get_tensor_data(w).copy()
        assert value[0] in (0, 1, 2)  # whether the load came before or after the sum
        result = session.run({stream: np.array(0, np.int32)})[output]
        np.testing.assert_array_equal(result, value)


@pytest.mark.usefixtures("io")
def test_damaged_and_truncated_files_are_named(tmp_path):
    ir, output = phases_program()
    with files(tmp_path):
        session = popxl.Session(ir)
    with session:
        (path,) = tmp_path.glob("pando-run-*/*.remote")
        size = path.stat().st_size
        wanted = session.run()[output]
        with path.open("r+b") as file:
            file.seek(4096 + 2 * 20480 + 100)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))
        where = rf"row 2 of remote buffer 1 in {re.escape(str(path))}"
        with pytest.raises(popart.popart_runtime_error, match=f"{where} is damaged"):
            session.run()
        os.truncate(path, size - 8192 * 2)
        session.weights_from_host()  # writes the rows again
        np.testing.assert_array_equal(session.run()[output], wanted)
        os.truncate(path, 4096 + 3 * 20480)
        with pytest.raises(popart.popart_runtime_error, match=r"row 3 .* truncated"):
            session.run()
        session.weights_from_host()


def test_a_folder_that_cannot_be_used(tmp_path):
    ir, _ = phases_program()
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file", "/proc/pando"):
        with files(folder):
            session = popxl.Session(ir)
        with pytest.raises(popart.popart_runtime_error, match="cannot be kept in the folder"):
            session.__enter__()
        assert not session.is_attached


@pytest.mark.usefixtures("io")
def test_a_folder_that_vanishes_costs_nothing(tmp_path):
    ir, output = phases_program()
    with files(tmp_path / "below"):
        session = popxl.Session(ir)
    with session:
        wanted = session.run()[output]
        for path in sorted((tmp_path / "below").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (tmp_path / "below").rmdir()
        np.testing.assert_array_equal(session.run()[output], wanted)
    with session:  # the folder is made anew
        np.testing.assert_array_equal(session.run()[output], wanted)


def run_python(source, *arguments):
    result = subprocess.run(
        [sys.executable, "-c", source, *map(str, arguments)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout.split()


LIMITED_FILES = """
import resource, sys
import numpy as np
import popart, popxl
from tests.python.popxl.test_remote_tiers import files, loop_program

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

ir, results, output, data = loop_program()
with files(sys.argv[1]):
    session = popxl.Session(ir)
limit(30000)
try:
    session.__enter__()
except popart.popart_runtime_error as error:
    assert "needs 77824 bytes" in str(error) and sys.argv[1] in str(error), error
    print("refused")
limit(resource.RLIM_INFINITY)
with session:
    # No byte of the second buffer's rows from the third on can be written.
    limit(4096 + 2 * 12288)
    try:
        session.run()
    except popart.popart_runtime_error as error:
        assert "cannot write remote buffer 2" in str(error), error
        print("failed")
    # The values were kept, and can be read.
    wanted = [2 * data[: i + 1].sum(0) for i in range(len(data))]
    try:
        session.weights_to_host()
    except popart.popart_runtime_error:
        print("still failed")
    limit(resource.RLIM_INFINITY)
    session.weights_to_host()
    for variable, value in zip(results, wanted):
        np.testing.assert_array_equal(session.get_tensor_data(variable), value)
    print("kept")
"""


@pytest.mark.usefixtures("io")
def test_files_that_may_not_grow(tmp_path):
    assert run_python(LIMITED_FILES, tmp_path)[:2] == ["refused", "failed"]


FULL_DISK = """
import sys
import numpy as np
import popart, popxl
from tests.python.popxl.test_remote_tiers import files, phases_program

ir, output = phases_program()
with files(sys.argv[1]):
    session = popxl.Session(ir)
try:
    session.__enter__()
except popart.popart_runtime_error as error:
    assert "No space left" in str(error) and sys.argv[1] in str(error), error
    print("refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        assert run_python(FULL_DISK, tmp_path) == ["refused"]
        readonly = ["mount", "-o", "remount,ro", str(tmp_path)]
        if subprocess.run(readonly, capture_output=True).returncode == 0:
            ir, _ = phases_program()
            with files(tmp_path):
                session = popxl.Session(ir)
            with pytest.raises(popart.popart_runtime_error, match=r"(?i)read-only"):
                session.__enter__()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
