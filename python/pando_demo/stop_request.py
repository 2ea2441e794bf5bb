"""Ctrl-C as a wish to stop after what is being done."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tqdm import tqdm

EXIT_INTERRUPTED = 130


@contextmanager
def stop_request(told: str) -> Iterator[Callable[[], bool]]:
    """Takes Ctrl-C and termination as a wish to stop; a second one stops at once.

    Args:
        told: What the user is told then.

    Yields:
        Tells whether a stop was asked for.

    Raises:
        KeyboardInterrupt: It was asked for a second time.
    """
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        tqdm.write(told)

    known = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in known:
        signal.signal(number, handle)
    try:
        yield lambda: asked
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)
