"""Ctrl-C held back while something must not be left half done."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Most of the time of the functions of `signal` itself goes into looking for names of handlers.
_SIGNAL: Any = importlib.import_module("_signal")


class HeldInterrupts:
    """A context in which Ctrl-C waits for the end, except inside `allowed`.

    Contexts may be nested: the outermost one raises. Where Ctrl-C raises nothing, as in threads
    other than the main one, there is nothing to hold back.
    """

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._is_allowed = False
        self._was_asked = False

    def __enter__(self) -> HeldInterrupts:
        handler = _SIGNAL.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self._handler = handler
            _SIGNAL.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._handler is not None:
            _SIGNAL.signal(signal.SIGINT, self._handler)
        if self._was_asked:
            signal.raise_signal(signal.SIGINT)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let Ctrl-C through for a while: the first one, since what it raises must come out whole.

        One that was held back until now is let through before the body begins.

        Yields:
            Nothing.
        """
        self._is_allowed = True
        try:
            if self._was_asked:
                self._was_asked = False
                signal.raise_signal(signal.SIGINT)
            yield
        finally:
            self._is_allowed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_allowed and self._handler is not None:
            self._is_allowed = False
            self._handler(number, frame)
            # It raised nothing, as handlers do that note a wish to stop.
            self._is_allowed = True
        else:
            self._was_asked = True
