"""Exceptions of the device layer."""

# Programs know these classes by these names.
# ruff: noqa: N801

from __future__ import annotations

from pando._core import (
    poplar_application_runtime_error,
    poplar_exception,
    poplar_runtime_error,
)

__all__ = [
    "poplar_application_runtime_error",
    "poplar_exception",
    "poplar_recoverable_runtime_error",
    "poplar_runtime_error",
    "poplar_system_runtime_error",
    "poplar_unknown_runtime_error",
    "poplar_unrecoverable_runtime_error",
    "poplibs_exception",
]


class poplibs_exception(Exception):
    """An error of the kernel libraries."""


class poplar_system_runtime_error(poplar_runtime_error):
    """An error of the system."""


class poplar_recoverable_runtime_error(poplar_system_runtime_error):
    """A system error after which the program can go on."""


class poplar_unrecoverable_runtime_error(poplar_system_runtime_error):
    """A system error after which it cannot."""


class poplar_unknown_runtime_error(poplar_system_runtime_error):
    """A system error of unknown kind."""
