"""Named streams and sessions with checkpoints."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from pando.checkpoint import CheckpointError, DamagedCheckpoint
from popxl import ops
from popxl_addons import InputStreams, OutputStreams, TaskSession


class Loader:
    def save(self, path: str) -> None:
        Path(path).write_text("position 3", encoding="utf-8")

    def resume(self, filename: str) -> None:
        self.text = Path(filename).read_text(encoding="utf-8")

    def get_state(self) -> str:
        return self.text


def session(start: float = 1.0, names: tuple[str, ...] = ("total",)) -> TaskSession:
    """Adds its input to variables, and stores the first one."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        inputs = InputStreams(x=((2,), popxl.float32))
        outputs = OutputStreams(y=((2,), popxl.float32))
        variables = {name: popxl.variable(np.full(2, start), popxl.float32, name) for name in names}
        x = ops.host_load(inputs.x)
        for variable in variables.values():
            ops.add_(variable, x)
        ops.host_store(outputs.y, next(iter(variables.values())))
    state = addons.NamedTensors(**variables)
    return TaskSession(inputs, outputs, state, ir=ir, device_desc="cpu")


def test_streams_by_name_and_position() -> None:
    with popxl.Ir().main_graph:
        shapes = {"a": ((2,), popxl.float32), "b": ((), popxl.int32)}
        streams = InputStreams(**shapes)
        assert streams.a is streams["a"] is streams[0] and streams[-1:] == [streams.b]
        assert list(streams) == [streams.a, streams.b] and streams.keys() == ["a", "b"]
        assert len(streams) == 2 and "a" in streams and "c" not in streams
        assert streams.b.tensor_id == "b" and streams.a.shape == (2,)
        with pytest.raises(AttributeError, match=r"'c'.*\['a', 'b'\]"):
            _ = streams.c
        with pytest.raises(KeyError, match=r"'c'.*\['a', 'b'\]"):
            _ = streams["c"]
        again = InputStreams.from_streams([streams.b])
        assert again["b"] == streams.b
        assert OutputStreams(**shapes).a.shape == (2,)


def run(task: TaskSession, value: float) -> np.ndarray:
    return task.run({task.inputs.x: np.full(2, value, np.float32)})[task.outputs.y]


def test_steps_and_state() -> None:
    task = session()
    with task:
        assert run(task, 2).tolist() == [3, 3]
        run(task, 1)
    assert task.session_state == {"steps": 2} and task.model is task.state
    assert task.get_named_tensors_data()["total"].tolist() == [4, 4]
    task.add_session_state_info({"epoch": 1})
    assert task.session_state == {"steps": 2, "epoch": 1}


def test_checkpoints(tmp_path: Path) -> None:
    task = session()
    task.dataloader = Loader()
    with task:
        run(task, 2)
        for index in range(3):
            task.save_checkpoint(tmp_path / f"{index}")
    folder = tmp_path / "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2"]
    assert np.load(folder / "model" / "total.npz")["total"].tolist() == [3, 3]
    assert json.loads((folder / "session_info.json").read_text()) == {"steps": 1}

    other = session(start=9.0)
    other.dataloader = Loader()
    other.load_checkpoint(folder, report_missing="error")
    assert other.get_named_tensors_data()["total"].tolist() == [3, 3]
    assert other.session_state == {"steps": 1} and other.dataloader.get_state() == "position 3"


def test_missing_tensors_are_reported(tmp_path: Path) -> None:
    session().save_checkpoint(tmp_path)
    larger = session(start=5.0, names=("total", "extra"))
    with pytest.raises(ValueError, match=r"only in the session: \['extra'\]"):
        larger.load_checkpoint(tmp_path, report_missing="error")
    larger.load_checkpoint(tmp_path)
    assert larger.get_named_tensors_data()["extra"].tolist() == [5, 5]
    smaller = session(start=7.0)
    larger.load_from_session(smaller)
    assert larger.get_named_tensors_data()["total"].tolist() == [7, 7]
    with pytest.raises(ValueError, match="report_missing"):
        larger.load_from_session(smaller, report_missing="sometimes")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        *itertools.product(
            [flip, truncate], ["model/total.npz", "session_info.json", "dataloader.bin"]
        ),
        (os.unlink, "dataloader.bin"),
        (flip, "manifest.json"),
        (truncate, "manifest.json"),
    ],
)
def test_damage_is_named_and_changes_nothing(
    tmp_path: Path, harm: Callable[[Path], None], name: str
) -> None:
    task = session()
    task.dataloader = Loader()
    task.save_checkpoint(tmp_path / "c")
    harm(tmp_path / "c" / name)
    other = session(start=9.0)
    with pytest.raises(DamagedCheckpoint, match=name):
        other.load_checkpoint(tmp_path / "c")
    with pytest.raises(DamagedCheckpoint, match=name):
        addons.task_session.initialise_memmap_dir_from_checkpoint(tmp_path / "c", tmp_path / "m")
    assert other.get_named_tensors_data()["total"].tolist() == [9, 9]
    with pytest.raises(CheckpointError, match="no checkpoint"):
        other.load_checkpoint(tmp_path / "other")


def test_missing_files_of_tensors_and_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = session(start=4.0, names=("total", "extra"))
    task.session_state = {"steps": 3}
    task.save_checkpoint(tmp_path)
    (tmp_path / "model" / "extra.npz").unlink()
    other = session(start=9.0, names=("total", "extra"))

    def values() -> list[float]:
        return [float(value[0]) for value in other.get_named_tensors_data().values()]

    with pytest.raises(ValueError, match=r"only in the session: \['extra'\]"):
        other.load_checkpoint(tmp_path, report_missing="error")
    assert values() == [9, 9] and other.session_state == {"steps": 0}
    other.load_checkpoint(tmp_path)
    assert "only in the session: ['extra']" in caplog.text
    assert values() == [4, 9] and other.session_state == {"steps": 3}
    (tmp_path / "session_info.json").unlink()
    other.load_checkpoint(tmp_path, report_missing="none")
    assert values() == [4, 9] and other.session_state == {"steps": 0}
    other.session_state["epoch"] = 1
    other.write_variables_data({t: np.zeros(2, np.float32) for t in other.state.tensors})
    with pytest.raises(DamagedCheckpoint, match=r"extra\.npz"):
        addons.task_session.initialise_memmap_dir_from_checkpoint(tmp_path, tmp_path / "m")
    task.save_checkpoint(tmp_path)
    with pytest.raises(ValueError, match=r"Session state only in the session: \['epoch'\]"):
        other.load_checkpoint(tmp_path, report_missing="error")
    assert values() == [0, 0]


NESTED = b"[" * 100_000


@pytest.mark.parametrize("name", ["model/total.npz", "session_info.json", "dataloader.bin"])
def test_pipes_and_folders_in_place_of_files(tmp_path: Path, name: str) -> None:
    task = session()
    task.dataloader = Loader()
    for make in (os.mkfifo, os.mkdir):
        folder = tmp_path / make.__name__
        task.save_checkpoint(folder)
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(DamagedCheckpoint, match=name):
            session(start=9.0).load_checkpoint(folder)
        # Without the manifest, which knew what was written.
        (folder / "manifest.json").unlink()
        if name != "dataloader.bin":
            with pytest.raises(DamagedCheckpoint, match="no regular file"):
                session(start=9.0).load_checkpoint(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("session_info.json", NESTED),
        ("session_info.json", b"[1]"),
        ("model/total.npz", b"PK\3\4" + bytes(50)),
        ("model/total.npz", b"no archive"),
        ("manifest.json", NESTED),
    ],
)
def test_content_that_cannot_be_read(tmp_path: Path, name: str, content: bytes) -> None:
    session().save_checkpoint(tmp_path)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / name).write_bytes(content)
    other = session(start=9.0)
    with pytest.raises(DamagedCheckpoint, match=name):
        other.load_checkpoint(tmp_path)
    assert other.get_named_tensors_data()["total"].tolist() == [9, 9]


def test_a_pipe_with_the_name_of_a_writers_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".making-c-0")
    session().save_checkpoint(tmp_path / "c")
    session().load_checkpoint(tmp_path / "c", report_missing="error")


def test_folders_of_another_writer_are_loaded_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = session(start=4.0)
    task.save_checkpoint(tmp_path / "c")
    (tmp_path / "c" / "manifest.json").unlink()
    other = session()
    other.load_checkpoint(tmp_path / "c")
    assert other.get_named_tensors_data()["total"].tolist() == [4, 4]
    assert "has no manifest.json" in caplog.text


def test_other_files_of_a_folder_stay(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    (folder / "log").mkdir(parents=True)
    (folder / "log" / "text").write_text("kept", encoding="utf-8")
    task = session()
    task.dataloader = Loader()
    task.save_checkpoint(folder)
    task._dataloader = None
    task.save_checkpoint(folder)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["log", "manifest.json", "model", "session_info.json"]
    assert (folder / "log" / "text").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


class Killed(BaseException):
    pass


def kill_at(monkeypatch: pytest.MonkeyPatch, instant: int) -> None:
    """From call `instant` on, nothing that changes files does anything but raise."""
    calls = itertools.count()

    def mortal(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(calls) >= instant:
                raise Killed
            return function(*args, **kwargs)

        return call

    for module, name in (
        (os, "rename"),
        (os, "fsync"),
        (shutil, "rmtree"),
        (np, "savez"),
        (Path, "write_text"),
        (Path, "mkdir"),
        (Path, "open"),
    ):
        monkeypatch.setattr(module, name, mortal(getattr(module, name)))


def test_a_kill_at_any_instant_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    found = []
    for instant in itertools.count():
        folder = tmp_path / str(instant) / "c"
        session(start=1.0).save_checkpoint(folder)
        (folder / "log").write_text("kept", encoding="utf-8")
        task, reader = session(start=2.0), session(start=9.0)
        with pytest.MonkeyPatch.context() as monkeypatch:
            kill_at(monkeypatch, instant)
            try:
                task.save_checkpoint(folder)
                ended = True
            except Killed:
                ended = False
        reader.load_checkpoint(folder, report_missing="error")
        found.append(float(reader.get_named_tensors_data()["total"][0]))
        # The next writer ends what was begun.
        task.save_checkpoint(folder)
        assert (folder / "log").read_text() == "kept"
        assert [path.name for path in folder.parent.iterdir()] == ["c"]
        if ended:
            break
    # The new one counts from some instant on.
    assert found == sorted(found) and found[0] == 1 and found[-2:] == [2, 2]
    assert len(found) > 10


def test_a_full_disk_costs_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = session(start=3.0)
    task.save_checkpoint(tmp_path / "c")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(CheckpointError, match=r"cannot be written: No space.*as they were"):
        session(start=4.0).save_checkpoint(tmp_path / "c")
    other = session()
    other.load_checkpoint(tmp_path / "c")
    assert other.get_named_tensors_data()["total"].tolist() == [3, 3]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    with pytest.raises(CheckpointError, match="cannot be written"):
        session().save_checkpoint(tmp_path / "file" / "c")


def test_a_dataloader_needs_its_methods() -> None:
    with pytest.raises(ValueError, match="save and resume"):
        session().dataloader = object()
