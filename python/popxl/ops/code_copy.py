"""Copies of graph code between memories."""

from __future__ import annotations

from typing import Any, NoReturn


def code_copy(graph: Any, source: Any, destination: Any) -> NoReturn:
    """Refuse: the code of a graph has one place, so there is nothing to copy it from or to.

    Args:
        graph: The graph whose code would be copied.
        source: Where from.
        destination: Where to.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError("code_copy is not supported: the code of a graph has one place")
