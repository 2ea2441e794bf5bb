"""Arrays whose memory is that of files, so that they need not be in memory to exist."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np


class _Mapping:
    """The memory of a file.

    Args:
        folder: Where the file is.
        mapped: The memory.
    """

    def __init__(self, folder: str, mapped: mmap.mmap) -> None:
        self.folder = folder
        self._mapped = weakref.ref(mapped)

    def release_pages(self) -> None:
        mapped = self._mapped()
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


class _Registry:
    """The mapped memory of this process, by its first address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mappings: dict[int, _Mapping] = {}

    def add(self, address: int, folder: str, mapped: mmap.mmap) -> None:
        entry = _Mapping(folder, mapped)
        with self._lock:
            self._mappings[address] = entry
        weakref.finalize(mapped, self._remove, address, entry)

    def _remove(self, address: int, entry: _Mapping) -> None:
        with self._lock:
            # Another file may have the address by now.
            if self._mappings.get(address) is entry:
                del self._mappings[address]

    def find(self, address: int) -> _Mapping | None:
        with self._lock:
            return self._mappings.get(address)

    def all(self) -> list[_Mapping]:
        with self._lock:
            return list(self._mappings.values())


_registry = _Registry()


def file_array(folder: str | os.PathLike[str], shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Makes an array in a new file, which goes when the array goes.

    What is written to it stays in the file; `release_pages` and `release_all_pages` take it out of
    the memory of the process until it is read again.

    Args:
        folder: Where the file is; it has no name there, and its room is taken at once.
        shape: The shape of the array.
        dtype: Its NumPy dtype.

    Returns:
        An array of zeros.

    Raises:
        OSError: The folder does not exist, or its disk is full.
    """
    size = max(math.prod(shape) * np.dtype(dtype).itemsize, 1)
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, size)
        mapped = mmap.mmap(file.fileno(), size)
    array = np.frombuffer(mapped, dtype, math.prod(shape)).reshape(shape)
    _registry.add(array.ctypes.data, os.fspath(folder), mapped)
    return array


def folder_of(address: int) -> str | None:
    """Tells where the file of an array is.

    Args:
        address: The address of the first element of the array.

    Returns:
        The folder; None: the memory is not that of `file_array`.
    """
    entry = _registry.find(address)
    return None if entry is None else entry.folder


def release_pages(address: int) -> None:
    """Takes an array of `file_array` out of memory; its values stay.

    Args:
        address: The address of its first element. Other memory is left as it is.
    """
    entry = _registry.find(address)
    if entry is not None:
        entry.release_pages()


def release_all_pages() -> None:
    """Takes all arrays of `file_array` out of memory; their values stay."""
    for entry in _registry.all():
        entry.release_pages()
