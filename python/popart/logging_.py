"""The logger, set up by POPART_LOG_LEVEL, POPART_LOG_DEST and POPART_LOG_CONFIG."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pando.given_files import read_json

_LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "CRITICAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
# What messages go to in place of the loggers of this module, while a front end says so.
_receiver: ContextVar[Callable[[int, str], None] | None] = ContextVar("receiver", default=None)
# Under the names that Python's logging gives them.
_OTHER_NAMES = {"WARNING": "WARN", "ERROR": "ERR"}


def _level(text: str) -> int:
    name = text.upper()
    return _LEVELS.get(_OTHER_NAMES.get(name, name), _LEVELS["OFF"])


class Logger:
    """Writes messages of one module.

    Args:
        name: The name of the module.
        level: The level of Python's logging from which on messages are written.
    """

    def __init__(self, name: str, level: int) -> None:
        self._logger = logging.getLogger(f"popart.{name}")
        self._logger.setLevel(level)

    def setLevel(self, level: str) -> None:
        """Set from which level on messages are written.

        Args:
            level: TRACE, DEBUG, INFO, WARN, ERR, CRITICAL or OFF; other words are OFF.
        """
        self._logger.setLevel(_level(level))

    def _write(self, level: int, message: str) -> None:
        receiver = _receiver.get()
        if receiver is None:
            self._logger.log(level, "%s", message)
        else:
            receiver(level, message)

    def debug(self, message: str) -> None:
        """Write a message at the level DEBUG.

        Args:
            message: The message.
        """
        self._write(logging.DEBUG, message)

    def info(self, message: str) -> None:
        """Write a message at the level INFO.

        Args:
            message: The message.
        """
        self._write(logging.INFO, message)

    def warn(self, message: str) -> None:
        """Write a message at the level WARN.

        Args:
            message: The message.
        """
        self._write(logging.WARNING, message)

    def error(self, message: str) -> None:
        """Write a message at the level ERR.

        Args:
            message: The message.
        """
        self._write(logging.ERROR, message)

    def critical(self, message: str) -> None:
        """Write a message at the level CRITICAL.

        Args:
            message: The message.
        """
        self._write(logging.CRITICAL, message)


@contextmanager
def messages_to(receiver: Callable[[int, str], None]) -> Iterator[None]:
    """Give the messages of this thread to a front end that has loggers of its own.

    Args:
        receiver: Called with the level of Python's logging and the message, whatever the level.

    Yields:
        Nothing; messages are given to the receiver until the block ends.
    """
    token = _receiver.set(receiver)
    try:
        yield
    finally:
        _receiver.reset(token)


_loggers: dict[str, Logger] = {}


class _StderrHandler(logging.StreamHandler):
    """Writes to what stderr is now, which tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _file_handler(destination: str) -> logging.Handler:
    try:
        # Without O_NONBLOCK a pipe that nothing reads would block.
        os.close(
            os.open(destination, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
        )
        return logging.FileHandler(destination)
    except OSError as error:
        raise ValueError(
            f"POPART_LOG_DEST: wanted stdout, stderr or a file that can be written; given "
            f"{destination!r}: {error.strerror}"
        ) from error


def _handler() -> logging.Handler:
    destination = os.environ.get("POPART_LOG_DEST", "stderr")
    if destination == "stdout":
        handler: logging.Handler = logging.StreamHandler(sys.stdout)
    elif destination == "stderr":
        handler = _StderrHandler()
    else:
        handler = _file_handler(destination)
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(name)s %(process)d.%(thread)d %(levelname).1s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    return handler


def _levels_of_modules(config: str) -> dict[str, str]:
    try:
        levels = read_json(config)
    except (OSError, ValueError) as error:
        raise ValueError(f"POPART_LOG_CONFIG: {config!r} cannot be read: {error}") from error
    if not isinstance(levels, dict) or not all(isinstance(v, str) for v in levels.values()):
        raise ValueError(
            f"POPART_LOG_CONFIG: wanted modules and their levels in {config!r}; given {levels!r}"
        )
    return levels


def _configured_level(name: str) -> int:
    config = os.environ.get("POPART_LOG_CONFIG")
    if config:
        levels = _levels_of_modules(config)
        if name in levels:
            return _level(levels[name])
    return _level(os.environ.get("POPART_LOG_LEVEL", "WARN"))


def getLogger(name: str = "all") -> Logger:
    """Find the logger of a module, which is made when it is first asked for.

    Args:
        name: The name of the module.

    Returns:
        The logger.
    """
    root = logging.getLogger("popart")
    if not root.handlers:
        root.addHandler(_handler())
        root.propagate = False
    if name not in _loggers:
        _loggers[name] = Logger(name, _configured_level(name))
    return _loggers[name]
