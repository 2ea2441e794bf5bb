"""The loggers: POPTORCH_LOG_LEVEL, POPTORCH_LOG_DEST, and a limit on repeated messages.

`logger` ("poptorch::python") is for what this package does, `native_logger` ("poptorch:cpp") for
what the compiler and the device do for an executor.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
from collections import OrderedDict
from contextlib import AbstractContextManager
from typing import TextIO

from popart.logging_ import messages_to

TRACE_ALL, TRACE, DEBUG_IR = 3, 5, 8
_OFF = logging.CRITICAL + 10
_LEVELS = {
    "TRACE": TRACE,
    "TRACE_ALL": TRACE_ALL,
    "DEBUG": logging.DEBUG,
    "DEBUG_IR": DEBUG_IR,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "OFF": _OFF,
}
_LEVELS_OF_INTS = {0: "TRACE", 1: "DEBUG", 2: "INFO", 3: "WARN", 4: "ERR", 6: "OFF"}
# Where Python's logging has no name of its own.
_LEVEL_NAMES = {TRACE_ALL: "trace", TRACE: "trace", DEBUG_IR: "debug"}
_COLOURS = {logging.WARNING: "\033[33m", logging.ERROR: "\033[31m", logging.CRITICAL: "\033[31m"}
_NO_COLOUR = "\033[0m"
# Messages whose repetitions are counted; the ones seen longest ago are forgotten.
_COUNTED_MESSAGES = 1024
# The level that setPopartLogLevel has set, if it was called.
_session_level: int | None = None

logger = logging.getLogger("poptorch::python")
native_logger = logging.getLogger("poptorch:cpp")


class _Formatter(logging.Formatter):
    """[HH:MM:SS.mmm] [logger] [level] message"""

    def __init__(self) -> None:
        super().__init__(
            "[%(asctime)s.%(msecs)03d] [%(name)s] [%(levelname)s] %(message)s", datefmt="%H:%M:%S"
        )

    def format(self, record: logging.LogRecord) -> str:
        shown = copy.copy(record)
        shown.levelname = _LEVEL_NAMES.get(record.levelno, record.levelname.lower())
        text = super().format(shown)
        colour = _COLOURS.get(record.levelno)
        if colour and sys.stdout.isatty() and sys.stderr.isatty():
            return f"{colour}{text}{_NO_COLOUR}"
        return text


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to a file, or to what stdout or stderr is at that time, and mutes repetitions.

    Args:
        destination: stdout, stderr or a file.
    """

    def __init__(self, destination: str) -> None:
        super().__init__()
        self._destination = destination
        self._counts: OrderedDict[tuple[str, int, str], int] = OrderedDict()
        self.repeat_limit: int | None = 4
        self.setFormatter(_Formatter())
        if destination not in ("stdout", "stderr"):
            try:
                # Line by line, and open until the process ends.
                self.stream = open(destination, "a", buffering=1)  # noqa: SIM115
            except OSError as error:
                raise ValueError(
                    "POPTORCH_LOG_DEST: wanted stdout, stderr or a file that can be written; given "
                    f"{destination!r}: {error.strerror}"
                ) from error

    def emit(self, record: logging.LogRecord) -> None:
        if self._destination in ("stdout", "stderr"):
            self.stream = sys.stdout if self._destination == "stdout" else sys.stderr
        repetition = self._count(record)
        if self.repeat_limit is None or repetition <= self.repeat_limit:
            super().emit(record)
        elif repetition == self.repeat_limit + 1:
            notice = copy.copy(record)
            notice.msg, notice.args, notice.exc_info = (
                f"The message above was repeated {self.repeat_limit} times and is muted from now "
                f"on: {record.getMessage()}",
                None,
                None,
            )
            super().emit(notice)

    def _count(self, record: logging.LogRecord) -> int:
        key = (record.name, record.levelno, record.getMessage())
        count = self._counts.pop(key, 0) + 1
        self._counts[key] = count
        if len(self._counts) > _COUNTED_MESSAGES:
            self._counts.popitem(last=False)
        return count


def _level(level: str | int) -> int:
    if isinstance(level, int):
        if level not in _LEVELS_OF_INTS:
            raise ValueError("Invalid log level integer")
        return _LEVELS[_LEVELS_OF_INTS[level]]
    if level not in _LEVELS:
        raise ValueError(
            f"Unknown log level: {level}. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN"
        )
    return _LEVELS[level]


def setLogLevel(level: str | int) -> None:
    """Set from which level on messages are written, for this package and what is below it.

    Args:
        level: TRACE, TRACE_ALL, DEBUG, DEBUG_IR, INFO, WARN, ERR or OFF; or 0 for TRACE, 1 DEBUG,
            2 INFO, 3 WARN, 4 ERR, 6 OFF.

    Raises:
        ValueError: Another level.
    """
    number = _level(level)
    logger.setLevel(number)
    native_logger.setLevel(number)


def setPopartLogLevel(level: str | int) -> None:
    """Set from which level on the messages of sessions are written.

    For sessions of executors it replaces the level of `setLogLevel`.

    Args:
        level: As for `setLogLevel`.

    Raises:
        ValueError: Another level.
    """
    global _session_level
    number = _level(level)
    _session_level = number
    names = [name for name in logging.root.manager.loggerDict if name.startswith("popart.")]
    for name in {"popart.session", *names}:
        logging.getLogger(name).setLevel(number)


def session_messages() -> AbstractContextManager[None]:
    """Let this package's logger write what the compiler and the device tell of an executor.

    Returns:
        A context in which it does.
    """
    return messages_to(_write_native)


def _write_native(level: int, message: str) -> None:
    if _session_level is None:
        native_logger.log(level, "%s", message)
    elif level >= _session_level:
        name = native_logger.name
        native_logger.handle(
            native_logger.makeRecord(name, level, __file__, 0, "%s", (message,), None)
        )


def set_repeat_limit(limit: int | None) -> None:
    """Set how often one message is written until its repetitions are muted.

    Args:
        limit: How often; None: always.
    """
    _handler.repeat_limit = limit


def _set_up() -> _Handler:
    handler = _Handler(os.environ.get("POPTORCH_LOG_DEST", "stderr"))
    for one in (logger, native_logger):
        one.addHandler(handler)
        one.propagate = False
    setLogLevel(os.environ.get("POPTORCH_LOG_LEVEL", "WARN"))
    return handler


_handler = _set_up()
