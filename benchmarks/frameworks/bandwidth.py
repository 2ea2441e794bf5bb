"""Bytes per second of this machine on arrays of a given size, in the same rounds as the rest."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

Kernel = Callable[[], object]


def average_seconds(kernel: Kernel, seconds: float) -> float:
    """Times one call, over calls of about ``seconds`` after a first one."""
    kernel()
    start = time.perf_counter()
    count = 0
    while True:
        kernel()
        count += 1
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return elapsed / count


class Bandwidth:
    """Passes over two arrays of ``working_set`` bytes together; the fastest pattern counts.

    ``in_place``: patterns that write over what they read, too. ``reading``: also one that writes
    nothing, which is faster than any program that must write.
    """

    def __init__(self, working_set: int, in_place: bool, reading: bool = False) -> None:
        half = max(1024, working_set // 8)
        a, b = torch.ones(half), torch.ones(half)
        nbytes = 4 * half
        # Each with the bytes that it reads and writes.
        self._patterns: list[tuple[Kernel, int]] = [(lambda: b.copy_(a), 2 * nbytes)]
        if in_place:
            self._patterns.append((lambda: b.add_(a), 3 * nbytes))
            self._patterns.append((lambda: (a.mul_(1.0), b.mul_(1.0)), 4 * nbytes))
        if reading:
            self._patterns.append((lambda: torch.dot(a, b), 2 * nbytes))
            self._patterns.append((lambda: (a.sum(), b.sum()), 2 * nbytes))

    def seconds_per_byte(self, seconds: float) -> float:
        share = seconds / len(self._patterns)
        return min(average_seconds(run, share) / moved for run, moved in self._patterns)
