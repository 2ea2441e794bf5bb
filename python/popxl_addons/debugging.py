"""Prints that depend on the log level of the model."""

from __future__ import annotations

import os
from typing import Any

import popxl
from popxl import ops

_LEVELS = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "WARN": 3}
_CURRENT = _LEVELS[os.environ.get("MODEL_LOG_LEVEL", "INFO")]


def _enabled(level: str) -> bool:
    return _LEVELS[level] >= _CURRENT


def print_tensor(t: popxl.Tensor, *args: Any, level: str = "DEBUG", **kwargs: Any) -> popxl.Tensor:
    """`ops.print_tensor`, or `t` as it is when MODEL_LOG_LEVEL is above `level`."""
    return ops.print_tensor(t, *args, **kwargs) if _enabled(level) else t


def print_text(text: str, num: popxl.Tensor | None = None, level: str = "DEBUG") -> None:
    """Prints `text`, with the value of `num` if given, when the program runs."""
    if _enabled(level):
        value = popxl.constant(0, popxl.uint32) if num is None else num
        ops.print_tensor(value, title=text)
