"""The exceptions of poptorch and the text that they carry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_MESSAGE_LINES = 80
_LOG_NAME = "poptorch_error.log"


class Error(Exception):
    """An error in a program or its use of this library.

    Args:
        text: What `str` gives.
        message: What is wrong, without where; `text` if None.
        type: The part that raised it, such as `poptorch_py_error` or `popart_exception`.
        location: What was being done, one step a line, the innermost first.
    """

    def __init__(
        self, text: str = "", *, message: str | None = None, type: str = "", location: str = ""
    ) -> None:
        super().__init__(text)
        self.message = text if message is None else message
        self.type = type
        self.location = location


class RecoverableError(Error):
    """An error that may go away once what `recovery_action` names is done.

    Args:
        text: What `str` gives.
        message: What is wrong, without where; `text` if None.
        type: The part that raised it.
        location: What was being done, one step a line, the innermost first.
        recovery_action: `IPU_RESET`, `PARTITION_RESET` or `FULL_RESET`.
    """

    def __init__(
        self,
        text: str = "",
        *,
        message: str | None = None,
        type: str = "",
        location: str = "",
        recovery_action: str = "",
    ) -> None:
        super().__init__(text, message=message, type=type, location=location)
        self.recovery_action = recovery_action


class UnrecoverableError(Error):
    """An error that is likely to stay: the machine needs repair."""


# Programs know the classes as those of poptorch.poptorch_core.
for _class in (Error, RecoverableError, UnrecoverableError):
    _class.__module__ = "poptorch.poptorch_core"


def _cut(message: str, log_folder: str | Path) -> str:
    """The message, or its first lines where it is long; the whole is then in a file."""
    lines = message.splitlines()
    if len(lines) <= _MESSAGE_LINES:
        return message
    path = Path(log_folder) / _LOG_NAME
    end = f"See {_LOG_NAME} for details"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(message + "\n")
    except OSError as error:
        end = f"The other {len(lines) - _MESSAGE_LINES} lines could not be written: {error}"
    return "\n".join([*lines[:_MESSAGE_LINES], end])


def native_error(
    message: str,
    kind: str,
    origin: str,
    steps: Sequence[str],
    *,
    error_class: type[Error] = Error,
    recovery_action: str = "",
    log_folder: str | Path = ".",
) -> Error:
    """Make the exception for a failure below this package.

    Args:
        message: What is wrong. More than 80 lines are cut, and are whole in `poptorch_error.log`.
        kind: The exception's `type`.
        origin: Where it was raised, FILE:LINE.
        steps: What was being done, the innermost step first.
        error_class: The class of the exception.
        recovery_action: What to do, for a `RecoverableError`.
        log_folder: The folder of the log file, which is made.

    Returns:
        The exception.
    """
    lines = [f"In {origin}: '{kind}': {_cut(message, log_folder)}"]
    if recovery_action:
        lines.append(f"Recovery action required: {recovery_action}")
    location = "\n".join(f"  [{number}] {step}" for number, step in enumerate(steps))
    if location:
        lines += ["Error raised in:", location]
    error = error_class("\n".join(lines), message=message, type=kind, location=location)
    if isinstance(error, RecoverableError):
        error.recovery_action = recovery_action
    return error
