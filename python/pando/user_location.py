"""The line of the user's program that is being executed."""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from pathlib import Path

_PACKAGES = ("pando", "popart", "popxl", "popxl_addons")
_FOLDER = Path(__file__).resolve().parent.parent
# Frames of these files are never "the line of the user's program".
_OWN_CODE = (
    *(f"{_FOLDER / package}/" for package in _PACKAGES),
    contextmanager.__code__.co_filename,
    functools.__file__,
)
# Whether a file is one of these, by its name: every op walks over some frames.
_is_own: dict[str, bool] = {}


def user_location(skip: int = 0) -> tuple[str, int, str]:
    """Find the innermost frame outside of the project's packages.

    Args:
        skip: How many callers are known to be inside of them.

    Returns:
        Its file, line and function.
    """
    frame = sys._getframe(1 + skip)
    while True:
        code = frame.f_code
        is_own = _is_own.get(code.co_filename)
        if is_own is None:
            is_own = _is_own[code.co_filename] = code.co_filename.startswith(_OWN_CODE)
        if not is_own or frame.f_back is None:
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
