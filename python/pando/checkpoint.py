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
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pando.checkpoint_files import (
    CheckpointError,
    DamagedCheckpoint,
    WrongCheckpoint,
    complete_checkpoints,
    read_manifest,
    step_of,
    verify,
)
from pando.checkpoint_job import Checkpoint, CheckpointJob, PendingCheckpoint
from pando.checkpoint_state import (
    check_files,
    check_model,
    check_parts,
    restore,
)
from pando.interrupts import HeldInterrupts

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
    progress: Callable[[int], object] | None = None,
) -> Checkpoint:
    """Saves the state of an attached session as `folder/step-...`, between runs.

    Other threads that use the session wait until it is saved.

    Args:
        session: A popxl session, inside its context.
        folder: The folder of checkpoints, made when missing.
        step: The step that the state belongs to, at least 0.
        extra: What else belongs to the run, as JSON can hold it.
        generators: Name -> NumPy generator whose state `load` brings back.
        keep: How many of the newest checkpoints stay; None means all.
        progress: Called with the bytes of each row of a remote buffer that has been written. It may
            read the session; running or changing it is a RuntimeError.

    Returns:
        The checkpoint, which is durable.

    Raises:
        CheckpointError: It cannot be written; earlier checkpoints stay as they are.
        ValueError: The session is not attached, `step` is negative or `keep` less than 1.
        TypeError: JSON cannot hold `extra`.
    """
    core, facts = _core_session(session), _checked_facts(step, extra, generators, keep)
    with session._lock, _in_checkpoint(session, "saving it once more"):
        _wait_for_previous(session)
        # A program would wait for a snapshot that an interrupt left behind.
        with HeldInterrupts() as held:
            job = CheckpointJob(core, None, Path(folder), facts, keep, progress)
            try:
                with held.allowed():
                    return job.run()
            finally:
                job.end()


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
    """Saves the state of now, as `save`, by a thread while the session runs on.

    Variables are copied at once. A row of a remote buffer that the program stores before it has
    been written is copied first. A later save waits for this one to end, and so does leaving the
    session.

    Args:
        session: As for `save`.
        folder: As for `save`.
        step: As for `save`.
        extra: As for `save`.
        generators: As for `save`.
        keep: As for `save`.
        room_bytes: Bytes of copied rows; beyond them the program waits for rows to be written.

    Returns:
        The checkpoint under way, which can be waited for.

    Raises:
        ValueError: As for `save`.
        TypeError: As for `save`.
    """
    core, facts = _core_session(session), _checked_facts(step, extra, generators, keep)
    with session._lock, _in_checkpoint(session, "saving it once more"):
        _wait_for_previous(session)
        with HeldInterrupts():
            job = CheckpointJob(core, room_bytes, Path(folder), facts, keep, None)
            _pending[session] = pending = PendingCheckpoint(job.run, job.end)
            session._before_unload(pending.join)
    return pending


def _checked_facts(
    step: int,
    extra: Mapping[str, Any] | None,
    generators: Mapping[str, np.random.Generator] | None,
    keep: int | None,
) -> dict[str, Any]:
    """What the manifest says beside the state; refuses arguments that make no sense."""
    if step < 0:
        raise ValueError(f"save: wanted a step of at least 0; given {step}")
    if keep is not None and keep < 1:
        raise ValueError(f"save: wanted to keep at least 1 checkpoint; given {keep}")
    states = {name: _json_state(g.bit_generator.state) for name, g in (generators or {}).items()}
    facts = {"step": step, "extra": dict(extra or {}), "generators": states}
    # What JSON cannot hold is refused before anything is written.
    decoded: dict[str, Any] = json.loads(json.dumps(facts))
    return decoded


@contextmanager
def _in_checkpoint(session: Any, what: str) -> Iterator[None]:
    """Refuses what would change the session, on this thread; others wait for its lock."""
    if session._in_checkpoint:
        session._refuse_in_checkpoint(what)
    session._in_checkpoint = True
    try:
        yield
    finally:
        session._in_checkpoint = False


def _wait_for_previous(session: Any) -> None:
    previous = _pending.get(session)
    if previous is not None:
        previous.join()


def _json_state(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {key: _json_state(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state


def _check_generators(
    path: Path, generators: Mapping[str, np.random.Generator], states: Mapping[str, Any]
) -> None:
    """WrongCheckpoint unless there is a state for each generator, of its kind."""
    missing = sorted(generators.keys() - states.keys())
    if missing:
        raise WrongCheckpoint(f"{path} has no state of the generators {missing}")
    for name, generator in generators.items():
        try:
            type(generator.bit_generator)().state = states[name]
        except (ValueError, TypeError, KeyError) as error:
            raise WrongCheckpoint(
                f"{path} has no state for the generator '{name}', a "
                f"{type(generator.bit_generator).__name__}: {error}"
            ) from error


def checkpoints(folder: str | os.PathLike[str]) -> list[Path]:
    """The checkpoints in a folder; they are not looked into.

    Args:
        folder: The folder; one that is missing has none.

    Returns:
        Their folders, oldest first.
    """
    root = Path(folder)
    return [path for _, _, path in complete_checkpoints(root)] if root.is_dir() else []


def load(
    session: Any,
    folder: str | os.PathLike[str],
    *,
    step: int | None = None,
    fallback: bool = False,
    generators: Mapping[str, np.random.Generator] | None = None,
    progress: Callable[[int], object] | None = None,
    restored: Callable[[], object] | None = None,
) -> Checkpoint:
    """Brings back a checkpoint.

    The session is changed only by a checkpoint that has been read and checked whole, and takes its
    state whole: Ctrl-C and what `progress` raises wait for that.

    Args:
        session: A popxl session, inside its context.
        folder: The folder of checkpoints.
        step: The step; None means the newest checkpoint.
        fallback: Whether the next older one is taken where one is damaged.
        generators: Name -> NumPy generator that gets its state back.
        progress: Called with the bytes of each row of a remote buffer that has been read; no more
            once it has raised. As for `save`.
        restored: Called when the state is there, before what waited is raised.

    Returns:
        The checkpoint that was loaded.

    Raises:
        CheckpointError: There is none, or its files cannot be read again after they were checked:
            the session has a part of its state then.
        DamagedCheckpoint: A file, which is named, is not what was written.
        WrongCheckpoint: It is one of another model, or lacks a generator; the error says what
            differs.
        ValueError: The session is not attached.
    """
    wanted = generators or {}
    core = _core_session(session)
    path, body, skipped = _first_whole(core, folder, step, fallback, wanted)
    report = _LateErrors(progress) if progress else None
    with session._lock, HeldInterrupts():
        with _in_checkpoint(session, "loading a checkpoint"):
            try:
                restore(core, path, body, report)
            except (OSError, EOFError, CheckpointError) as error:
                raise CheckpointError(
                    f"{path} was whole when it was checked, but could not be read again: {error}; "
                    "the session has a part of its state: load a checkpoint before it runs again"
                ) from error
            finally:
                session._mark_device_changed()
        for name, generator in wanted.items():
            generator.bit_generator.state = body["generators"][name]
        if restored:
            restored()
    if report:
        report.raise_first()
    return Checkpoint(path, int(body["step"]), body["extra"], skipped)


class _LateErrors:
    """A callback whose first error waits, and that is not called again after it.

    Args:
        body: The callback.
    """

    def __init__(self, body: Callable[[int], object]) -> None:
        self._body = body
        self._error: BaseException | None = None

    def __call__(self, size: int) -> None:
        if self._error is not None:
            return
        try:
            self._body(size)
        except BaseException as error:  # of a handler of signals too
            self._error = error

    def raise_first(self) -> None:
        """Raises it, if there is one."""
        if self._error is not None:
            raise self._error


def _first_whole(
    core: Any,
    folder: str | os.PathLike[str],
    step: int | None,
    fallback: bool,
    generators: Mapping[str, np.random.Generator],
) -> tuple[Path, dict[str, Any], list[str]]:
    """The checkpoint that `load` brings back, its manifest, and what is said of damaged ones."""
    found = [c for c in reversed(checkpoints(folder)) if step is None or step_of(c) == step]
    if not found:
        which = "no checkpoint" if step is None else f"no checkpoint of step {step}"
        raise CheckpointError(f"there is {which} in {Path(folder)}")
    skipped: list[str] = []
    for path in found:
        try:
            body = read_manifest(path)
            check_parts(path, body)
            check_model(path, body, core)
            _check_generators(path, generators, body["generators"])
            verify(path)
            check_files(core, path, body)
        except DamagedCheckpoint as error:
            if not fallback:
                raise
            skipped.append(str(error))
            continue
        return path, body, skipped
    raise DamagedCheckpoint(
        f"every checkpoint in {Path(folder)} is damaged:\n  " + "\n  ".join(skipped)
    )
