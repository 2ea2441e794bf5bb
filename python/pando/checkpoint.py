"""Durable checkpoints of a session: variables, remote buffers, random state and step.

    checkpoint.save(session, "checkpoints", step=100, generators={"data": rng}, keep=3)
    checkpoint.load(session, "checkpoints", generators={"data": rng})

Each checkpoint is a folder below the given one, `step-0000000100`, with the tensors in safetensors
files and `manifest.json`, which names them with dtypes, shapes and checksums. It is written under
another name, made durable and only then renamed: a process that is killed at any instant leaves the
earlier checkpoints and this one either whole or not there. A loaded session goes on with the same
bits as the saved one.

State is saved as the replicas have it, so a sharded buffer gives one file per replica; tensors of a
later replica that equal those of the first are written once.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pando import _core
from pando.safetensors_file import (
    Bytes,
    TensorEntry,
    TensorFileReader,
    TensorFileWriter,
    file_checksum,
)

FORMAT = "pando-checkpoint"
VERSION = 1
_MANIFEST = "manifest.json"
_LOCK = ".lock"
_WRITING = ".writing-"
_DELETED = ".deleted-"
_NAME = re.compile(r"step-(\d{10,})(?:\.(\d+))?")
# More differences than these are counted only.
_MOST_DIFFERENCES = 10


class CheckpointError(_core.popart_runtime_error):  # type: ignore[misc]
    """A checkpoint that cannot be written or read."""


class DamagedCheckpoint(CheckpointError):
    """A checkpoint with a file that is missing, truncated or changed."""


class WrongCheckpoint(CheckpointError):
    """A checkpoint of another model, or of another version of the format."""


@dataclass(frozen=True)
class Checkpoint:
    """What was saved or loaded."""

    path: Path
    step: int
    extra: dict[str, Any]
    # Damaged checkpoints that were passed over: why.
    skipped: list[str] = field(default_factory=list)


# What there is to save ----------------------------------------------------------------------------


def _core_session(session: Any) -> Any:
    core = session._pb_session.program
    if not session.is_attached:
        raise ValueError(
            "a checkpoint needs a session that is attached to a device: use it inside "
            "`with session:`"
        )
    return core


def _dtype_name(dtype: Any) -> str:
    return str(dtype.name)


def _variables(core: Any) -> list[tuple[int, TensorEntry]]:
    """Persistent tensors with state: their index and description."""
    tensors = core.persistent
    return [
        (
            int(index),
            TensorEntry(
                tensors[index].id,
                _dtype_name(tensors[index].dtype),
                tuple(tensors[index].shape),
                int(_core.dtype_bytes(tensors[index].dtype)),
            ),
        )
        for index in core.state_tensors
    ]


def _buffers(core: Any) -> list[TensorEntry]:
    """One entry per remote buffer, with the slots as the first axis."""
    return [
        TensorEntry(
            f"remote_buffer_{buffer.id}",
            _dtype_name(buffer.dtype),
            (int(buffer.entries), *buffer.shape),
            int(_core.dtype_bytes(buffer.dtype)),
        )
        for buffer in core.remote_buffers
    ]


def _model(core: Any) -> dict[str, Any]:
    """What a checkpoint and a program must agree on."""

    def described(entries: list[TensorEntry]) -> dict[str, Any]:
        return {e.name: {"dtype": e.dtype, "shape": list(e.shape)} for e in entries}

    return {
        "replicas": int(core.num_replicas),
        "variables": described([entry for _, entry in _variables(core)]),
        "remote_buffers": described(_buffers(core)),
    }


# Writing ------------------------------------------------------------------------------------------


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process writes to a folder of checkpoints at a time."""
    with (folder / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise CheckpointError(
                f"another process is writing a checkpoint to {folder}: wait for it, or give "
                "another folder"
            ) from None
        yield


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(data: Any) -> str:
    total = _core.Checksum()
    total.update(data)
    return f"{total.value:016x}"


def _value(core: Any, replica: int, index: int, entry: TensorEntry) -> Bytes:
    value = np.empty(entry.num_bytes, np.uint8)
    core.read_persistent(replica, index, value)
    return value


def _write_variables(
    core: Any, folder: Path, replica: int, known: dict[str, str]
) -> dict[str, Any]:
    """`known`: checksums of those of replica 0; later replicas leave out what equals them."""
    chosen = [
        (index, entry)
        for index, entry in _variables(core)
        if replica == 0 or _checksum(_value(core, replica, index, entry)) != known[entry.name]
    ]
    name = f"variables.replica-{replica}.safetensors"
    with TensorFileWriter(folder / name, [entry for _, entry in chosen]) as file:
        for index, entry in chosen:
            value = _value(core, replica, index, entry)
            if replica == 0:
                known[entry.name] = _checksum(value)
            file.write(value)
        file.close()
    return {**_file_record(name, file, replica), "variables": [e.name for _, e in chosen]}


def _write_buffer(core: Any, folder: Path, index: int, replica: int) -> dict[str, Any]:
    entry = _buffers(core)[index]
    name = f"{entry.name}.replica-{replica}.safetensors"
    slots = entry.shape[0]
    row = np.empty(entry.num_bytes // slots, np.uint8)
    with TensorFileWriter(folder / name, [entry]) as file:
        for slot in range(slots):
            core.read_remote(replica, index, slot, row)
            file.write(row)
        file.close()
    return {**_file_record(name, file, replica), "remote_buffer": entry.name}


def _file_record(name: str, file: TensorFileWriter, replica: int) -> dict[str, Any]:
    return {
        "name": name,
        "bytes": file.num_bytes,
        "checksum": file.checksum,
        "replica": replica,
    }


def _write_manifest(path: Path, body: dict[str, Any]) -> None:
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "checksum": _body_checksum(body),
        "body": body,
    }
    with path.open("x", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _body_checksum(body: dict[str, Any]) -> str:
    return _checksum(json.dumps(body, sort_keys=True).encode())


def _write_all(core: Any, folder: Path, facts: dict[str, Any]) -> None:
    known: dict[str, str] = {}
    files = []
    for replica in range(core.num_replicas):
        files.append(_write_variables(core, folder, replica, known))
        for index in range(len(core.remote_buffers)):
            files.append(_write_buffer(core, folder, index, replica))
    body = {
        **facts,
        "model": _model(core),
        "program": f"{core.fingerprint:016x}",
        "files": files,
    }
    _write_manifest(folder / _MANIFEST, body)
    _sync_folder(folder)


def save(
    session: Any,
    folder: str | os.PathLike[str],
    *,
    step: int,
    extra: Mapping[str, Any] | None = None,
    generators: Mapping[str, np.random.Generator] | None = None,
    keep: int | None = None,
) -> Checkpoint:
    """Saves the state of an attached session as `folder/step-...`, between runs.

    extra: what else belongs to the run, as JSON. generators: NumPy generators whose state `load`
    brings back. keep: how many of the newest checkpoints stay; None: all. Raises CheckpointError
    when it cannot be written; earlier checkpoints then stay as they are.
    """
    if step < 0:
        raise ValueError(f"save: wanted a step of at least 0; given {step}")
    if keep is not None and keep < 1:
        raise ValueError(f"save: wanted to keep at least 1 checkpoint; given {keep}")
    core = _core_session(session)
    states = {name: _json_state(g.bit_generator.state) for name, g in (generators or {}).items()}
    facts = {"step": step, "extra": dict(extra or {}), "generators": states}
    json.dumps(facts)  # what JSON cannot hold is refused before anything is written
    root = Path(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root):
            _remove_leftovers(root)
            path = _write_one(core, root, step, facts)
            _forget_old(root, path, keep)
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint of step {step} cannot be written to {root}: "
            f"{error.strerror or error}; earlier checkpoints are as they were"
        ) from error
    return Checkpoint(path, step, dict(extra or {}))


def _json_state(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {key: _json_state(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state


def _write_one(core: Any, root: Path, step: int, facts: dict[str, Any]) -> Path:
    name = f"step-{step:010d}"
    versions = [version for s, version, _ in _complete(root) if s == step]
    if versions:
        name += f".{max(versions) + 1}"
    writing = root / (_WRITING + name)
    writing.mkdir()
    try:
        _write_all(core, writing, facts)
        os.rename(writing, root / name)
    except BaseException:
        shutil.rmtree(writing, ignore_errors=True)
        raise
    _sync_folder(root)
    return root / name


def _remove_leftovers(root: Path) -> None:
    """What killed processes left."""
    for path in root.iterdir():
        if path.name.startswith((_WRITING, _DELETED)):
            shutil.rmtree(path)


def _complete(root: Path) -> list[tuple[int, int, Path]]:
    """The checkpoints of a folder, by step and version, oldest first."""
    found = []
    for path in root.iterdir():
        match = _NAME.fullmatch(path.name)
        if match and path.is_dir():
            found.append((int(match[1]), int(match[2] or 0), path))
    return sorted(found)


def _forget_old(root: Path, newest: Path, keep: int | None) -> None:
    """Beyond `keep`, the oldest; of a step that was saved again, the older versions."""
    checkpoints = _complete(root)
    last = {step: path for step, _, path in checkpoints}
    outdated = [path for step, _, path in checkpoints if last[step] != path]
    if keep is not None:
        outdated += [path for path in list(last.values())[:-keep] if path != newest]
    for path in outdated:
        # A folder that is half removed must not look like a checkpoint.
        deleted = root / (_DELETED + path.name)
        os.rename(path, deleted)
        shutil.rmtree(deleted)


# Reading ------------------------------------------------------------------------------------------


def checkpoints(folder: str | os.PathLike[str]) -> list[Path]:
    """The checkpoints in a folder, oldest first; they are not looked into."""
    root = Path(folder)
    return [path for _, _, path in _complete(root)] if root.is_dir() else []


def read_manifest(path: Path) -> dict[str, Any]:
    """The body of a checkpoint's manifest. DamagedCheckpoint, WrongCheckpoint."""
    file = path / _MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        found, version = manifest["format"], manifest["version"]
        checksum, body = manifest["checksum"], manifest["body"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{file} cannot be read: {error!r}") from error
    if (found, version) != (FORMAT, VERSION):
        raise WrongCheckpoint(
            f"{file}: wanted the format {FORMAT!r} version {VERSION}; found {found!r} version "
            f"{version!r}"
        )
    if _body_checksum(body) != checksum:
        raise DamagedCheckpoint(f"{file} is damaged: it is not what was written")
    return dict(body)


def verify(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads all of a checkpoint; returns the body of its manifest. Raises DamagedCheckpoint, which
    names the file."""
    folder = Path(path)
    body = read_manifest(folder)
    for record in body["files"]:
        file = folder / record["name"]
        try:
            size = file.stat().st_size
            if size != record["bytes"]:
                raise DamagedCheckpoint(
                    f"{file} has {size} bytes; {record['bytes']} were written: it was truncated "
                    "or replaced"
                )
            if file_checksum(file) != record["checksum"]:
                raise DamagedCheckpoint(f"{file} is damaged: its bytes are not those written")
        except OSError as error:
            raise DamagedCheckpoint(f"{file} cannot be read: {error.strerror}") from error
    return body


def _differences(saved: dict[str, Any], here: dict[str, Any]) -> list[str]:
    result = []
    if saved["replicas"] != here["replicas"]:
        result.append(f"replicas: {saved['replicas']} in the checkpoint, {here['replicas']} here")
    for kind, what in (("variables", "variable"), ("remote_buffers", "remote buffer")):
        for name in sorted(saved[kind].keys() | here[kind].keys()):
            there, own = saved[kind].get(name), here[kind].get(name)
            if there == own:
                continue

            def text(entry: dict[str, Any] | None) -> str:
                if entry is None:
                    return "missing"
                return f"{entry['dtype']} {tuple(entry['shape'])}"

            result.append(f"{what} '{name}': {text(there)} in the checkpoint, {text(own)} here")
    return result


def _check_model(path: Path, body: dict[str, Any], core: Any) -> None:
    different = _differences(body["model"], _model(core))
    if different:
        shown = different[:_MOST_DIFFERENCES]
        more = len(different) - len(shown)
        tail = f"\n  and {more} more" if more else ""
        raise WrongCheckpoint(
            f"{path} is a checkpoint of another model:\n  " + "\n  ".join(shown) + tail
        )
    if int(body["program"], 16) != core.fingerprint:
        logging.getLogger(__name__).warning(
            "%s was written by a program with the same state but other ops", path
        )


def load(
    session: Any,
    folder: str | os.PathLike[str],
    *,
    step: int | None = None,
    fallback: bool = False,
    generators: Mapping[str, np.random.Generator] | None = None,
) -> Checkpoint:
    """Brings back the newest checkpoint in `folder`, or that of `step`.

    A damaged checkpoint raises DamagedCheckpoint, which names the file; with `fallback` the next
    older one is taken. One of another model raises WrongCheckpoint, which says what differs. The
    session is changed only by a checkpoint that has been read and checked whole.
    """
    core = _core_session(session)
    found = [c for c in reversed(checkpoints(folder)) if step is None or _step_of(c) == step]
    if not found:
        which = "no checkpoint" if step is None else f"no checkpoint of step {step}"
        raise CheckpointError(f"there is {which} in {Path(folder)}")
    skipped: list[str] = []
    for path in found:
        try:
            body = read_manifest(path)
            _check_model(path, body, core)
            wanted = generators or {}
            missing = sorted(wanted.keys() - body["generators"].keys())
            if missing:
                raise WrongCheckpoint(f"{path} has no state of the generators {missing}")
            verify(path)
        except DamagedCheckpoint as error:
            if not fallback:
                raise
            skipped.append(str(error))
            continue
        _restore(core, path, body)
        session._mark_device_changed()
        for name, generator in wanted.items():
            generator.bit_generator.state = body["generators"][name]
        return Checkpoint(path, int(body["step"]), body["extra"], skipped)
    raise DamagedCheckpoint(
        f"every checkpoint in {Path(folder)} is damaged:\n  " + "\n  ".join(skipped)
    )


def _step_of(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def _restore(core: Any, path: Path, body: dict[str, Any]) -> None:
    # The files of replica 0 come first; later ones have only what differs.
    for record in body["files"]:
        with TensorFileReader(path / record["name"]) as file:
            if "variables" in record:
                _restore_variables(core, file, record)
            else:
                _restore_buffer(core, file, record)


def _restore_variables(core: Any, file: TensorFileReader, record: dict[str, Any]) -> None:
    known = {entry.name: (index, entry) for index, entry in _variables(core)}
    replica = record["replica"]
    for name in record["variables"]:
        index, entry = known[name]
        value = np.empty(entry.num_bytes, np.uint8)
        file.seek(name)
        file.read_into(value)
        for target in range(core.num_replicas) if replica == 0 else [replica]:
            core.write_persistent(target, index, value)


def _restore_buffer(core: Any, file: TensorFileReader, record: dict[str, Any]) -> None:
    entries = _buffers(core)
    index = [entry.name for entry in entries].index(record["remote_buffer"])
    slots = entries[index].shape[0]
    row = np.empty(entries[index].num_bytes // slots, np.uint8)
    file.seek(entries[index].name)
    for slot in range(slots):
        file.read_into(row)
        core.write_remote(record["replica"], index, slot, row)
