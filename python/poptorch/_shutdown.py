"""The end of the process: executors give their devices up while everything is still there."""

from __future__ import annotations

import atexit
import weakref
from typing import Protocol

from poptorch._logging import logger


class Closable(Protocol):
    """Something that holds a device."""

    def _close(self) -> None:
        """Gives it up."""
        ...


_open: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_at_exit(executor: Closable) -> None:
    """Have something closed when the process ends, unless it is gone by then.

    Args:
        executor: What is closed.
    """
    _open.add(executor)


@atexit.register
def _close_all() -> None:
    for executor in list(_open):
        try:
            executor._close()
        except Exception as error:
            logger.warning("%r could not be closed at the end of the process: %s", executor, error)
