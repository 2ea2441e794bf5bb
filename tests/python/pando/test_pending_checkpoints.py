"""Checkpoints that are written while training goes on."""

import errno
import threading

import numpy as np
import pytest

import popxl
from pando import checkpoint, safetensors_file
from pando.process_memory import resident_bytes
from tests.python.pando.checkpoint_program import fresh, names, straight_run, train


@pytest.fixture(scope="module")
def straight():
    """Seven steps without a stop."""
    return straight_run()


@pytest.mark.parametrize("room", [0, 4000, 1 << 20])
@pytest.mark.parametrize("tier", ["ram", "file"])
def test_training_goes_on_while_a_checkpoint_is_written(
    tmp_path, straight, monkeypatch, tier, room
):
    session, w, stream, output = fresh(tier, tmp_path / "remote")
    rng = np.random.default_rng(1)
    write, begun, gate = safetensors_file.TensorFileWriter.write, [], threading.Event()

    def slow(self, piece, data):
        begun.append(piece)
        if room > 4000 and len(begun) > 1:  # the first row, and then the program has passed
            gate.wait()
        write(self, piece, data)

    monkeypatch.setattr(safetensors_file.TensorFileWriter, "write", slow)
    with session:
        train(session, stream, output, rng, 4)
        pending = checkpoint.save_later(
            session, tmp_path / "c", step=4, generators={"data": rng}, room_bytes=room
        )
        counts = train(session, stream, output, rng, 3)
        if room > 4000:
            assert not pending.done
        gate.set()
        np.testing.assert_array_equal(session.get_tensor_data(w), straight[0])
        np.testing.assert_array_equal(counts, straight[1])
        assert pending.wait().path == tmp_path / "c" / "step-0000000004"
        assert checkpoint.load(session, tmp_path / "c", generators={"data": rng}).step == 4
        counts = train(session, stream, output, rng, 3)
        np.testing.assert_array_equal(session.get_tensor_data(w), straight[0])
        np.testing.assert_array_equal(counts, straight[1])


def test_leaving_a_session_waits_for_its_checkpoint(tmp_path):
    session, *_ = fresh()
    with session:
        pending = checkpoint.save_later(session, tmp_path, step=1)
    assert pending.done
    assert pending.wait().step == 1
    assert names(tmp_path) == ["step-0000000001"]


@pytest.mark.parametrize("fails", [False, True])
def test_copies_of_variables_are_given_back(tmp_path, monkeypatch, fails):
    def write(self, piece, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    if fails:
        monkeypatch.setattr(safetensors_file.TensorFileWriter, "write", write)
    size = 16 << 20
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.arange(size // 4, dtype=np.float32), name="v")
        v += 1.0
    session, pending = popxl.Session(ir), []
    with session:
        session.run()
        for step in range(7):
            if step == 2:  # the allocator keeps memory for the next ones
                before = resident_bytes()
            pending.append(checkpoint.save_later(session, tmp_path, step=step, keep=1))
            if fails:
                with pytest.raises(checkpoint.CheckpointError, match="No space left"):
                    pending[-1].wait()
            else:
                pending[-1].wait()
        assert resident_bytes() - before < 2 * size


def test_a_pending_checkpoint_tells_what_went_wrong(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    session, _, stream, output = fresh()
    with session:
        pending = checkpoint.save_later(session, tmp_path / "file", step=1)
        train(session, stream, output, np.random.default_rng(), 2)
        with pytest.raises(checkpoint.CheckpointError, match="cannot be written"):
            pending.wait()
    assert "was not written" in caplog.text


def test_a_later_save_waits_for_an_earlier_one(tmp_path, monkeypatch):
    session, *_ = fresh()
    write, join = safetensors_file.TensorFileWriter.write, checkpoint.PendingCheckpoint.join
    gate = threading.Event()

    def slow(self, piece, data):
        gate.wait()
        write(self, piece, data)

    def opening_join(self):
        gate.set()
        join(self)

    monkeypatch.setattr(safetensors_file.TensorFileWriter, "write", slow)
    monkeypatch.setattr(checkpoint.PendingCheckpoint, "join", opening_join)
    with session:
        first = checkpoint.save_later(session, tmp_path, step=1)
        checkpoint.save(session, tmp_path, step=2)
        assert first.done
    assert names(tmp_path) == ["step-0000000001", "step-0000000002"]


def test_another_snapshot_ends_a_checkpoint(tmp_path, monkeypatch):
    session, *_ = fresh()
    write = safetensors_file.TensorFileWriter.write

    def disturbed(self, piece, data):
        session._pb_session.program.snapshot(0)
        write(self, piece, data)

    monkeypatch.setattr(safetensors_file.TensorFileWriter, "write", disturbed)
    with session, pytest.raises(checkpoint.CheckpointError, match="another snapshot"):
        checkpoint.save(session, tmp_path, step=1)
    assert names(tmp_path) == []
