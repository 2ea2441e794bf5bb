"""Named streams and sessions with checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import popxl
import popxl_addons as addons
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
    with pytest.raises(NotImplementedError, match="wandb"):
        larger.save_checkpoint("wandb://name")


def test_a_dataloader_needs_its_methods() -> None:
    with pytest.raises(ValueError, match="save and resume"):
        session().dataloader = object()
