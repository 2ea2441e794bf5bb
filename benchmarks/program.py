"""What an adaptor hands to the worker: something whose time can be taken again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

FIRST_STEPS = 3  # whose results are kept, to be compared among frameworks
FIRST_VALUES = 64
WARM_SECONDS = 1.0  # at least one step


class NotMeasured(Exception):
    """The framework has no counterpart of the case: an empty cell, not a failure."""


class Program(Protocol):
    """A built program. ``note`` names the variant that was chosen, if there was a choice.

    ``first`` is what the host received first: the losses of the first training steps, the start of
    the logits or of the array of other programs; nothing of programs that only compile.
    ``first_at`` is when the first of it came, by ``time.perf_counter``.
    """

    note: str
    first: list[float]
    first_at: float | None

    def time_block(self, seconds: float) -> float:
        """Runs for about ``seconds`` and returns the seconds that one step took."""

    def close(self) -> None:
        """Frees what the program holds."""


def _nothing() -> None:
    return None


class Steps:
    """A program that does ``run(n)``: ``n`` steps, finished when the call returns.

    ``run`` returns the losses of its steps, or else what the last step computed; ``read`` reads
    that where it stays on the device.

    Where one step does the thing that is measured ``repeats`` times, times are of one of them.
    """

    def __init__(
        self,
        run: Callable[[int], Any],
        note: str = "",
        close: Callable[[], None] = _nothing,
        warm: int = 3,
        repeats: int = 1,
        read: Callable[[], Any] | None = None,
    ) -> None:
        self.note = note
        self._repeats = repeats
        self.close = close
        self._run = run
        first = run(1)
        self.first_at = time.perf_counter()
        result = run(FIRST_STEPS - 1)
        if isinstance(result, list):  # losses of steps, not what the last one computed
            result = [*first, *result]
        if read is not None:
            result = read()
        self.first = [] if result is None else first_values(result)
        warm_until = time.perf_counter() + WARM_SECONDS
        for _ in range(warm):
            run(1)
            if time.perf_counter() >= warm_until:
                break
        self._estimate = self._timed(1)
        self._estimate = self._timed(max(1, int(0.02 / self._estimate)))

    def _timed(self, steps: int) -> float:
        start = time.perf_counter()
        self._run(steps)
        return (time.perf_counter() - start) / steps

    def time_block(self, seconds: float) -> float:
        # Another process had the caches and the cores: the first steps only bring ours back.
        self._run(self._steps(seconds / 8))
        # In parts, so that a block ends in time even when steps take longer than expected.
        part = self._steps(seconds / 8)
        start = time.perf_counter()
        elapsed, steps = 0.0, 0
        while elapsed < seconds:
            self._run(part)
            steps += part
            elapsed = time.perf_counter() - start
        self._estimate = elapsed / steps
        return self._estimate / self._repeats

    def _steps(self, seconds: float) -> int:
        return max(1, int(seconds / self._estimate))


def first_values(result: Any) -> list[float]:
    return [float(value) for value in np.ravel(np.asarray(result))[:FIRST_VALUES]]


class Once:
    """A program that takes its own time, once per block: compilation."""

    first: list[float] = []  # noqa: RUF012 - never written
    first_at = None

    def __init__(self, measure: Callable[[], float], note: str = "") -> None:
        self.note = note
        self.time_block = lambda _seconds: measure()
        self.close = _nothing


def fastest(programs: list[tuple[str, Callable[[], Steps]]], seconds: float = 0.1) -> Steps:
    """Builds every variant, keeps the fastest that works and says in its note which it is."""
    best: Steps | None = None
    best_time = float("inf")
    problems = []
    for name, make in programs:
        try:
            candidate = make()
        except Exception as error:  # a variant may be unsupported here; the others still count
            problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        taken = min(candidate.time_block(seconds) for _ in range(5))
        if taken < best_time:
            if best is not None:
                best.close()
            best, best_time = candidate, taken
            best.note = name
        else:
            candidate.close()
    if best is None:
        raise RuntimeError("no variant works: " + "; ".join(problems))
    return best
