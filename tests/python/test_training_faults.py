"""What goes wrong around long trainings: each a clear error, and no trained state lost.

Faults of remote files are in popxl/test_remote_tiers.py, of checkpoints in
pando/test_checkpoint.py and popxl_addons/test_task_session.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popart
import popxl
import popxl_addons as addons
from pando import checkpoint, safetensors_file
from pando.settings import use_session_settings
from popxl import ops


def counting_program(transfers: int = 2, loads: int = 2) -> Any:
    """Adds each micro-batch to a variable."""
    ir = popxl.Ir()
    ir.num_host_transfers = transfers
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((3,), popxl.float32, "images")
        total = popxl.variable(np.zeros(3, np.float32), name="total")
        for _ in range(loads):
            ops.add_(total, ops.host_load(stream))
    return popxl.Session(ir), stream, total


# Budgets.


def phased_program(elements: int) -> popxl.Ir:
    """`update` needs three times as much as `forward`."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        rows = popxl.remote_buffer((elements,), popxl.float32, 4)
        with popxl.name_scope("forward"):
            ops.remote_store(rows, 0, ops.remote_load(rows, 0) * 0.5)
        with popxl.name_scope("update"):
            parts = [ops.remote_load(rows, i) for i in range(4)]
            ops.remote_store(rows, 1, ops.concat(parts)[elements : 2 * elements])
    return ir


def test_a_phase_beyond_the_budget_is_named_when_it_is_compiled(tmp_path: Path) -> None:
    elements = 1000
    with (
        use_session_settings(
            memory_limit_bytes=5 * 4 * elements, remote_tier="file", remote_folder=tmp_path
        ),
        pytest.raises(popart.OutOfMemoryException) as caught,
    ):
        popxl.Session(phased_program(elements))
    text = str(caught.value)
    assert f"the limit is {5 * 4 * elements}; the phase 'update' needs most" in text
    assert "alive at the peak, in the phase 'update', while" in text
    assert text.count("_remote_loaded") >= 4, text
    assert f"  {4 * elements} bytes  update/" in text
    assert list(tmp_path.iterdir()) == [], "nothing is made for a program that is refused"
    with use_session_settings(memory_limit_bytes=20 * 4 * elements):
        popxl.Session(phased_program(elements))


def test_a_graph_beyond_the_budget_is_named(tmp_path: Path) -> None:
    class Layer(addons.Module):
        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            y = x
            for _ in range(10):
                y = ops.gelu(y @ y)
            return y

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.ones((50, 50), np.float32))
        _, graph = Layer().create_graph(x)
        for _ in range(2):
            (x,) = graph.call(x)
        ops.host_store(popxl.d2h_stream(x.shape, x.dtype), x)
    with (
        use_session_settings(memory_limit_bytes=100),
        pytest.raises(popart.OutOfMemoryException, match="Layer_subgraph"),
    ):
        popxl.Session(ir)


# Micro-batches.


def test_fewer_micro_batches_than_the_program_has_are_refused() -> None:
    session, stream, total = counting_program(transfers=2)
    with session:
        session.run({stream: np.ones((2, 3), np.float32)})
        with pytest.raises(ValueError, match=r"\(1, 3\) .*images.*the 2 host transfers"):
            session.run({stream: np.ones((1, 3), np.float32)})
        assert session.get_tensor_data(total).tolist() == [2, 2, 2]
        # More are legal: the first ones count.
        session.run({stream: np.arange(9, dtype=np.float32).reshape(3, 3)})
        assert session.get_tensor_data(total).tolist() == [5, 7, 9]


@pytest.mark.parametrize("loop", [False, True])
def test_more_loads_than_micro_batches_read_them_again_and_say_so(
    loop: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    if loop:
        ir = popxl.Ir()
        ir.num_host_transfers = 2
        with ir.main_graph, popxl.in_sequence():
            stream = popxl.h2d_stream((3,), popxl.float32, "images")
            total = popxl.variable(np.zeros(3, np.float32), name="total")

            def step(t: popxl.TensorByRef) -> None:
                ops.add_(t, ops.host_load(stream))

            ops.repeat(ir.create_graph(step, total), 3, total)
        session = popxl.Session(ir)
    else:
        session, stream, total = counting_program(transfers=2, loads=3)
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    with session:
        for _ in range(2):
            session.run({stream: data})
        np.testing.assert_array_equal(
            session.get_tensor_data(total), 2 * data[[0, 1, 0]].sum(axis=0)
        )
    (line,) = capfd.readouterr().err.splitlines()  # once
    assert "loads the stream 'images' 3 times" in line
    assert "its array is for 2" in line
    assert "set ir.num_host_transfers to 3" in line


def test_more_stores_than_micro_batches_keep_the_last_ones(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ir = popxl.Ir()
    ir.num_host_transfers = 2
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.d2h_stream((2,), popxl.float32, "losses")
        for value in (1.0, 2.0, 3.0):
            ops.host_store(stream, popxl.constant(np.full(2, value, np.float32)))
    with popxl.Session(ir) as session:
        assert session.run()[stream].tolist() == [[3, 3], [2, 2]]
    (line,) = capfd.readouterr().err.splitlines()
    assert "stores to the stream 'losses' 3 times" in line


def test_fewer_loads_than_micro_batches_are_legal() -> None:
    session, stream, total = counting_program(transfers=4, loads=2)
    with session:
        session.run({stream: np.arange(12, dtype=np.float32).reshape(4, 3)})
        assert session.get_tensor_data(total).tolist() == [3, 5, 7]


# Shards.


def test_more_shards_than_elements() -> None:
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        small = popxl.TensorSpec((2,), popxl.float32)
        with pytest.raises(ValueError, match=r"2 elements of shape .* cannot be sharded"):
            addons.create_remote_buffer(small)
        with pytest.raises(ValueError, match=r"2 elements of shape .* over 4 replicas"):
            addons.VariableFactory(lambda: np.zeros(2, np.float32), shard_over=4)
        with pytest.raises(ValueError, match=r"2 elements of shape .* over 4 replicas"):
            addons.add_replica_sharded_variable_input("w", lambda: np.zeros(2, np.float32))
        with pytest.raises(ValueError, match="shard_over must divide the group size 4; given 8"):
            popxl.replica_sharded_buffer((8,), popxl.float32, shard_over=8)
        # The core's own rule pads: replicas beyond the last element hold zeros.
        assert popxl.replica_sharded_buffer((2,), popxl.float32).tensor_shape == (1,)


# Folders.


def stateful_session() -> tuple[popxl.Session, popxl.Tensor]:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        w = popxl.variable(np.zeros(3, np.float32), name="w")
        ops.add_(w, popxl.constant(np.ones(3, np.float32)))
    return popxl.Session(ir), w


def test_a_checkpoint_folder_that_vanishes_is_made_anew(tmp_path: Path) -> None:
    session, w = stateful_session()
    folder = tmp_path / "below" / "checkpoints"
    with session:
        session.run()
        checkpoint.save(session, folder, step=1)
        shutil.rmtree(folder.parent)
        with pytest.raises(checkpoint.CheckpointError, match="no checkpoint in"):
            checkpoint.load(session, folder)
        assert session.get_tensor_data(w).tolist() == [1, 1, 1]
        checkpoint.save(session, folder, step=2)
        session.run()
        assert checkpoint.load(session, folder).step == 2
        assert session.get_tensor_data(w).tolist() == [1, 1, 1]


def test_a_checkpoint_folder_that_vanishes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, w = stateful_session()
    folder = tmp_path / "checkpoints"
    write = safetensors_file.TensorFileWriter.write

    def vanishing(self: Any, piece: int, data: Any) -> None:
        shutil.rmtree(folder)
        write(self, piece, data)

    monkeypatch.setattr(safetensors_file.TensorFileWriter, "write", vanishing)
    with session:
        session.run()
        pending = checkpoint.save_later(session, folder, step=1)
        session.run()
        with pytest.raises(checkpoint.CheckpointError, match="cannot be written"):
            pending.wait()
        assert session.get_tensor_data(w).tolist() == [2, 2, 2]
        monkeypatch.undo()
        checkpoint.save(session, folder, step=2)
        assert checkpoint.load(session, folder).step == 2


# Writes to a folder that it may read only. Argument: the folder.
READ_ONLY = """
import os, sys
from pathlib import Path
import numpy as np
import popart, popxl
import popxl_addons as addons
from pando import checkpoint
from pando.settings import use_session_settings
from popxl import ops

folder = Path(sys.argv[1])
ir = popxl.Ir()
with ir.main_graph, popxl.in_sequence():
    rows = popxl.remote_buffer((3,), popxl.float32, 1)
    w = popxl.variable(np.full(3, 7, np.float32), name="w")
    ops.remote_store(rows, 0, w)
    streams = addons.InputStreams(), addons.OutputStreams()
task = addons.TaskSession(*streams, addons.NamedTensors(w=w), ir=ir, device_desc="cpu")
with use_session_settings(remote_tier="file", remote_folder=folder):
    filed = popxl.Session(ir)
if os.geteuid() == 0:
    os.seteuid(65534)
with popxl.Session(ir) as session:
    for save in (
        lambda: checkpoint.save(session, folder, step=1),
        lambda: checkpoint.save(session, folder / "new", step=1),
        lambda: task.save_checkpoint(folder / "c"),
    ):
        try:
            save()
        except checkpoint.CheckpointError as error:
            print(error)
    assert session.get_tensor_data(w).tolist() == [7, 7, 7]
try:
    filed.__enter__()
except popart.popart_runtime_error as error:
    print(error)
"""


def test_read_only_folders() -> None:
    # Not below the folders of pytest, which other users may not enter.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        script, folder = Path(place) / "program.py", Path(place) / "read-only"
        script.write_text(READ_ONLY, encoding="utf-8")
        folder.mkdir(mode=0o555)
        done = subprocess.run(
            [sys.executable, str(script), str(folder)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert list(folder.iterdir()) == []
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stdout
    for line in lines[:3]:
        assert "cannot be written" in line and "as they were" in line
        assert "Permission denied" in line
    assert "cannot be kept in the folder" in lines[3]
