"""Errors of popxl's own."""

from __future__ import annotations


class UndefinedValue(Exception):
    """A property of a tensor (its IPU, its tile set) that nothing determines."""
