"""The folders of checkpoints: names, manifests, what is whole and what is old."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pando import _core
from pando.given_files import read_json
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
    # Without O_NONBLOCK a pipe of that name would wait for a reader.
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(folder / _LOCK, flags, 0o666), "rb") as file:
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

    An empty folder with the name of one is none: it would hide the whole ones before it.

    Args:
        root: The folder.

    Returns:
        Step, version and path of each, oldest first.
    """
    found = []
    for path in root.iterdir():
        match = _NAME.fullmatch(path.name)
        if match and path.is_dir() and any(path.iterdir()):
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
        if not path.name.startswith((WRITING, _DELETED)):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def forget_old(root: Path, newest: Path, keep: int | None) -> None:
    """Removes old checkpoints and, of a step that was saved again, the older versions.

    What has no manifest cannot be loaded, so it is not counted, nor removed.

    Args:
        root: The folder of checkpoints.
        newest: The one that was just written, which stays.
        keep: How many of the newest stay; None means all.
    """
    checkpoints = [c for c in complete_checkpoints(root) if (c[2] / MANIFEST).is_file()]
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
        manifest = read_json(file)
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
    if not isinstance(body, dict) or not _are_records(body.get("files")):
        raise DamagedCheckpoint(f"{file} is damaged: it does not list the files")
    return body


def _are_records(files: Any) -> bool:
    """Whether a manifest's list of files is one that `check_file` can read."""
    wanted = {"name": str, "bytes": int, "header": str, "pieces": list}

    def is_record(record: Any) -> bool:
        return (
            isinstance(record, dict)
            and all(isinstance(record.get(key), kind) for key, kind in wanted.items())
            and all(isinstance(piece, list) and len(piece) == 2 for piece in record["pieces"])
            and all(isinstance(size, int) and size >= 0 for size, _ in record["pieces"])
            and not Path(record["name"]).is_absolute()
            and ".." not in Path(record["name"]).parts
        )

    return isinstance(files, list) and all(is_record(record) for record in files)


def verify(
    path: str | os.PathLike[str], may_lack: Callable[[str], bool] = lambda _: False
) -> dict[str, Any]:
    """Reads all of a checkpoint and compares it with its checksums.

    Args:
        path: The checkpoint's folder.
        may_lack: Whether a file of this name, relative to the folder, may be missing.

    Returns:
        The body of the manifest.

    Raises:
        DamagedCheckpoint: A file is missing, truncated or changed; the message names it.
        WrongCheckpoint: The manifest is of another version of the format.
    """
    folder = Path(path)
    body = read_manifest(folder)
    for record in body["files"]:
        if may_lack(record["name"]) and not (folder / record["name"]).exists():
            continue
        fault = check_file(folder, record)
        if fault:
            raise DamagedCheckpoint(fault)
    return body
