"""Helpers for tests."""

from __future__ import annotations

from popxl import dtypes


def get_all_dtypes() -> list[dtypes.dtype]:
    """List every element type.

    Returns:
        A new list.
    """
    return list(dtypes.dtype._by_name.values())


def get_all_int_dtypes(
    include_signed: bool = True, include_unsigned: bool = True
) -> list[dtypes.dtype]:
    """List the integer types.

    Args:
        include_signed: Whether those with sign are among them.
        include_unsigned: Whether those without sign are.

    Returns:
        A new list.
    """
    return [
        d
        for d in get_all_dtypes()
        if d.is_int and (include_signed if d.is_signed else include_unsigned)
    ]
