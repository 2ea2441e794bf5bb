"""Messages of poptorch's logger, which does not pass them on to pytest's handler by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from poptorch._logging import logger


class _Recorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def logged(level: int = logging.WARNING) -> Iterator[list[tuple[int, str]]]:
    """Gives the level and the text of each message, when the body is done."""
    recorder, messages, before = _Recorder(), [], logger.level
    logger.addHandler(recorder)
    logger.setLevel(level)
    try:
        yield messages
    finally:
        logger.setLevel(before)
        logger.removeHandler(recorder)
        messages += [(record.levelno, record.getMessage()) for record in recorder.records]
