"""Checkpoints: what they hold, what is refused, and that a kill never costs the last one."""

import errno
import json
import os
import shutil
import signal

import numpy as np
import pytest

import popart
import popxl
from pando import checkpoint, checkpoint_files, checkpoint_job, safetensors_file
from popxl import ops
from tests.python.pando.checkpoint_program import (
    fresh,
    names,
    program,
    session_of,
    straight_run,
    train,
)


@pytest.fixture(scope="module")
def straight():
    """Seven steps without a stop."""
    return straight_run()


@pytest.fixture
def saved(tmp_path):
    """A folder with the checkpoints of steps 2 and 4."""
    session, _, stream, output = fresh()
    rng = np.random.default_rng(1)
    with session:
        for step in (2, 4):
            train(session, stream, output, rng, 2)
            checkpoint.save(
                session, tmp_path / "c", step=step, extra={"at": step}, generators={"data": rng}
            )
    return tmp_path / "c"


@pytest.mark.parametrize("tier", ["ram", "file"])
def test_a_resumed_run_has_the_same_bits(saved, tmp_path, straight, tier):
    session, w, stream, output = fresh(tier, tmp_path / "remote")
    rng = np.random.default_rng(99)
    with session:
        train(session, stream, output, rng, 1)  # leaves other values everywhere
        loaded = checkpoint.load(session, saved, generators={"data": rng})
        assert (loaded.step, loaded.extra, loaded.skipped) == (4, {"at": 4}, [])
        counts = train(session, stream, output, rng, 3)
        np.testing.assert_array_equal(session.get_tensor_data(w), straight[0])
    np.testing.assert_array_equal(counts, straight[1])
    assert rng.standard_normal() == straight[2]


def test_a_chosen_step(saved, straight):
    session, w, stream, output = fresh()
    rng = np.random.default_rng()
    with session:
        assert checkpoint.load(session, saved, step=2, generators={"data": rng}).step == 2
        train(session, stream, output, rng, 5)
        np.testing.assert_array_equal(session.get_tensor_data(w), straight[0])
        with pytest.raises(checkpoint.CheckpointError, match="no checkpoint of step 3"):
            checkpoint.load(session, saved, step=3)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def fail():
    raise RuntimeError("of a callback")


@pytest.mark.parametrize("save", [checkpoint.save, checkpoint.save_later])
def test_runs_do_not_wait_for_a_snapshot_that_was_interrupted(saved, tmp_path, monkeypatch, save):
    """Also while the interrupt is handled, which keeps what was made for the checkpoint."""
    session, _w, stream, output = fresh()
    rng = np.random.default_rng()

    def interrupted_model(core):
        interrupt()
        return model_of(core)

    model_of = checkpoint_job.model_of
    with session:
        train(session, stream, output, rng, 1)
        monkeypatch.setattr(checkpoint_job, "model_of", interrupted_model)
        try:
            save(session, tmp_path / "other", step=1)
        except KeyboardInterrupt:
            train(session, stream, output, rng, 1)
        else:
            pytest.fail("the interrupt was lost")
        monkeypatch.undo()
        assert checkpoint.save(session, tmp_path / "other", step=2).step == 2


@pytest.mark.parametrize("act, raised", [(interrupt, KeyboardInterrupt), (fail, RuntimeError)])
def test_what_is_raised_waits_for_the_end_of_loading(saved, straight, act, raised):
    session, w, stream, output = fresh()
    rng = np.random.default_rng(99)
    rows, heard = [], []

    def progress(size):
        rows.append(size)
        act()

    with session:
        train(session, stream, output, rng, 1)
        with pytest.raises(raised):
            checkpoint.load(
                session,
                saved,
                generators={"data": rng},
                progress=progress,
                restored=lambda: heard.append("restored"),
            )
        assert heard == ["restored"]
        # A callback that has raised is not called again.
        assert (len(rows) == 1) == (raised is RuntimeError)
        train(session, stream, output, rng, 3)
        np.testing.assert_array_equal(session.get_tensor_data(w), straight[0])
    assert rng.standard_normal() == straight[2]


CHANGES = {
    "run": lambda session, w, stream, folder: session.run({stream: np.ones((2, *w.shape), "f4")}),
    "write": lambda session, w, stream, folder: session.write_variable_data(w, np.float32(1)),
    "upload": lambda session, w, stream, folder: session.weights_from_host(),
    "save": lambda session, w, stream, folder: checkpoint.save(session, folder / "n", step=1),
    "load": lambda session, w, stream, folder: checkpoint.load(session, folder / "first"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("loads", [False, True], ids=["save", "load"])
def test_progress_may_read_the_session_but_not_change_it(tmp_path, straight, change, loads):
    session, w, stream, output = fresh()
    rng = np.random.default_rng(1)
    found = []

    def progress(size):
        if not found:
            found.append(session.get_tensor_data(w).copy())
            with pytest.raises(RuntimeError, match="given as `progress` may read the session, not"):
                change(session, w, stream, tmp_path)

    with session:
        train(session, stream, output, rng, 4)
        checkpoint.save(session, tmp_path / "first", step=4)
        if loads:
            checkpoint.load(session, tmp_path / "first", progress=progress)
        else:
            checkpoint.save(session, tmp_path / "second", step=4, progress=progress)
        np.testing.assert_array_equal(session.get_tensor_data(w), found[0])
        train(session, stream, output, rng, 3)
        np.testing.assert_array_equal(session.get_tensor_data(w), straight[0])


def test_files_that_are_cut_after_they_were_checked(saved, straight):
    session, w, stream, output = fresh()
    rng = np.random.default_rng(99)
    newest = checkpoint.checkpoints(saved)[-1]

    def cut(size):
        for file in newest.glob("remote_buffer*"):
            os.truncate(file, 100)

    with session:
        before = session.get_tensor_data(w).copy()
        with pytest.raises(checkpoint.CheckpointError, match="load a checkpoint before it runs"):
            checkpoint.load(session, saved, generators={"data": rng}, progress=cut)
        # Variables come before rows: the host's values are read again.
        assert not np.array_equal(before, session.get_tensor_data(w))
        # The session takes an older one whole.
        loaded = checkpoint.load(session, saved, fallback=True, generators={"data": rng})
        assert loaded.step == 2 and len(loaded.skipped) == 1
        train(session, stream, output, rng, 5)
        np.testing.assert_array_equal(session.get_tensor_data(w), straight[0])


def test_loading_shows_in_the_host_values(saved):
    session, w, _, _ = fresh()
    with session:
        before = session.get_tensor_data(w).copy()
        checkpoint.load(session, saved)
        after = session.get_tensor_data(w)
        assert not np.array_equal(before, after)


def test_the_files_are_safetensors(saved):
    numpy_files = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    session, w, _, _ = fresh()
    path = checkpoint.checkpoints(saved)[-1]
    with session:
        checkpoint.load(session, saved)
        variables = numpy_files.load_file(path / "variables.replica-0.safetensors")
        np.testing.assert_array_equal(variables["w"], session.get_tensor_data(w))
    assert variables["seed"].tolist() == [3 + 4, 5]
    # Equal on both replicas: written once.
    assert numpy_files.load_file(path / "variables.replica-1.safetensors") == {}
    for replica in range(2):
        rows = numpy_files.load_file(path / f"remote_buffer_1.replica-{replica}.safetensors")
        assert rows["remote_buffer_1"].shape == (1, 750)
        assert np.abs(rows["remote_buffer_1"]).max() > 0


def test_every_dtype_is_written_as_the_library_writes_it(tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    rng = np.random.default_rng(2)
    kinds = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    kinds += ["float16", "float32", "float64"]
    arrays = {kind: rng.integers(0, 2, (3, 2)).astype(kind) for kind in kinds}
    arrays["scalar"] = np.array(2.5, np.float32)
    arrays["empty"] = np.zeros((0, 4), np.float32)
    entries = [
        safetensors_file.TensorEntry(name, a.dtype.name, a.shape, a.itemsize)
        for name, a in arrays.items()
    ]
    raw = np.arange(12, dtype=np.uint8)
    entries.append(safetensors_file.TensorEntry("float8", "float8_143", (3, 4), 1))
    file = safetensors_file.TensorFileWriter(tmp_path / "file", entries)
    for piece, array in reversed(list(enumerate([*arrays.values(), raw]))):
        assert not file.is_complete
        file.write(piece, array.reshape(-1).view(np.uint8))
    file.close()
    loaded = numpy_files.load_file(tmp_path / "file")
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)
    np.testing.assert_array_equal(loaded["float8"], raw.reshape(3, 4, 1))
    assert safetensors_file.check_file(tmp_path, file.record()) == ""


def test_the_newest_are_kept(tmp_path):
    session, _, stream, output = fresh()
    rng = np.random.default_rng(1)
    with session:
        for step in range(1, 6):
            train(session, stream, output, rng, 1)
            checkpoint.save(session, tmp_path, step=step, keep=2)
        assert names(tmp_path) == ["step-0000000004", "step-0000000005"]
        # The same step again: the newer one counts.
        checkpoint.save(session, tmp_path, step=5, extra={"again": True}, keep=2)
        assert names(tmp_path) == ["step-0000000004", "step-0000000005.1"]
        assert checkpoint.load(session, tmp_path).extra == {"again": True}
        checkpoint.save(session, tmp_path, step=5, keep=2)
        assert names(tmp_path) == ["step-0000000004", "step-0000000005.2"]


def test_generators_of_every_kind(tmp_path):
    session, *_ = fresh()
    kinds = [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64]
    generators = {kind.__name__: np.random.Generator(kind(5)) for kind in kinds}
    with session:
        checkpoint.save(session, tmp_path, step=0, generators=generators)
        wanted = {name: g.standard_normal(5) for name, g in generators.items()}
        checkpoint.load(session, tmp_path, generators=generators)
        for name, generator in generators.items():
            np.testing.assert_array_equal(generator.standard_normal(5), wanted[name])
        with pytest.raises(checkpoint.WrongCheckpoint, match=r"generators \['other'\]"):
            checkpoint.load(session, tmp_path, generators={"other": np.random.default_rng()})


# Faults.


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 4] ^= 16
    path.write_bytes(data)


def truncate(path):
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("harm", [flip, truncate, os.unlink])
@pytest.mark.parametrize(
    "name", ["variables.replica-0.safetensors", "remote_buffer_2.replica-1.safetensors"]
)
def test_damage_is_named_and_the_last_whole_one_is_taken(saved, harm, name):
    session, w, _, _ = fresh()
    file = checkpoint.checkpoints(saved)[-1] / name
    harm(file)
    with session:
        before = session.get_tensor_data(w).copy()
        with pytest.raises(checkpoint.DamagedCheckpoint, match=str(file)):
            checkpoint.load(session, saved)
        np.testing.assert_array_equal(session.get_tensor_data(w), before)
        loaded = checkpoint.load(session, saved, fallback=True)
        assert loaded.step == 2
        assert len(loaded.skipped) == 1 and str(file) in loaded.skipped[0]


@pytest.mark.parametrize("harm", [flip, truncate, os.unlink])
def test_a_damaged_manifest(saved, harm):
    session, *_ = fresh()
    for path in checkpoint.checkpoints(saved):
        harm(path / "manifest.json")
    with session:
        with pytest.raises(checkpoint.DamagedCheckpoint, match="manifest"):
            checkpoint.load(session, saved)
        with pytest.raises(checkpoint.DamagedCheckpoint, match="every checkpoint"):
            checkpoint.load(session, saved, fallback=True)


def test_another_version_is_refused(saved):
    session, *_ = fresh()
    manifest = checkpoint.checkpoints(saved)[-1] / "manifest.json"
    content = json.loads(manifest.read_text())
    content["version"] = 2
    manifest.write_text(json.dumps(content))
    with session, pytest.raises(checkpoint.WrongCheckpoint, match=r"version 1; found .* version 2"):
        checkpoint.load(session, saved, fallback=True)


def test_another_model_is_refused_and_named(saved):
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        w = popxl.variable(np.ones(3, np.float32), name="w")
        other = popxl.variable(np.ones(2, np.float32), name="other")
        stored = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(stored, other + 1.0)
        buffer = popxl.remote_buffer((4,), popxl.float32, 3)
        ops.remote_store(buffer, 0, ops.concat([w, w])[:4])
    with popxl.Session(ir) as session, pytest.raises(checkpoint.WrongCheckpoint) as caught:
        checkpoint.load(session, saved, fallback=True)
    text = str(caught.value)
    assert isinstance(caught.value, popart.popart_runtime_error)
    for line in (
        "variable 'w': float32 (1500,) in the checkpoint, float32 (3,) here",
        "variable 'other': missing in the checkpoint, float32 (2,) here",
        "variable 'seed': uint32 (2,) in the checkpoint, missing here",
        "remote buffer 'remote_buffer_1': float32 (1, 750) in the checkpoint, float32 (3, 4) here",
    ):
        assert line in text, text


def test_another_program_with_the_same_state_is_noted(saved, caplog):
    ir, _, _, _ = program()
    with ir.main_graph:
        ops.host_store(popxl.d2h_stream((), popxl.float32), popxl.constant(1.0))
    with session_of(ir) as session:
        checkpoint.load(session, saved)
    assert "same state but other ops" in caplog.text


def test_wrong_arguments(tmp_path):
    session, *_ = fresh()
    with pytest.raises(ValueError, match="attached"):
        checkpoint.save(session, tmp_path, step=1)
    with pytest.raises(ValueError, match="attached"):
        checkpoint.load(session, tmp_path)
    with session:
        with pytest.raises(ValueError, match="step of at least 0"):
            checkpoint.save(session, tmp_path, step=-1)
        with pytest.raises(ValueError, match="at least 1 checkpoint"):
            checkpoint.save(session, tmp_path, step=1, keep=0)
        with pytest.raises(TypeError, match="not JSON"):
            checkpoint.save(session, tmp_path, step=1, extra={"x": object()})
        with pytest.raises(checkpoint.CheckpointError, match="no checkpoint in"):
            checkpoint.load(session, tmp_path / "none")
        assert list(tmp_path.iterdir()) == []


def test_a_full_disk_costs_no_checkpoint(saved, monkeypatch):
    session, *_ = fresh()
    write, calls = safetensors_file.TensorFileWriter.write, []

    def full(self, piece, data):
        calls.append(data.nbytes)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, piece, data)

    monkeypatch.setattr(safetensors_file.TensorFileWriter, "write", full)
    before = sorted(path.name for path in saved.iterdir())
    with session:
        with pytest.raises(checkpoint.CheckpointError, match=r"step 9 cannot be written.*No space"):
            checkpoint.save(session, saved, step=9, keep=1)
        assert sorted(path.name for path in saved.iterdir()) == before
        monkeypatch.undo()
        assert checkpoint.load(session, saved).step == 4


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("no folder")
    session, *_ = fresh()
    with session, pytest.raises(checkpoint.CheckpointError, match="cannot be written"):
        checkpoint.save(session, tmp_path / "file", step=1)


def test_two_writers(tmp_path):
    session, *_ = fresh()
    busy = pytest.raises(checkpoint.CheckpointError, match="another process")
    with session, checkpoint_files.locked(tmp_path), busy:
        checkpoint.save(session, tmp_path, step=1)


def test_what_killed_writers_left_is_removed(saved):
    session, *_ = fresh()
    shutil.copytree(saved / "step-0000000004", saved / ".writing-step-0000000006")
    shutil.copytree(saved / "step-0000000004", saved / ".deleted-step-0000000001")
    with session:
        assert checkpoint.load(session, saved).step == 4
        checkpoint.save(session, saved, step=5)
    assert sorted(path.name for path in saved.iterdir()) == [
        ".lock",
        "step-0000000002",
        "step-0000000004",
        "step-0000000005",
    ]
