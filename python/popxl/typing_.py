"""Markers for annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def NewAliasAnnotation(name: str, tp: Any) -> Callable[[Any], Any]:
    """Make a unique object to annotate with; programs compare annotations with it by identity.

    Args:
        name: The name of the annotation.
        tp: The type that it stands for.

    Returns:
        The annotation, which cannot be called.
    """

    def marker(_: Any) -> Any:
        raise NotImplementedError(f"{name} is an annotation and cannot be called")

    marker.__name__ = name
    marker.__qualname__ = name
    marker.__doc__ = f"{name} stands in annotations; programs compare with it by identity."
    marker.__supertype__ = tp  # type: ignore[attr-defined]
    return marker
