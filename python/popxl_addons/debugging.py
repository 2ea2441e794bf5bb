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
    """Prints a tensor when the program runs, if the log level of the model allows it.

    The level is that of the environment variable MODEL_LOG_LEVEL when this module was imported:
    TRACE, DEBUG, INFO (the default) or WARN.

    Args:
        t: The tensor, of any shape and dtype.
        *args: Further arguments of `popxl.ops.print_tensor`.
        level: The level of this print; it is left out when MODEL_LOG_LEVEL is above it.
        **kwargs: Further keyword arguments of `popxl.ops.print_tensor`.

    Returns:
        The result of `popxl.ops.print_tensor`, or `t` where nothing is printed.

    Raises:
        KeyError: `level` is no level.
    """
    return ops.print_tensor(t, *args, **kwargs) if _enabled(level) else t


def print_text(text: str, num: popxl.Tensor | None = None, level: str = "DEBUG") -> None:
    """Prints a text when the program runs, if the log level of the model allows it.

    Args:
        text: What is printed.
        num: A tensor whose value follows the text; None prints 0 there.
        level: As for `print_tensor`.

    Raises:
        KeyError: `level` is no level.
    """
    if _enabled(level):
        value = popxl.constant(0, popxl.uint32) if num is None else num
        ops.print_tensor(value, title=text)
