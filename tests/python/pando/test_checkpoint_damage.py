"""Checkpoints whose files are no files, or do not hold what they should."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from pando import checkpoint, checkpoint_files
from pando.safetensors_file import file_record
from tests.python.pando.checkpoint_program import program, session_of, train


@pytest.fixture
def session():
    ir, _, stream, output = program()
    with session_of(ir) as session:
        train(session, stream, output, np.random.default_rng(1), 1)
        yield session


@pytest.fixture
def saved(session, tmp_path):
    """The checkpoints of steps 2 and 4, with the state of a generator."""
    for step in (2, 4):
        rng = np.random.default_rng(step)
        checkpoint.save(session, tmp_path / "c", step=step, generators={"data": rng})
    return tmp_path / "c"


def newest(folder):
    return checkpoint.checkpoints(folder)[-1]


def replace(path, make):
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    make(path)


def device(path):
    path.symlink_to("/dev/zero")


def nested(path):
    path.write_text("[" * 100_000)


MANIFEST_HARMS = [os.mkfifo, os.mkdir, device, nested]


@pytest.mark.parametrize("harm", MANIFEST_HARMS)
def test_a_manifest_that_cannot_be_read(session, saved, harm):
    manifest = newest(saved) / "manifest.json"
    replace(manifest, harm)
    with pytest.raises(checkpoint.DamagedCheckpoint, match=r"manifest\.json cannot be read"):
        checkpoint.load(session, saved)
    loaded = checkpoint.load(session, saved, fallback=True)
    assert loaded.step == 2 and str(manifest) in loaded.skipped[0]


@pytest.mark.parametrize("harm", [os.mkfifo, os.mkdir, device])
@pytest.mark.parametrize("size", ["as written", "none"])
def test_a_file_that_is_no_file(session, saved, harm, size):
    path = newest(saved)
    file = path / "variables.replica-1.safetensors"
    if size == "none":
        # A pipe has no bytes either, so that the size does not tell.
        change_body(path, lambda body: body["files"][3].update(bytes=0, pieces=[]))
        assert checkpoint.read_manifest(path)["files"][3]["name"] == file.name
    replace(file, harm)
    with pytest.raises(checkpoint.DamagedCheckpoint, match=file.name):
        checkpoint.load(session, saved)


def change_body(path, change):
    """A manifest with another body and its right checksum."""
    body = checkpoint.read_manifest(path)
    change(body)
    (path / "manifest.json").unlink()
    checkpoint_files.write_manifest(path / "manifest.json", body)


def remove(*keys):
    def change(body):
        for key in keys[:-1]:
            body = body[key]
        del body[keys[-1]]

    return change


def assign(value, *keys):
    def change(body):
        for key in keys[:-1]:
            body = body[key]
        body[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (remove("files"), checkpoint.DamagedCheckpoint, "does not list the files"),
        (assign({}, "files"), checkpoint.DamagedCheckpoint, "does not list the files"),
        (assign(3, "files", 0), checkpoint.DamagedCheckpoint, "does not list the files"),
        (assign("x", "files", 0, "pieces"), checkpoint.DamagedCheckpoint, "does not list"),
        (assign("../w", "files", 0, "name"), checkpoint.DamagedCheckpoint, "does not list"),
        (assign("/w", "files", 0, "name"), checkpoint.DamagedCheckpoint, "does not list"),
        (assign([[-1, ""]], "files", 0, "pieces"), checkpoint.DamagedCheckpoint, "does not list"),
        (assign([[1 << 40, ""]], "files", 0, "pieces"), checkpoint.DamagedCheckpoint, "of more"),
        (remove("files", 0), checkpoint.DamagedCheckpoint, "no file holds"),
        (assign(7, "files", 0, "replica"), checkpoint.DamagedCheckpoint, "of replica 7"),
        (assign(["v"], "files", 0, "variables"), checkpoint.DamagedCheckpoint, r"\['v'\]"),
        (remove("model"), checkpoint.WrongCheckpoint, "TaskSession.load_checkpoint"),
        (remove("step"), checkpoint.WrongCheckpoint, "has no step"),
        (remove("model", "replicas"), checkpoint.WrongCheckpoint, "has no replicas"),
        (assign(3, "model", "variables", "w"), checkpoint.WrongCheckpoint, "has no shapes"),
        (assign({}, "model", "variables", "w"), checkpoint.WrongCheckpoint, "another model"),
        (assign({"a": 1}, "generators", "data"), checkpoint.WrongCheckpoint, "'data', a PCG64"),
    ],
)
def test_a_manifest_of_something_else(session, saved, change, error, message):
    change_body(newest(saved), change)
    rng = np.random.default_rng(3)
    before = rng.bit_generator.state
    with pytest.raises(error, match=message):
        checkpoint.load(session, saved, generators={"data": rng})
    assert rng.bit_generator.state == before


def headers():
    def deep(_):
        return b"[" * 100_000

    def no_object(_):
        return b"[1]"

    def missing(header):
        return json.dumps({k: v for k, v in header.items() if k != "w"}).encode()

    def other_shape(header):
        header["w"]["shape"] = [2]
        return json.dumps(header).encode()

    def beyond(header):
        first, last = header["w"]["data_offsets"]
        header["w"]["data_offsets"] = [first + (1 << 40), last + (1 << 40)]
        return json.dumps(header).encode()

    def odd(header):
        header["w"]["data_offsets"] = "x"
        return json.dumps(header).encode()

    return [deep, no_object, missing, other_shape, beyond, odd]


@pytest.mark.parametrize("change", headers())
@pytest.mark.parametrize("length", ["right", "too large"])
def test_a_header_of_something_else(session, saved, change, length):
    """The checksums are those of what is there, so only the header itself can tell."""
    path = newest(saved)
    file = path / "variables.replica-0.safetensors"
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = change(json.loads(content[8 : 8 + size]))
    stated = len(header) if length == "right" else 1 << 62
    file.write_bytes(stated.to_bytes(8, "little") + header + content[8 + size :])

    def describe(body):
        record = next(r for r in body["files"] if r["name"] == file.name)
        facts = file_record(path, Path(file.name))
        record.update(bytes=facts["bytes"], header=facts["header"], pieces=facts["pieces"])

    change_body(path, describe)
    checkpoint.verify(path)
    with pytest.raises(checkpoint.DamagedCheckpoint, match=file.name):
        checkpoint.load(session, saved)
    assert checkpoint.load(session, saved, fallback=True).step == 2


def test_an_empty_folder_hides_no_checkpoint(session, saved):
    (saved / "step-0000000099").mkdir()
    assert [path.name for path in checkpoint.checkpoints(saved)] == [
        "step-0000000002",
        "step-0000000004",
    ]
    assert checkpoint.load(session, saved).step == 4
    assert checkpoint.save(session, saved, step=99).path.name == "step-0000000099"
    assert checkpoint.load(session, saved).step == 99


def test_what_cannot_be_loaded_is_not_counted_among_those_kept(session, saved):
    (saved / "step-0000000099").mkdir()
    (saved / "step-0000000098").mkdir()
    (saved / "step-0000000098" / "notes").write_text("mine")
    checkpoint.save(session, saved, step=6, keep=2)
    names = sorted(path.name for path in saved.iterdir() if path.name.startswith("step"))
    assert names == [f"step-{step:010d}" for step in (4, 6, 98, 99)]


def test_leftovers_and_locks_that_are_no_folders_and_files(session, saved):
    os.mkfifo(saved / ".writing-step-0000000007")
    (saved / ".deleted-step-0000000001").symlink_to("/dev")
    (saved / ".lock").unlink()
    os.mkfifo(saved / ".lock")
    assert checkpoint.save(session, saved, step=7).step == 7
    assert not (saved / ".writing-step-0000000007").exists() and os.path.isdir("/dev")
    (saved / ".lock").unlink()
    (saved / ".lock").mkdir()
    with pytest.raises(checkpoint.CheckpointError, match=r"cannot be written.*Is a directory"):
        checkpoint.save(session, saved, step=8)
