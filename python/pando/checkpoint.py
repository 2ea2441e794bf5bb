"""Durable checkpoints of a session: variables, remote buffers, random state and step.

    checkpoint.save(session, "checkpoints", step=100, generators={"data": rng}, keep=3)
    checkpoint.load(session, "checkpoints", generators={"data": rng})

`save_later` does it while the session runs on.

Each checkpoint is a folder below the given one, `step-0000000100`, with the tensors in safetensors
files and `manifest.json`, which names them with dtypes, shapes and checksums. It is written under
another name, made durable and only then renamed: a process that is killed at any instant leaves the
earlier checkpoints and this one either whole or not there. A loaded session goes on with the same
bits as the saved one.

State is saved as the replicas have it, so a sharded buffer gives one file per replica; tensors of a
later replica that equal those of the first are written once.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pando.checkpoint_files import (
    MANIFEST,
    WRITING,
    CheckpointError,
    DamagedCheckpoint,
    WrongCheckpoint,
    complete_checkpoints,
    forget_old,
    locked,
    read_manifest,
    remove_leftovers,
    step_of,
    sync_folder,
    verify,
    write_manifest,
)
from pando.checkpoint_state import StateWriter, check_model, model_of, restore

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "DamagedCheckpoint",
    "PendingCheckpoint",
    "WrongCheckpoint",
    "checkpoints",
    "load",
    "read_manifest",
    "save",
    "save_later",
    "verify",
]

# The last one of each session that was not waited for.
_pending: WeakKeyDictionary[Any, PendingCheckpoint] = WeakKeyDictionary()


@dataclass(frozen=True)
class Checkpoint:
    """What was saved or loaded."""

    path: Path
    step: int
    extra: dict[str, Any]
    # Damaged checkpoints that were passed over: why.
    skipped: list[str] = field(default_factory=list)


def _core_session(session: Any) -> Any:
    core = session._pb_session.program
    if not session.is_attached:
        raise ValueError(
            "a checkpoint needs a session that is attached to a device: use it inside "
            "`with session:`"
        )
    return core


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
    brings back. keep: how many of the newest checkpoints stay; None: all.

    Raises CheckpointError when it cannot be written; earlier checkpoints then stay as they are.
    """
    # The program does not run meanwhile, so there are no rows to copy.
    return _job(session, folder, step, extra, generators, keep, room_bytes=0).run()


def save_later(
    session: Any,
    folder: str | os.PathLike[str],
    *,
    step: int,
    extra: Mapping[str, Any] | None = None,
    generators: Mapping[str, np.random.Generator] | None = None,
    keep: int | None = None,
    room_bytes: int = 256 << 20,
) -> PendingCheckpoint:
    """As `save`, by a thread while the session runs on; it holds the state of now.

    Variables are copied at once. A row of a remote buffer that the program stores before it has
    been written is copied first; beyond `room_bytes` of such copies the program waits for the row.
    A later save waits for this one to end, and so does leaving the session.
    """
    pending = PendingCheckpoint(_job(session, folder, step, extra, generators, keep, room_bytes))
    _pending[session] = pending
    session._before_unload(pending.join)
    return pending


def _job(
    session: Any,
    folder: str | os.PathLike[str],
    step: int,
    extra: Mapping[str, Any] | None,
    generators: Mapping[str, np.random.Generator] | None,
    keep: int | None,
    room_bytes: int,
) -> _Job:
    """The state of now, ready to be written. Waits for the session's checkpoint before."""
    if step < 0:
        raise ValueError(f"save: wanted a step of at least 0; given {step}")
    if keep is not None and keep < 1:
        raise ValueError(f"save: wanted to keep at least 1 checkpoint; given {keep}")
    core = _core_session(session)
    states = {name: _json_state(g.bit_generator.state) for name, g in (generators or {}).items()}
    facts = {"step": step, "extra": dict(extra or {}), "generators": states}
    # What JSON cannot hold is refused before anything is written.
    facts = json.loads(json.dumps(facts))
    previous = _pending.get(session)
    if previous is not None:
        previous.join()
    return _Job(core, core.snapshot(room_bytes), Path(folder), facts, keep)


class _Job:
    """A snapshot on its way to a folder."""

    def __init__(
        self, core: Any, snapshot: Any, root: Path, facts: dict[str, Any], keep: int | None
    ) -> None:
        self._root, self._facts, self._keep = root, facts, keep
        self._snapshot = snapshot
        self._model = {"model": model_of(core), "program": f"{core.fingerprint:016x}"}
        self._core = core

    def run(self) -> Checkpoint:
        step = self._facts["step"]
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with locked(self._root):
                remove_leftovers(self._root)
                path = self._write()
                forget_old(self._root, path, self._keep)
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
        versions = [version for s, version, _ in complete_checkpoints(self._root) if s == step]
        if versions:
            name += f".{max(versions) + 1}"
        writing = self._root / (WRITING + name)
        writing.mkdir()
        try:
            files = StateWriter(self._core, self._snapshot, writing).write()
            write_manifest(writing / MANIFEST, {**self._facts, **self._model, "files": files})
            sync_folder(writing)
            os.rename(writing, self._root / name)
        except BaseException:
            shutil.rmtree(writing, ignore_errors=True)
            raise
        sync_folder(self._root)
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


def checkpoints(folder: str | os.PathLike[str]) -> list[Path]:
    """The checkpoints in a folder, oldest first; they are not looked into."""
    root = Path(folder)
    return [path for _, _, path in complete_checkpoints(root)] if root.is_dir() else []


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
    found = [c for c in reversed(checkpoints(folder)) if step is None or step_of(c) == step]
    if not found:
        which = "no checkpoint" if step is None else f"no checkpoint of step {step}"
        raise CheckpointError(f"there is {which} in {Path(folder)}")
    skipped: list[str] = []
    for path in found:
        try:
            body = read_manifest(path)
            check_model(path, body, core)
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
        restore(core, path, body)
        session._mark_device_changed()
        for name, generator in wanted.items():
            generator.bit_generator.state = body["generators"][name]
        return Checkpoint(path, int(body["step"]), body["extra"], skipped)
    raise DamagedCheckpoint(
        f"every checkpoint in {Path(folder)} is damaged:\n  " + "\n  ".join(skipped)
    )
