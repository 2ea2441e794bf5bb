"""What importing the package changes in the process."""

from __future__ import annotations

import faulthandler
import importlib
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from poptorch._logging import logger

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def _log_uncaught(previous: _Hook) -> _Hook:
    """A hook that logs exceptions; what the logger does not write goes to the hook before."""

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        is_logged = logger.isEnabledFor(logging.CRITICAL) and issubclass(kind, Exception)
        if is_logged:
            logger.critical("Uncaught exception", exc_info=(kind, error, traceback))
        if not is_logged or previous is not sys.__excepthook__:
            previous(kind, error, traceback)

    return hook


def _enable_faulthandler() -> None:
    try:
        if not faulthandler.is_enabled():
            faulthandler.enable()
        if threading.current_thread() is threading.main_thread():
            # The program still ends: the handler before is called then.
            faulthandler.register(signal.SIGTERM, chain=True)
    except (io.UnsupportedOperation, AttributeError, ValueError):
        # stderr is no file, as in a notebook: there is nowhere to write to.
        return


def install() -> None:
    """Set up logging of uncaught exceptions and crashes, and RDMAV_FORK_SAFE."""
    os.environ.setdefault("RDMAV_FORK_SAFE", "1")
    sys.excepthook = _log_uncaught(sys.excepthook)
    _enable_faulthandler()


def geometric_registration() -> Callable[[], Any] | None:
    """Find the function with which poptorch_geometric registers its argument parsers.

    Returns:
        The function, or None where there is no such package.
    """
    try:
        package = importlib.import_module("poptorch_geometric")
    except ImportError:
        return None
    for name in ("registerGeometricCustomArgParsers", "registerCustomArgParsers"):
        if found := getattr(package, name, None):
            function: Callable[[], Any] = found
            return function
    return None
