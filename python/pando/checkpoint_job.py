"""What writes a checkpoint: at once, or on a thread while the session goes on."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pando.checkpoint_files import (
    MANIFEST,
    WRITING,
    CheckpointError,
    complete_checkpoints,
    forget_old,
    locked,
    remove_leftovers,
    sync_folder,
    write_manifest,
)
from pando.checkpoint_state import StateWriter, model_of


@dataclass(frozen=True)
class Checkpoint:
    """What was saved or loaded.

    Attributes:
        path: Its folder.
        step: Its step.
        extra: What else belongs to the run, as given to `save`.
        skipped: Why damaged checkpoints were passed over.
    """

    path: Path
    step: int
    extra: dict[str, Any]
    skipped: list[str] = field(default_factory=list)


class CheckpointJob:
    """The state of this moment on its way to a folder.

    Args:
        core: The core's session.
        room_bytes: Bytes of rows that are copied for stores of the program. None: the program does
            not run until the job has ended, so that nothing has to be copied.
        root: The folder of checkpoints.
        facts: What the manifest says beside the state.
        keep: How many checkpoints stay; None means all.
        progress: Called with the bytes of each row that has been written; None: nobody asks.
    """

    def __init__(
        self,
        core: Any,
        room_bytes: int | None,
        root: Path,
        facts: dict[str, Any],
        keep: int | None,
        progress: Callable[[int], object] | None,
    ) -> None:
        self._root, self._facts, self._keep, self._progress = root, facts, keep, progress
        self._model = {"model": model_of(core), "program": f"{core.fingerprint:016x}"}
        self._core = core
        self._snapshot: Any = core.snapshot(room_bytes or 0, rows_only=room_bytes is None)
        self._values: Any = core if room_bytes is None else self._snapshot

    def end(self) -> None:
        """The program's stores no longer wait for the snapshot, and its memory is free."""
        self._snapshot.cancel()
        self._snapshot = self._values = None

    def run(self) -> Checkpoint:
        """Writes it. Whoever runs it ends it afterwards.

        Returns:
            The checkpoint, which is durable.

        Raises:
            CheckpointError: It cannot be written.
        """
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
            state = StateWriter(self._core, self._snapshot, self._values, writing, self._progress)
            files = state.write()
            write_manifest(writing / MANIFEST, {**self._facts, **self._model, "files": files})
            sync_folder(writing)
            os.rename(writing, self._root / name)
        except BaseException:
            shutil.rmtree(writing, ignore_errors=True)
            raise
        sync_folder(self._root)
        return self._root / name


def _forget_frames(error: BaseException | None) -> None:
    """Lets go of what frames of an error have, as copies of variables, while it is kept."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class PendingCheckpoint:
    """A checkpoint that is written while the session goes on; `save_later` makes it.

    Args:
        write: Writes it.
        end: Called when that has ended, or cannot begin.
    """

    def __init__(self, write: Callable[[], Checkpoint], end: Callable[[], object]) -> None:
        self._write, self._end = write, end
        self._result: Checkpoint | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pando-checkpoint")
        try:
            self._thread.start()
        except RuntimeError as error:
            end()
            raise CheckpointError(
                f"the system gives no thread to write a checkpoint ({error}): raise the limits of "
                "processes and of memory (ulimit -u, ulimit -v), or use `save`, which needs none"
            ) from error

    def _run(self) -> None:
        try:
            self._result = self._write()
        except BaseException as error:
            self._error = error
            _forget_frames(error)
            logging.getLogger("pando.checkpoint").error("a checkpoint was not written: %s", error)
        finally:
            self._end()

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Returns when it has ended. A session that is left does so."""
        self._thread.join()

    def wait(self) -> Checkpoint:
        """Returns when it is durable.

        Returns:
            The checkpoint.

        Raises:
            CheckpointError: It could not be written.
        """
        self.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result
