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

_ALIGNMENT = 64
_READ_BYTES = 1 << 22
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
    with path.open("rb", buffering=0) as file:
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
        if header < 0 or any(piece[0] < 0 for piece in record["pieces"]):
            return f"{path} has {size} bytes; the pieces that are listed do not fit"
        with path.open("rb", buffering=0) as file:
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


class TensorFileReader:
    """Reads the data of a file's tensors, from their beginning, in pieces of any size.

    Args:
        path: The file.

    Raises:
        ValueError: The lengths in the file do not fit its size.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self._header = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def _read_header(self) -> dict[str, Any]:
        length = int.from_bytes(self._file.read(8), "little")
        self._data = 8 + length
        if self._data > self._size:
            raise ValueError(
                f"{self._file.name} is damaged: its header has {length} bytes, the file "
                f"{self._size}"
            )
        try:
            header = json.loads(self._file.read(length))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self._file.name} is damaged: its header: {error}") from error
        if not isinstance(header, dict):
            raise ValueError(f"{self._file.name} is damaged: its header is no JSON object")
        return header

    def __enter__(self) -> TensorFileReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def seek(self, name: str, num_bytes: int) -> None:
        """Goes to the beginning of a tensor.

        Args:
            name: The name of the tensor.
            num_bytes: The size that it must have.

        Raises:
            ValueError: The file has no such tensor of that size.
        """
        entry = self._header.get(name)
        offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
        match offsets:
            case [int(begin), int(end)] if 0 <= begin <= end <= self._size - self._data:
                found = end - begin
            case _:
                raise ValueError(
                    f"{self._file.name} is damaged: '{name}' has the offsets {offsets} of "
                    f"{self._size - self._data} bytes of data"
                )
        if found != num_bytes:
            raise ValueError(
                f"{self._file.name} is damaged: '{name}' has {found} bytes; wanted {num_bytes}"
            )
        self._file.seek(self._data + begin)

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
