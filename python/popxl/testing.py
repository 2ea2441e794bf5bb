"""Helpers for tests."""

from __future__ import annotations

from popxl import dtypes


def get_all_dtypes() -> list[dtypes.dtype]:
    """Every element type."""
    return list(dtypes.dtype._by_name.values())


def get_all_int_dtypes(
    include_signed: bool = True, include_unsigned: bool = True
) -> list[dtypes.dtype]:
    """The integer types."""
    return [
        d
        for d in get_all_dtypes()
        if d.is_int and (include_signed if d.is_signed else include_unsigned)
    ]
