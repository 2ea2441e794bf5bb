"""Checkpoints whose counts lie behind right checksums: each is refused, and none is believed."""

from __future__ import annotations

import json
import resource
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from pando import checkpoint, checkpoint_files, safetensors_file

HOSTILE = [2**31, 2**40, 2**63 - 1]
ROOM_BYTES = 512 << 20


@contextmanager
def little_memory() -> Iterator[None]:
    """What believes a hostile count is out of memory."""
    own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (own + ROOM_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def fresh() -> tuple[popxl.Session, Any]:
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.arange(6, dtype=np.float32), name="v")
        buffer = popxl.remote_buffer((2,), popxl.float32, 3)
        popxl.ops.remote_store(buffer, 1, v[:2])
    return popxl.Session(ir), v


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    session, _ = fresh()
    with session:
        session.run()
        return checkpoint.save(session, tmp_path / "c", step=1).path


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the manifest, with a right checksum."""
    body = json.loads((path / "manifest.json").read_text())["body"]
    change(body)
    (path / "manifest.json").unlink()
    checkpoint_files.write_manifest(path / "manifest.json", body)


def refused(path: Path, match: str) -> None:
    session, v = fresh()
    with session:
        with little_memory(), pytest.raises(checkpoint.CheckpointError, match=match):
            checkpoint.load(session, path.parent)
        np.testing.assert_array_equal(session.get_tensor_data(v), np.arange(6))


def test_what_was_saved_is_loaded(saved: Path) -> None:
    rewrite(saved, lambda body: None)
    session, _ = fresh()
    with session, little_memory():
        assert checkpoint.load(session, saved.parent).step == 1


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("index", [0, 1])
def test_the_length_of_a_header(saved: Path, index: int, hostile: int) -> None:
    def change(body: dict[str, Any]) -> None:
        record = body["files"][index]
        file = saved / record["name"]
        data = hostile.to_bytes(8, "little") + file.read_bytes()[8:]
        file.write_bytes(data)
        header = record["bytes"] - sum(size for size, _ in record["pieces"])
        record["header"] = safetensors_file.checksum(data[:header])

    rewrite(saved, change)
    refused(saved, f"a header of {hostile}")


@pytest.mark.parametrize("offsets", [[0, 2**40], [2**40, 2**40 + 24], [-8, 16], [0, 8], None, [0]])
@pytest.mark.parametrize("index", [0, 1])
def test_the_offsets_of_a_tensor(saved: Path, index: int, offsets: Any) -> None:
    def change(body: dict[str, Any]) -> None:
        record = body["files"][index]
        file = saved / record["name"]
        size = record["bytes"] - sum(size for size, _ in record["pieces"])
        content = json.loads(file.read_bytes()[8:size])
        (name,) = (key for key in content if key in ("v", "remote_buffer_1"))
        content[name]["data_offsets"] = offsets
        text = json.dumps(content).encode().ljust(size + 56)
        header = len(text).to_bytes(8, "little") + text
        file.write_bytes(header + file.read_bytes()[size:])
        record["bytes"] = file.stat().st_size
        record["header"] = safetensors_file.checksum(header)

    rewrite(saved, change)
    refused(saved, "cannot be read.*(v|remote_buffer_1)")


@pytest.mark.parametrize("size", [*HOSTILE, -1, 2**200])
def test_the_sizes_in_a_manifest(saved: Path, size: int) -> None:
    def change_piece(body: dict[str, Any]) -> None:
        body["files"][0]["pieces"][0][0] = size

    sound = (saved / "manifest.json").read_text()
    rewrite(saved, change_piece)
    refused(saved, "tells of more|does not list the files")
    (saved / "manifest.json").write_text(sound)

    def change_file(body: dict[str, Any]) -> None:
        body["files"][0]["bytes"] = size

    rewrite(saved, change_file)
    refused(saved, "were written")


@pytest.mark.parametrize(
    ("key", "value"),
    [("replica", 2**40), ("replica", -1), ("name", "../manifest.json"), ("pieces", 3)],
)
def test_other_fields_of_a_manifest(saved: Path, key: str, value: Any) -> None:
    rewrite(saved, lambda body: body["files"][0].update({key: value}))
    refused(saved, "damaged")


@pytest.mark.parametrize("shape", ["(2147483648,)", "(1099511627776,)", "(9223372036854775807,)"])
def test_the_shape_of_an_array(tmp_path: Path, shape: str) -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones(2, np.float32), name="v")
        v + 1.0
    task = addons.TaskSession([], [], addons.NamedTensors(v=v), ir=ir)
    task.save_checkpoint(tmp_path / "c")
    file = tmp_path / "c" / "model" / "v.npz"
    with zipfile.ZipFile(file) as archive:
        stored = archive.read("v.npy")
    wanted = b"'shape': (2,), }"
    hostile = b"'shape': " + shape.encode() + b", }"
    assert wanted in stored
    stored = stored.replace(wanted.ljust(len(hostile)), hostile)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("v.npy", stored)
    (tmp_path / "c" / "manifest.json").unlink()
    with (
        little_memory(),
        pytest.raises(checkpoint.DamagedCheckpoint, match=r"v\.npz cannot be read"),
    ):
        task.load_checkpoint(tmp_path / "c")
    assert task.get_tensor_data(v).tolist() == [1, 1]
