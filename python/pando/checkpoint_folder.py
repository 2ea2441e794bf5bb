"""Folders of files that are written whole or not at all, and known again by checksums.

For checkpoints whose files have names of their own; pando.checkpoint numbers its folders instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pando.checkpoint_files import (
    MANIFEST,
    CheckpointError,
    DamagedCheckpoint,
    read_manifest,
    sync_folder,
    verify,
    write_manifest,
)
from pando.given_files import open_regular
from pando.safetensors_file import file_record

_MAKING = ".making-"
_REPLACED = ".replaced-"
_DELETED = ".deleted-"


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """An empty folder that takes the place of another one, durable and with checksums.

    When the body fails, or the process is killed, the other one stays as it was. Its entries that
    the new one has not and that no earlier writer made are kept.

    Args:
        folder: The folder that is replaced; it need not exist.

    Yields:
        The new folder, to be filled.

    Raises:
        CheckpointError: Something cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _recover(folder)
        making = Path(tempfile.mkdtemp(prefix=f"{_MAKING}{folder.name}-", dir=folder.parent))
        lock = os.open(making, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield making
            _finish(making)
            _exchange(making, folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        finally:
            os.close(lock)
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {folder} cannot be written: {error.strerror or error}; earlier "
            "checkpoints are as they were"
        ) from error


def whole_folder(
    folder: Path, may_lack: Callable[[str], bool] = lambda _: False
) -> tuple[Path, bool]:
    """The last whole content of a folder, all of it read and compared with its checksums.

    Args:
        folder: What `replaced_folder` wrote, or another program.
        may_lack: Whether a file of this name, relative to the folder, may be missing.

    Returns:
        Where it lies, and whether it has checksums: folders of other writers have none.

    Raises:
        CheckpointError: There is no such folder.
        DamagedCheckpoint: A file is not what was written.
    """
    replaced = folder.with_name(_REPLACED + folder.name)
    # A process was killed between the two renames of an exchange.
    chosen = replaced if not folder.is_dir() and replaced.is_dir() else folder
    if not chosen.is_dir():
        raise CheckpointError(f"there is no checkpoint {folder}")
    checked = os.path.lexists(chosen / MANIFEST)
    if checked:
        verify(chosen, may_lack)
    return chosen, checked


def remove_folder(folder: Path) -> None:
    """Removes a folder; at no instant half of it is left under its name.

    Args:
        folder: The folder; one that is not there is passed over.
    """
    deleted = folder.with_name(_DELETED + folder.name)
    shutil.rmtree(deleted, ignore_errors=True)
    if folder.is_dir():
        os.rename(folder, deleted)
        shutil.rmtree(deleted)


def _finish(making: Path) -> None:
    """Makes all files durable and lists them."""
    records: list[dict[str, Any]] = []
    folders = [making]
    for path in sorted(making.rglob("*")):
        if path.is_dir():
            folders.append(path)
            continue
        with open_regular(path) as file:
            os.fsync(file.fileno())
        records.append(file_record(making, path.relative_to(making)))
    write_manifest(making / MANIFEST, {"files": records})
    for path in reversed(folders):
        sync_folder(path)
    # mkdtemp gives none to others.
    mask = os.umask(0)
    os.umask(mask)
    making.chmod(0o777 & ~mask)


def _exchange(making: Path, folder: Path) -> None:
    replaced = folder.with_name(_REPLACED + folder.name)
    if folder.is_dir():
        os.rename(folder, replaced)
    try:
        os.rename(making, folder)
    except OSError:
        if replaced.is_dir():
            os.rename(replaced, folder)
        raise
    sync_folder(folder.parent)
    _recover(folder)


def _recover(folder: Path) -> None:
    """Brings to an end what a killed process began with `folder`, and removes what it left."""
    replaced = folder.with_name(_REPLACED + folder.name)
    if replaced.is_dir():
        if folder.is_dir():
            _keep_others(replaced, folder)
            shutil.rmtree(replaced)
        else:
            os.rename(replaced, folder)
    for path in folder.parent.iterdir():
        # Writers make folders; what else has such a name is not theirs.
        if not path.name.startswith(f"{_MAKING}{folder.name}-") or not path.is_dir():
            continue
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        except BlockingIOError:
            pass  # its writer lives
        finally:
            os.close(lock)


def _keep_others(old: Path, new: Path) -> None:
    ours = {MANIFEST}
    with contextlib.suppress(DamagedCheckpoint):
        ours |= {Path(record["name"]).parts[0] for record in read_manifest(old)["files"]}
    for path in old.iterdir():
        if path.name not in ours and not (new / path.name).exists():
            os.rename(path, new / path.name)
