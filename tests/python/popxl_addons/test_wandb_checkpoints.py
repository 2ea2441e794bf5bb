"""Checkpoints as artifacts of Weights & Biases, with its real client: offline, and against a server
on this machine."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from pando.checkpoint import CheckpointError, DamagedCheckpoint
from popxl import ops
from popxl_addons import TaskSession
from popxl_addons.task_session import initialise_memmap_dir_from_checkpoint
from tests.python.popxl_addons.wandb_server import ENTITY, PROJECT, ArtifactServer, artifact_server

NAME = "wandb://decoder"


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The client, which writes below `tmp_path` and knows no account."""
    module = pytest.importorskip("wandb", reason="the optional package wandb is not installed")
    for name in ("DIR", "CACHE_DIR", "DATA_DIR", "CONFIG_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path / name))
    (tmp_path / "DIR").mkdir()
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("NO_PROXY", "*")
    yield module
    module.teardown()


@pytest.fixture
def server(wandb: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArtifactServer]:
    with artifact_server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        yield server
        wandb.teardown()


def session(value: float) -> TaskSession:
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(np.full(3, value, np.float32), name="w")
        ops.host_store(popxl.d2h_stream(w.shape, w.dtype), w)
    return TaskSession([], [], addons.NamedTensors(w=w), ir=ir, device_desc="cpu")


def value_of(task: TaskSession) -> list[float]:
    return task.get_named_tensors_data()["w"].tolist()


def offline_artifacts(folder: Path) -> list[Any]:
    """What an offline run has noted for `wandb sync`: a log of records of known length."""
    from wandb.proto import wandb_internal_pb2

    (log,) = folder.glob("wandb/offline-run-*/*.wandb")
    data = log.read_bytes()
    found, at = [], 7
    while at < len(data):
        length, kind = struct.unpack_from("<HB", data, at + 4)
        assert kind == 1, "each record of such a small log lies within one block"
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data[at + 7 : at + 7 + length])
        if record.WhichOneof("record_type") == "artifact":
            found.append(record.artifact)
        at += 7 + length
    return found


def test_an_offline_run_keeps_the_checkpoint_for_later(wandb: Any, tmp_path: Path) -> None:
    task = session(4.0)
    task.session_state["steps"] = 7
    with wandb.init(mode="offline", project=PROJECT, settings=wandb.Settings(console="off")):
        task.save_checkpoint(NAME)
    # The client's own process writes the log, and is done when it has ended.
    wandb.teardown()
    (artifact,) = offline_artifacts(tmp_path / "DIR")
    assert (artifact.name, artifact.type) == ("decoder", "model")
    folder = tmp_path / "checkpoint"
    for entry in artifact.manifest.contents:
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Path(entry.local_path).read_bytes())
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))
    assert names == ["manifest.json", "model/w.npz", "session_info.json"]
    other = session(1.0)
    other.load_checkpoint(folder, report_missing="error")
    assert value_of(other) == [4, 4, 4] and other.session_state == {"steps": 7}


def test_artifacts_are_downloaded_and_checked(server: ArtifactServer, tmp_path: Path) -> None:
    for value in (4.0, 5.0):
        session(value).save_checkpoint(tmp_path / "saved")
        server.add("decoder", tmp_path / "saved")
    other = session(1.0)
    for name, wanted in ((f"{ENTITY}/{PROJECT}/decoder", 5), ("decoder:v0", 4), ("decoder", 5)):
        other.load_checkpoint(f"wandb://{name}", report_missing="error")
        assert value_of(other) == [wanted] * 3
    other.load_checkpoint(Path(NAME + ":v0"))
    assert value_of(other) == [4, 4, 4]
    assert "ArtifactMembershipByName" in server.asked
    (tmp_path / "saved" / "model" / "extra.npy").write_bytes(b"raw")
    (tmp_path / "saved" / "manifest.json").unlink()
    server.add("decoder", tmp_path / "saved")
    initialise_memmap_dir_from_checkpoint(NAME, tmp_path / "maps")
    assert (tmp_path / "maps" / "extra.npy").read_bytes() == b"raw"


def test_a_download_that_fails_changes_nothing(server: ArtifactServer, tmp_path: Path) -> None:
    session(4.0).save_checkpoint(tmp_path / "saved")
    (tmp_path / "saved" / "session_info.json").write_text("{}", encoding="utf-8")
    server.add("decoder", tmp_path / "saved")
    other = session(1.0)
    with pytest.raises(DamagedCheckpoint, match=r"session_info\.json"):
        other.load_checkpoint(NAME)
    with pytest.raises(CheckpointError, match=r"wandb://none cannot be downloaded: .*not found"):
        other.load_checkpoint("wandb://none")
    assert value_of(other) == [1, 1, 1]


def test_saving_needs_a_run_and_a_plain_name(wandb: Any) -> None:
    task = session(1.0)
    with pytest.raises(CheckpointError, match=r"call wandb\.init\(\) first"):
        task.save_checkpoint(NAME)
    for name in ("us/tests/decoder", "decoder:v0"):
        with pytest.raises(ValueError, match=f"give wandb://name, not '{name}'"):
            task.save_checkpoint(f"wandb://{name}")
    with pytest.raises(ValueError, match="names no artifact"):
        task.load_checkpoint("wandb://")


def test_artifacts_need_wandb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    task = session(1.0)
    wanted = pytest.raises(ImportError, match=r"wandb://decoder needs .*pip install wandb")
    with wanted:
        task.save_checkpoint(NAME)
    with wanted:
        task.load_checkpoint(NAME)
    with wanted:
        initialise_memmap_dir_from_checkpoint(NAME, tmp_path)


def test_a_connected_run_uploads_and_downloads(
    server: ArtifactServer, wandb: Any, tmp_path: Path
) -> None:
    settings = wandb.Settings(console="off", x_disable_stats=True)
    with wandb.init(project=PROJECT, settings=settings):
        for version, value in enumerate((4.0, 5.0)):
            session(value).save_checkpoint(NAME)
            # The server has all of it when saving returns.
            files = server.artifacts["decoder"][version]
            assert sorted(files) == ["manifest.json", "model/w.npz", "session_info.json"]
        other = session(1.0)
        other.load_checkpoint(NAME, report_missing="error")
        assert value_of(other) == [5, 5, 5]
        assert "UseArtifact" in server.asked
        server.full = True
        with pytest.raises(CheckpointError, match=r"wandb://decoder cannot be uploaded: .*no room"):
            session(6.0).save_checkpoint(NAME)
    assert len(server.artifacts["decoder"]) == 2
    other.load_checkpoint(NAME + ":v0")
    assert value_of(other) == [4, 4, 4]
