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
from pathlib import Path
from types import TracebackType
from typing import Any

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
    """One tensor of a file. A dtype that the format lacks is kept as bytes, with one more axis."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes_per_element: int

    @property
    def num_bytes(self) -> int:
        count = self.bytes_per_element
        for size in self.shape:
            count *= size
        return count

    def header(self, begin: int) -> dict[str, Any]:
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


class TensorFileWriter:
    """Writes the data of `entries` in their order; `close` makes it durable."""

    def __init__(self, path: Path, entries: Sequence[TensorEntry]) -> None:
        self._sum = _core.Checksum()
        self._left = sum(entry.num_bytes for entry in entries)
        self._file = path.open("xb", buffering=0)
        self.num_bytes = 0
        self._put(_header_bytes(entries))

    def __enter__(self) -> TensorFileWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def _put(self, data: bytes | Bytes) -> None:
        view = memoryview(data).cast("B")
        self._sum.update(view)
        self.num_bytes += len(view)
        while view:
            view = view[self._file.write(view) :]

    def write(self, data: Bytes) -> None:
        self._left -= data.nbytes
        self._put(data)

    def close(self) -> None:
        if self._left != 0:
            raise ValueError(f"{self._file.name}: {self._left} bytes of tensor data are missing")
        os.fsync(self._file.fileno())
        # What has been written is not needed in the page cache.
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self._file.close()

    @property
    def checksum(self) -> str:
        return f"{self._sum.value:016x}"


def file_checksum(path: Path) -> str:
    """The checksum of a whole file, as a writer gives it."""
    total = _core.Checksum()
    buffer = bytearray(_READ_BYTES)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total.update(memoryview(buffer)[:count])
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return f"{total.value:016x}"


class TensorFileReader:
    """Reads the data of a file's tensors, from their beginning, in pieces of any size."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        length = int.from_bytes(self._file.read(8), "little")
        self._header: dict[str, Any] = json.loads(self._file.read(length))
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

    def seek(self, name: str) -> None:
        self._file.seek(self._data + self._header[name]["data_offsets"][0])

    def read_into(self, data: Bytes) -> None:
        view = memoryview(data).cast("B")
        while view:
            count = self._file.readinto(view)
            if not count:
                raise EOFError(f"{self._file.name} ends {len(view)} bytes early")
            view = view[count:]
