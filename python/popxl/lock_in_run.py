"""Calls of a session by functions that its own run waits for."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from pando.host_functions import HostFunction
from pando.stream_callbacks import StreamCallback


class LockInRun:
    """The lock of a session while a run may wait for functions, which cannot wait for the run.

    Args:
        lock: The lock, which the run holds.
        callbacks: Those of the run.
    """

    def __init__(
        self,
        lock: AbstractContextManager[Any],
        callbacks: Iterable[StreamCallback | HostFunction],
    ) -> None:
        self._lock = lock
        self._threads = frozenset(callback.thread for callback in callbacks)

    def __enter__(self) -> None:
        thread = threading.current_thread()
        if thread in self._threads:
            raise RuntimeError(
                f"a session was called by a function that its own run waits for, '{thread.name}': "
                "such a function may note what it wants; call the session when the run has ended"
            )
        self._lock.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.__exit__(kind, value, traceback)
