"""Files in the safetensors format, written and read piece by piece.

The format: the length of the header (8 bytes, little-endian), the header (JSON: name -> dtype,
shape and first and last byte of the data), the data. Every reader of the format takes these files;
unlike its usual writers this one never holds a whole tensor.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import RawIOBase
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from pando import _core
from pando.given_files import open_regular, parse_json

_ALIGNMENT = 64
_READ_BYTES = 1 << 22
# The format's own limit.
_MOST_HEADER_BYTES = 100_000_000
_NAMES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file. A dtype that the format lacks is kept as bytes, with one more axis.

    Attributes:
        name: The name of the tensor.
        dtype: The name of its dtype.
        shape: Its axes.
        bytes_per_element: The bytes of one element.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes_per_element: int

    @property
    def num_bytes(self) -> int:
        """What its data take."""
        count = self.bytes_per_element
        for size in self.shape:
            count *= size
        return count

    def header(self, begin: int) -> dict[str, Any]:
        """What the header of the file says of it.

        Args:
            begin: Where its data begin, in bytes after the header.

        Returns:
            dtype, shape and first and last byte.
        """
        known = self.dtype in _NAMES
        shape = self.shape if known else (*self.shape, self.bytes_per_element)
        return {
            "dtype": _NAMES[self.dtype] if known else "U8",
            "shape": list(shape),
            "data_offsets": [begin, begin + self.num_bytes],
        }


def _header_bytes(entries: Sequence[TensorEntry]) -> bytes:
    header: dict[str, Any] = {}
    offset = 0
    for entry in entries:
        header[entry.name] = entry.header(offset)
        offset += entry.num_bytes
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def checksum(data: bytes | Bytes) -> str:
    """The checksum of data.

    Args:
        data: Bytes.

    Returns:
        XXH3 of 64 bits, as 16 hexadecimal digits.
    """
    total = _core.Checksum()
    total.update(data)
    return f"{total.value:016x}"


class TensorFileWriter:
    """Writes the data of tensors in pieces of their first axis, in any order.

    Args:
        path: The file, which must not exist.
        entries: The tensors.
        piece_bytes: The size of all pieces; None means that each tensor is one.

    Attributes:
        num_bytes: The size of the file.
    """

    def __init__(
        self, path: Path, entries: Sequence[TensorEntry], piece_bytes: int | None = None
    ) -> None:
        header = _header_bytes(entries)
        total = sum(entry.num_bytes for entry in entries)
        if piece_bytes is None:
            self._sizes = [entry.num_bytes for entry in entries]
        else:
            self._sizes = [piece_bytes] * (total // piece_bytes if piece_bytes else 0)
        self._offsets = list(accumulate(self._sizes, initial=len(header)))
        self._checksums: list[str | None] = [None] * len(self._sizes)
        self._header_checksum = checksum(header)
        self.num_bytes = len(header) + total
        self._path = path
        with path.open("xb", buffering=0) as file:
            _write_at(file, header, 0)

    def write(self, piece: int, data: Bytes) -> None:
        """Writes a piece.

        Args:
            piece: Its number, in the order of the tensors.
            data: Its bytes.
        """
        self._checksums[piece] = checksum(data)
        with self._path.open("r+b", buffering=0) as file:
            _write_at(file, data, self._offsets[piece])

    @property
    def is_complete(self) -> bool:
        """Whether every piece has been written."""
        return None not in self._checksums

    def close(self) -> None:
        """Makes the file durable.

        Raises:
            ValueError: Pieces are missing.
        """
        if not self.is_complete:
            raise ValueError(f"{self._path}: {self._checksums.count(None)} pieces are missing")
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
            # What has been written is not needed in the page cache.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def record(self) -> dict[str, Any]:
        """What `check_file` needs.

        Returns:
            Name, size and checksums, for JSON.
        """
        return {
            "name": self._path.name,
            "bytes": self.num_bytes,
            "header": self._header_checksum,
            "pieces": [list(piece) for piece in zip(self._sizes, self._checksums, strict=True)],
        }


def _write_at(file: IO[bytes], data: bytes | Bytes, offset: int) -> None:
    view = memoryview(np.frombuffer(data, np.uint8))  # type: ignore[arg-type]
    while view:
        count = os.pwrite(file.fileno(), view, offset)
        view, offset = view[count:], offset + count


def file_record(folder: Path, name: Path) -> dict[str, Any]:
    """What `check_file` needs of a file of any other kind.

    Args:
        folder: The folder that the name is below.
        name: The file.

    Returns:
        Name, size and checksum, for JSON.
    """
    path = folder / name
    size = path.stat().st_size
    with open_regular(path) as file:
        found = _checksum_of_next(file, size)
    return {
        "name": name.as_posix(),
        "bytes": size,
        "header": checksum(b""),
        "pieces": [[size, found]],
    }


def check_file(folder: Path, record: dict[str, Any]) -> str:
    """Reads a whole file and compares it with its checksums.

    Args:
        folder: Where it lies.
        record: What `record` or `file_record` gave when it was written.

    Returns:
        What is wrong with it; empty when nothing is.
    """
    path = folder / record["name"]
    try:
        size = path.stat().st_size
        if size != record["bytes"]:
            return (
                f"{path} has {size} bytes; {record['bytes']} were written: it was truncated or "
                "replaced"
            )
        header = size - sum(piece[0] for piece in record["pieces"])
        if header < 0:
            return f"{path} has {size} bytes; the manifest tells of more"
        with open_regular(path) as file:
            for count, wanted in [(header, record["header"]), *record["pieces"]]:
                if _checksum_of_next(file, count) != wanted:
                    return f"{path} is damaged: its bytes are not those written"
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return ""


def _checksum_of_next(file: RawIOBase, count: int) -> str:
    total = _core.Checksum()
    buffer = memoryview(bytearray(min(count, _READ_BYTES)))
    while count:
        got = file.readinto(buffer[: min(count, len(buffer))])
        if not got:
            return "the end of the file"
        total.update(buffer[:got])
        count -= got
    return f"{total.value:016x}"


def _begin_of(found: Any) -> int:
    """Where the data of a header's entry begins; -1 if it does not say."""
    offsets = found.get("data_offsets") if isinstance(found, dict) else None
    if isinstance(offsets, list) and len(offsets) == 2 and isinstance(offsets[0], int):
        return offsets[0]
    return -1


class TensorFileReader:
    """Reads the data of a file's tensors, from their beginning, in pieces of any size.

    Args:
        path: The file.

    Raises:
        ValueError: It has no header of the format.
        OSError: It cannot be read, or is no regular file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_regular(path)
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            length = int.from_bytes(self._file.read(8), "little")
            if length > min(self._size - 8, _MOST_HEADER_BYTES):
                raise ValueError(f"{path} has {self._size} bytes and a header of {length}")
            header = parse_json(self._file.read(length), f"the header of {path}")
            if not isinstance(header, dict):
                raise ValueError(f"the header of {path} does not name tensors")
        except BaseException:
            self._file.close()
            raise
        self._header: dict[str, Any] = header
        self._data = 8 + length

    def __enter__(self) -> TensorFileReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def check(self, entry: TensorEntry) -> None:
        """Compares the header with what the writer writes of a tensor.

        Args:
            entry: The tensor.

        Raises:
            ValueError: The header says something else, or the file ends before the data do.
        """
        found = self._header.get(entry.name)
        begin = _begin_of(found)
        if begin < 0 or found != entry.header(begin):
            raise ValueError(
                f"{self._path}: wanted '{entry.name}', {entry.dtype} {entry.shape}; the header has "
                f"{found}"
            )
        if self._data + begin + entry.num_bytes > self._size:
            raise ValueError(f"{self._path} ends before the data of '{entry.name}'")

    def seek(self, name: str) -> None:
        """Goes to the beginning of a tensor.

        Args:
            name: The name of the tensor.

        Raises:
            KeyError: The file has no such tensor.
        """
        self._file.seek(self._data + self._header[name]["data_offsets"][0])

    def read_into(self, data: Bytes) -> None:
        """Reads on.

        Args:
            data: The memory that is filled.

        Raises:
            EOFError: The file ends before.
        """
        view = memoryview(data)  # type: ignore[arg-type]
        while view:
            count = self._file.readinto(view)
            if not count:
                raise EOFError(f"{self._file.name} ends {len(view)} bytes early")
            view = view[count:]
