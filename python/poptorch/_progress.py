"""The progress bar of a compilation, and how long it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tqdm import tqdm

_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]"
_STEPS = 3


class Progress:
    """How far a compilation is.

    Args:
        shown: Whether a bar on stderr shows it.
    """

    def __init__(self, shown: bool) -> None:
        self._bar: Any = tqdm(
            total=_STEPS,
            desc="Graph compilation",
            bar_format=_FORMAT,
            file=sys.stderr,
            disable=not shown,
        )
        self._shown = shown
        self._begin = time.perf_counter()
        self.duration: timedelta | None = None

    def step(self) -> None:
        """Note that a step is done: the trace, the program, the executable."""
        self._bar.update(1)

    def restart(self) -> None:
        """Note that the trace begins anew, for a program of another form."""
        self._bar.reset()

    def finish(self, succeeded: bool) -> None:
        """Note the end.

        Args:
            succeeded: Whether there is an executable now.
        """
        self._bar.close()
        if succeeded and self._shown:
            self.duration = timedelta(seconds=time.perf_counter() - self._begin)


@contextmanager
def progress(shown: bool) -> Iterator[Progress]:
    """Make a context for a compilation.

    Args:
        shown: Whether a bar on stderr shows how far it is.

    Yields:
        The progress.
    """
    made = Progress(shown)
    try:
        yield made
    except BaseException:
        made.finish(succeeded=False)
        raise
    made.finish(succeeded=True)
