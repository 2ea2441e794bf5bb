"""The folders of checkpoints: names, manifests, what is whole and what is old."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pando import _core
from pando.safetensors_file import check_file, checksum

FORMAT = "pando-checkpoint"
VERSION = 1
MANIFEST = "manifest.json"
WRITING = ".writing-"
_LOCK = ".lock"
_DELETED = ".deleted-"
_NAME = re.compile(r"step-(\d{10,})(?:\.(\d+))?")


class CheckpointError(_core.popart_runtime_error):
    """A checkpoint that cannot be written or read."""


class DamagedCheckpoint(CheckpointError):
    """A checkpoint with a file that is missing, truncated or changed."""


class WrongCheckpoint(CheckpointError):
    """A checkpoint of another model, or of another version of the format."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lets only one process write to a folder of checkpoints.

    Args:
        folder: The folder.

    Raises:
        CheckpointError: Another process is writing to it.
    """
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


def sync_folder(folder: Path) -> None:
    """Makes the entries of a folder durable.

    Args:
        folder: The folder.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def complete_checkpoints(root: Path) -> list[tuple[int, int, Path]]:
    """The checkpoints of a folder.

    Args:
        root: The folder.

    Returns:
        Step, version and path of each, oldest first.
    """
    found = []
    for path in root.iterdir():
        match = _NAME.fullmatch(path.name)
        if match and path.is_dir():
            found.append((int(match[1]), int(match[2] or 0), path))
    return sorted(found)


def step_of(path: Path) -> int:
    """The step in a checkpoint's name.

    Args:
        path: The checkpoint.

    Returns:
        The step.

    Raises:
        AssertionError: The name is not that of a checkpoint.
    """
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def remove_leftovers(root: Path) -> None:
    """Removes what killed processes left.

    Args:
        root: The folder of checkpoints.
    """
    for path in root.iterdir():
        if path.name.startswith((WRITING, _DELETED)):
            shutil.rmtree(path)


def forget_old(root: Path, newest: Path, keep: int | None) -> None:
    """Removes old checkpoints and, of a step that was saved again, the older versions.

    Args:
        root: The folder of checkpoints.
        newest: The one that was just written, which stays.
        keep: How many of the newest stay; None means all.
    """
    checkpoints = complete_checkpoints(root)
    last = {step: path for step, _, path in checkpoints}
    outdated = [path for step, _, path in checkpoints if last[step] != path]
    if keep is not None:
        outdated += [path for path in list(last.values())[:-keep] if path != newest]
    for path in outdated:
        # A folder that is half removed must not look like a checkpoint.
        deleted = root / (_DELETED + path.name)
        os.rename(path, deleted)
        shutil.rmtree(deleted)


def write_manifest(path: Path, body: dict[str, Any]) -> None:
    """Writes a manifest with its checksum, durably.

    Args:
        path: The file, which must not exist.
        body: What it says, as JSON can hold it.
    """
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


def read_manifest(path: Path) -> dict[str, Any]:
    """What the manifest of a checkpoint says.

    Args:
        path: The checkpoint's folder.

    Returns:
        The body.

    Raises:
        DamagedCheckpoint: It is missing or is not what was written.
        WrongCheckpoint: It has another format or version.
    """
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        found, version = manifest["format"], manifest["version"]
        wanted, body = manifest["checksum"], manifest["body"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedCheckpoint(f"{file} cannot be read: {error!r}") from error
    if (found, version) != (FORMAT, VERSION):
        raise WrongCheckpoint(
            f"{file}: wanted the format {FORMAT!r} version {VERSION}; found {found!r} version "
            f"{version!r}"
        )
    if _body_checksum(body) != wanted:
        raise DamagedCheckpoint(f"{file} is damaged: it is not what was written")
    records = body.get("files") if isinstance(body, dict) else None
    if not isinstance(records, list):
        raise DamagedCheckpoint(f"{file} is damaged: it lists no files")
    for record in records:
        if not _is_file_record(record):
            raise DamagedCheckpoint(f"{file} is damaged: it lists the file {record!r}")
    return dict(body)


def _is_file_record(record: Any) -> bool:
    match record:
        case {"name": str(name), "bytes": int(), "header": str(), "pieces": list(pieces)}:
            inside = not Path(name).is_absolute() and ".." not in Path(name).parts
            return inside and all(_is_piece(piece) for piece in pieces)
    return False


def _is_piece(piece: Any) -> bool:
    match piece:
        case [int(count), str()]:
            return count >= 0
    return False


def verify(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads all of a checkpoint and compares it with its checksums.

    Args:
        path: The checkpoint's folder.

    Returns:
        The body of its manifest.

    Raises:
        DamagedCheckpoint: A file, which is named, is not what was written.
        WrongCheckpoint: It has another format or version.
    """
    folder = Path(path)
    body = read_manifest(folder)
    for record in body["files"]:
        fault = check_file(folder, record)
        if fault:
            raise DamagedCheckpoint(fault)
    return body
