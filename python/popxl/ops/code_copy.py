"""Copies of graph code between memories."""

from __future__ import annotations

from typing import Any, NoReturn


def code_copy(graph: Any, source: Any, destination: Any) -> NoReturn:
    """Not available: code has one place."""
    raise NotImplementedError("code_copy is not supported: the code of a graph has one place")
