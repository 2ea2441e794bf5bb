"""Exceptions of the device layer."""

# Programs know these classes by these names.
# ruff: noqa: N801

from __future__ import annotations


class poplibs_exception(Exception):
    """An error of the kernel libraries."""


class poplar_exception(Exception):
    """An error of the device layer."""


class poplar_runtime_error(poplar_exception):
    """An error while a program runs."""


class poplar_application_runtime_error(poplar_runtime_error):
    """An error of the program."""


class poplar_system_runtime_error(poplar_runtime_error):
    """An error of the system."""


class poplar_recoverable_runtime_error(poplar_system_runtime_error):
    """A system error after which the program can go on."""


class poplar_unrecoverable_runtime_error(poplar_system_runtime_error):
    """A system error after which it cannot."""


class poplar_unknown_runtime_error(poplar_system_runtime_error):
    """A system error of unknown kind."""
