"""Names that programs know as those of the native layer: errors, checks of options."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from poptorch._errors import Error, RecoverableError, UnrecoverableError, native_error
from poptorch._impl import isDispatchTracing
from poptorch._options_popart import check_popart_options

__all__ = [
    "Error",
    "RecoverableError",
    "TestErrorType",
    "UnrecoverableError",
    "isCompilingWithDispatcher",
]


def isCompilingWithDispatcher() -> bool:
    """Tell whether a module is being traced.

    Returns:
        True between the begin and the end of a trace.
    """
    return isDispatchTracing()


def _validateOptions(options: Mapping[str, Any]) -> None:
    """Refuses options of the compiler that are unknown or of wrong types.

    `options` is what `Options.toDict` gives. Raises an Error.
    """
    check_popart_options(options.get("popart", {}))


class TestErrorType(enum.IntEnum):
    """Kinds of errors that can be raised as a sample."""

    Poptorch = 0
    Popart = 1
    PopartInternal = 2
    Poplibs = 3
    PoplarLink = 4
    PoplarRecoverableIpuReset = 5
    PoplarRecoverablePartitionReset = 6
    PoplarRecoverableFullReset = 7
    PoplarUnrecoverable = 8
    StdException = 9
    StdOutOfRange = 10


# Kind -> type, class and what to do.
_SAMPLES: dict[TestErrorType, tuple[str, type[Error], str]] = {
    TestErrorType.Poptorch: ("poptorch_cpp_error", Error, ""),
    TestErrorType.Popart: ("popart_exception", Error, ""),
    TestErrorType.PopartInternal: ("popart_internal_exception", Error, ""),
    TestErrorType.Poplibs: ("poplibs_exception", Error, ""),
    TestErrorType.PoplarLink: ("poplar_link_error", Error, ""),
    TestErrorType.PoplarRecoverableIpuReset: (
        "poplar_recoverable_runtime_error",
        RecoverableError,
        "IPU_RESET",
    ),
    TestErrorType.PoplarRecoverablePartitionReset: (
        "poplar_recoverable_runtime_error",
        RecoverableError,
        "PARTITION_RESET",
    ),
    TestErrorType.PoplarRecoverableFullReset: (
        "poplar_recoverable_runtime_error",
        RecoverableError,
        "FULL_RESET",
    ),
    TestErrorType.PoplarUnrecoverable: (
        "poplar_unrecoverable_runtime_error",
        UnrecoverableError,
        "",
    ),
    TestErrorType.StdException: ("std::exception", Error, ""),
    TestErrorType.StdOutOfRange: ("std::out_of_range", Error, ""),
}


def _throwTestError(kind: TestErrorType) -> None:
    """Raises a sample of an error, for tests of handlers."""
    name, error_class, recovery_action = _SAMPLES[TestErrorType(kind)]
    raise native_error(
        "This is a test error",
        name,
        "poptorch_core:1",
        ["_throwTestError"],
        error_class=error_class,
        recovery_action=recovery_action,
    )
