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
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from pando import _core
from pando.safetensors_file import (
    TensorEntry,
    TensorFileReader,
    TensorFileWriter,
    check_file,
    checksum,
)

FORMAT = "pando-checkpoint"
VERSION = 1
_MANIFEST = "manifest.json"
_LOCK = ".lock"
_WRITING = ".writing-"
_DELETED = ".deleted-"
_NAME = re.compile(r"step-(\d{10,})(?:\.(\d+))?")
_ROOM_BYTES = 256 << 20
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


class _StateWriter:
    """Writes one snapshot to files in a folder."""

    def __init__(self, core: Any, snapshot: Any, folder: Path) -> None:
        self._snapshot = snapshot
        self._folder = folder
        self._replicas = int(core.num_replicas)
        self._variables = _variables(core)
        self._buffers = _buffers(core)

    def write(self) -> list[dict[str, Any]]:
        """What the manifest says of the files; those of replica 0 come first."""
        rows = [self._buffer_files(replica) for replica in range(self._replicas)]
        self._write_rows(rows)
        known: dict[str, str] = {}
        records = []
        for replica, files in enumerate(rows):
            records.append(self._write_variables(replica, known))
            for entry, file in zip(self._buffers, files, strict=True):
                file.close()
                records.append({**file.record(), "replica": replica, "remote_buffer": entry.name})
        return records

    def _buffer_files(self, replica: int) -> list[TensorFileWriter]:
        return [
            TensorFileWriter(
                self._folder / f"{entry.name}.replica-{replica}.safetensors",
                [entry],
                entry.num_bytes // entry.shape[0],
            )
            for entry in self._buffers
        ]

    def _write_rows(self, files: list[list[TensorFileWriter]]) -> None:
        sizes = [entry.num_bytes // entry.shape[0] for entry in self._buffers]
        memory = np.empty(max(sizes, default=0), np.uint8)
        while (row := self._snapshot.next_row(memory)) is not None:
            files[row.replica][row.buffer].write(row.slot, memory[: sizes[row.buffer]])
        if not all(file.is_complete for of_replica in files for file in of_replica):
            raise CheckpointError("another snapshot of the session began before this one ended")

    def _write_variables(self, replica: int, known: dict[str, str]) -> dict[str, Any]:
        """`known`: checksums of those of replica 0; later replicas leave out what equals them."""
        chosen = []
        for index, entry in self._variables:
            value = np.empty(entry.num_bytes, np.uint8)
            self._snapshot.read_persistent(replica, index, value)
            found = checksum(value)
            if replica == 0:
                known[entry.name] = found
            if replica == 0 or known[entry.name] != found:
                chosen.append((index, entry))
        name = f"variables.replica-{replica}.safetensors"
        file = TensorFileWriter(self._folder / name, [entry for _, entry in chosen])
        for piece, (index, entry) in enumerate(chosen):
            value = np.empty(entry.num_bytes, np.uint8)
            self._snapshot.read_persistent(replica, index, value)
            file.write(piece, value)
        file.close()
        return {
            **file.record(),
            "replica": replica,
            "variables": [entry.name for _, entry in chosen],
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
    return checksum(json.dumps(body, sort_keys=True).encode())


@overload
def save(
    session: Any,
    folder: str | os.PathLike[str],
    *,
    step: int,
    extra: Mapping[str, Any] | None = None,
    generators: Mapping[str, np.random.Generator] | None = None,
    keep: int | None = None,
    room_bytes: int = _ROOM_BYTES,
    wait: Literal[True] = True,
) -> Checkpoint: ...


@overload
def save(
    session: Any,
    folder: str | os.PathLike[str],
    *,
    step: int,
    extra: Mapping[str, Any] | None = None,
    generators: Mapping[str, np.random.Generator] | None = None,
    keep: int | None = None,
    room_bytes: int = _ROOM_BYTES,
    wait: Literal[False],
) -> PendingCheckpoint: ...


def save(
    session: Any,
    folder: str | os.PathLike[str],
    *,
    step: int,
    extra: Mapping[str, Any] | None = None,
    generators: Mapping[str, np.random.Generator] | None = None,
    keep: int | None = None,
    room_bytes: int = _ROOM_BYTES,
    wait: bool = True,
) -> Checkpoint | PendingCheckpoint:
    """Saves the state of an attached session as `folder/step-...`, between runs.

    extra: what else belongs to the run, as JSON. generators: NumPy generators whose state `load`
    brings back. keep: how many of the newest checkpoints stay; None: all.

    With wait=False the checkpoint is written by a thread while the session runs on; it holds the
    state of now. Variables are copied at once. A row of a remote buffer that the program stores
    before it has been written is copied first; beyond `room_bytes` of such copies the program waits
    for the row. One snapshot at a time: a later `save` ends one that is not complete.

    Raises CheckpointError when it cannot be written, from `wait()` of a pending one; earlier
    checkpoints then stay as they are.
    """
    if step < 0:
        raise ValueError(f"save: wanted a step of at least 0; given {step}")
    if keep is not None and keep < 1:
        raise ValueError(f"save: wanted to keep at least 1 checkpoint; given {keep}")
    core = _core_session(session)
    states = {name: _json_state(g.bit_generator.state) for name, g in (generators or {}).items()}
    facts = {"step": step, "extra": dict(extra or {}), "generators": states}
    # What JSON cannot hold is refused before anything is written.
    facts = json.loads(json.dumps(facts))
    job = _Job(core, core.snapshot(room_bytes), Path(folder), facts, keep)
    if wait:
        return job.run()
    pending = PendingCheckpoint(job)
    session._before_unload(pending.join)
    return pending


class _Job:
    """A snapshot on its way to a folder."""

    def __init__(
        self, core: Any, snapshot: Any, root: Path, facts: dict[str, Any], keep: int | None
    ) -> None:
        self._root, self._facts, self._keep = root, facts, keep
        self._snapshot = snapshot
        self._model = {"model": _model(core), "program": f"{core.fingerprint:016x}"}
        self._core = core

    def run(self) -> Checkpoint:
        step = self._facts["step"]
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with _locked(self._root):
                _remove_leftovers(self._root)
                path = self._write()
                _forget_old(self._root, path, self._keep)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint of step {step} cannot be written to {self._root}: "
                f"{error.strerror or error}; earlier checkpoints are as they were"
            ) from error
        finally:
            # The program's stores may wait for the snapshot.
            self._snapshot.cancel()
        return Checkpoint(path, step, self._facts["extra"])

    def _write(self) -> Path:
        step = self._facts["step"]
        name = f"step-{step:010d}"
        versions = [version for s, version, _ in _complete(self._root) if s == step]
        if versions:
            name += f".{max(versions) + 1}"
        writing = self._root / (_WRITING + name)
        writing.mkdir()
        try:
            files = _StateWriter(self._core, self._snapshot, writing).write()
            _write_manifest(writing / _MANIFEST, {**self._facts, **self._model, "files": files})
            _sync_folder(writing)
            os.rename(writing, self._root / name)
        except BaseException:
            shutil.rmtree(writing, ignore_errors=True)
            raise
        _sync_folder(self._root)
        return self._root / name


class PendingCheckpoint:
    """A checkpoint that is written while the session goes on."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._result: Checkpoint | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pando-checkpoint")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._job.run()
        except BaseException as error:
            self._error = error
            logging.getLogger(__name__).error("a checkpoint was not written: %s", error)

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Returns when it has ended. A session that is left does so."""
        self._thread.join()

    def wait(self) -> Checkpoint:
        """Returns when it is durable; raises what went wrong."""
        self.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


def _json_state(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {key: _json_state(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state


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
        wanted, body = manifest["checksum"], manifest["body"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{file} cannot be read: {error!r}") from error
    if (found, version) != (FORMAT, VERSION):
        raise WrongCheckpoint(
            f"{file}: wanted the format {FORMAT!r} version {VERSION}; found {found!r} version "
            f"{version!r}"
        )
    if _body_checksum(body) != wanted:
        raise DamagedCheckpoint(f"{file} is damaged: it is not what was written")
    return dict(body)


def verify(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads all of a checkpoint; returns the body of its manifest. Raises DamagedCheckpoint, which
    names the file."""
    folder = Path(path)
    body = read_manifest(folder)
    for record in body["files"]:
        fault = check_file(folder, record)
        if fault:
            raise DamagedCheckpoint(fault)
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
