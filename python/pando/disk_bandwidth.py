"""How fast a folder's disk is."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PIECE = 1 << 20
PROBE_BYTES = 1 << 30
PROBE_THREADS = 2


@dataclass(frozen=True)
class Bandwidth:
    """Bytes per second.

    Attributes:
        reading: From the disk.
        writing: To the disk.
    """

    reading: float
    writing: float


def _on_threads(count: int, work: Callable[[int, mmap.mmap], None]) -> float:
    """Seconds until each of the threads has done every PROBE_THREADS-th of the pieces."""

    def run(first: int) -> None:
        # Page-aligned, as O_DIRECT wants it.
        with mmap.mmap(-1, PIECE) as memory:
            memory.write(os.urandom(PIECE))
            for piece in range(first, count, PROBE_THREADS):
                work(piece, memory)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(PROBE_THREADS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def _open(name: str) -> int:
    try:
        return os.open(name, os.O_RDWR | os.O_DIRECT)
    except OSError:  # a file system in memory has no other way than the page cache
        return os.open(name, os.O_RDWR)


def disk_bandwidth(folder: Path, num_bytes: int = PROBE_BYTES) -> Bandwidth:
    """Writes a file with two threads and reads it again, past the page cache where that works.

    Args:
        folder: An existing folder; the file in it is removed at the end.
        num_bytes: Size of the file, rounded up to whole MiB.

    Returns:
        Bytes per second of each.

    Raises:
        OSError: The file cannot be made, or does not fit.
    """
    count = max(-(-num_bytes // PIECE), 1)
    with tempfile.NamedTemporaryFile(dir=folder) as named:
        file = _open(named.name)
        try:
            os.posix_fallocate(file, 0, count * PIECE)

            def write(piece: int, memory: mmap.mmap) -> None:
                os.pwrite(file, memory, piece * PIECE)

            def read(piece: int, memory: mmap.mmap) -> None:
                os.preadv(file, [memory], piece * PIECE)

            writing = count * PIECE / _on_threads(count, write)
            return Bandwidth(count * PIECE / _on_threads(count, read), writing)
        finally:
            os.close(file)
