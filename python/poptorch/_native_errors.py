"""Failures of the compiler and the device as exceptions of this package."""

from __future__ import annotations

import traceback
from pathlib import Path

import popart
from poptorch._errors import Error, RecoverableError, UnrecoverableError, native_error

# The first class that an exception has gives its type and class here.
_TYPES: tuple[tuple[type[Exception], str, type[Error]], ...] = (
    (popart.popart_internal_exception, "popart_internal_exception", Error),
    (popart.popart_exception, "popart_exception", Error),
    (popart.poplibs_exception, "poplibs_exception", Error),
    (
        popart.poplar_recoverable_runtime_error,
        "poplar_recoverable_runtime_error",
        RecoverableError,
    ),
    (
        popart.poplar_unrecoverable_runtime_error,
        "poplar_unrecoverable_runtime_error",
        UnrecoverableError,
    ),
    (popart.poplar_exception, "popart_exception", Error),
)
_CLASSES = tuple(one for one, _, _ in _TYPES)


def _origin(error: BaseException) -> str:
    """The last line of Python that an exception came through."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown:0"


class NativeErrors:
    """A context in which failures of the compiler and the device become `poptorch.Error`s.

    Args:
        *steps: What is being done inside, the innermost step first.
        log_folder: Where the whole text of a long message is written.

    Raises:
        Error: The compiler or the device failed; the cause is what they raised.
    """

    __slots__ = ("_log_folder", "_steps")

    def __init__(self, *steps: str, log_folder: str | Path = ".") -> None:
        self._steps = steps
        self._log_folder = log_folder

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, _CLASSES):
            return
        kind, error_class = next(
            (name, one) for known, name, one in _TYPES if isinstance(error, known)
        )
        raise native_error(
            str(error),
            kind,
            _origin(error),
            self._steps,
            error_class=error_class,
            recovery_action=getattr(error, "recovery_action", "")
            or ("IPU_RESET" if error_class is RecoverableError else ""),
            log_folder=self._log_folder,
        ) from error
