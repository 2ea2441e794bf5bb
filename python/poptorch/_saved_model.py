"""Files of compiled models: an executable, and what is needed to make its executor again.

A file begins with a mark and the length of the executable. The executable follows, then the
version, by which a file of another one is known before the rest is read, as a pickle. The rest is
as `torch.save` writes it, which holds one tensor at a time twice where a pickle would hold all.
Reading a file runs what it says: read only files of those whose programs you would run.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from poptorch._impl import createPoptorchError
from poptorch._logging import logger
from poptorch._optimizer_base import NamedTensors
from poptorch._replica_groups import ReplicaGroups
from poptorch._version import __version__
from poptorch.options import Options

_MARK = b"PANDO POPTORCH\n\1"
_LENGTH = struct.Struct("<Q")
_PROTOCOL = 4


@dataclass
class Metadata:
    """What a file has beside the executable.

    Attributes:
        version: The version of poptorch that wrote it.
        args: The positional arguments that the model was compiled for.
        kwargs: The keyword arguments.
        options: The options of the model.
        training: Whether it trains.
        executable_name: The name of the executable, which tells its program and machine.
        model: The user's module with its weights, or None.
        optimizer: The optimizer, with its state if it is poptorch's, or None.
        optimizer_state: The state that the device has of an optimizer of torch; else empty.
        rng_state: The state of the random numbers, or None.
        groups: The parameters with a value for each group of replicas.
        modes: Which modules were in training mode when the model was compiled, by name. The saved
            module may be in another mode, as after a validation.
    """

    version: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: Options
    training: bool
    executable_name: str
    model: torch.nn.Module | None
    optimizer: torch.optim.Optimizer | None
    optimizer_state: dict[str, NamedTensors]
    rng_state: list[int] | None
    groups: dict[str, ReplicaGroups]
    modes: dict[str, bool]


def path_to_write(filename: str) -> Path:
    """Find where a model is written, and make the folder.

    Args:
        filename: The file, or a folder, in which it is `model.poptorch`.

    Returns:
        The file.

    Raises:
        AssertionError: A folder on the way is a file.
    """
    path = Path(filename)
    if path.is_dir():
        path = path / "model.poptorch"
        logger.warning("%s is a directory: the model is saved as %s", filename, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise AssertionError(f"{path.parent} is not a directory: {error}") from error
    return path


def write_model(path: Path, executable: bytes, metadata: Metadata) -> None:
    """Write a file; one that is there is replaced once the new one is whole.

    Args:
        path: The file.
        executable: The executable.
        metadata: What else is in the file.

    Raises:
        OSError: It cannot be written, as on a full disk.
    """
    written = path.with_name(f"{path.name}.part")
    try:
        with open(written, "wb") as file:
            file.write(_MARK + _LENGTH.pack(len(executable)))
            file.write(executable)
            pickle.dump(metadata.version, file, protocol=_PROTOCOL)
            _save_rest(metadata, file)
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def _save_rest(metadata: Metadata, file: BinaryIO) -> None:
    try:
        torch.save(metadata, file, pickle_protocol=_PROTOCOL)
    except RuntimeError as error:
        # Torch fails once more as it ends what a full disk, or Ctrl-C, has left half written.
        if isinstance(error.__context__, (OSError, KeyboardInterrupt)):
            raise error.__context__ from None
        raise


def read_model(
    filename: str, version_error: Callable[[str], Exception] = createPoptorchError
) -> tuple[bytes, Metadata]:
    """Read a file.

    Args:
        filename: The file.
        version_error: Makes the error for a file of another version.

    Returns:
        The executable, and what else is in the file.

    Raises:
        Error: It is no such file, or damaged.
        OSError: It cannot be read.
    """
    with open(filename, "rb") as file:
        head = file.read(len(_MARK) + _LENGTH.size)
        if len(head) < len(_MARK) + _LENGTH.size or not head.startswith(_MARK):
            raise createPoptorchError(
                f"Invalid file {filename}: wanted one that PoplarExecutor.save or compileAndExport "
                "wrote"
            )
        (length,) = _LENGTH.unpack(head[len(_MARK) :])
        executable = file.read(length)
        if len(executable) < length:
            raise createPoptorchError(
                f"Invalid file {filename}: it ends after {len(executable)} of the {length} bytes "
                "of the executable"
            )
        version = _read(pickle.load, file, filename)
        if not isinstance(version, str):
            raise createPoptorchError(
                f"Invalid file {filename}: wanted its version; it holds a {type(version)}"
            )
        if version != __version__:
            raise version_error(
                f"Invalid file {filename}: PopTorch version mismatch: File was created with "
                f"version: {version} and this is version {__version__}"
            )
        metadata = _read(_load_rest, file, filename)
    if not isinstance(metadata, Metadata):
        raise createPoptorchError(f"Invalid file {filename}: it holds a {type(metadata)}")
    return executable, metadata


class _Rest(io.RawIOBase):
    """The rest of a file, for torch, which reads from position 0 on.

    Args:
        file: The file, which has been read so far.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file: Any = file
        self._start = file.tell()
        self._end = os.fstat(file.fileno()).st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        content: bytes = self._file.read(size)
        return content

    def readinto(self, buffer: Any) -> int:
        count: int = self._file.readinto(buffer)
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: self._start, os.SEEK_CUR: self._file.tell(), os.SEEK_END: self._end}
        position = base[whence] + offset
        if position < self._start:  # as what is damaged may say
            raise ValueError(f"there is no position {position - self._start}")
        return int(self._file.seek(position)) - self._start


def _load_rest(file: BinaryIO) -> Any:
    rest: Any = _Rest(file)
    return torch.load(rest, map_location="cpu", weights_only=False)


def _read(load: Callable[[BinaryIO], Any], file: BinaryIO, filename: str) -> Any:
    try:
        return load(file)
    except (ImportError, AttributeError, OSError):
        raise  # a class that this program lacks, or a disk that fails: the file may be whole
    except Exception as error:  # damaged bytes can mean anything
        raise createPoptorchError(
            f"Invalid file {filename}: it is cut off or damaged: {type(error).__name__}: {error}"
        ) from error


def importPoptorchMetadataFromFile(filename: str) -> Metadata:
    """Read what a file of a compiled model has beside the executable.

    Args:
        filename: The file.

    Returns:
        What it has.

    Raises:
        Error: It is no such file, or of another version.
    """
    return read_model(filename)[1]
