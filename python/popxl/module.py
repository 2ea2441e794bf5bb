"""Modules: objects that build graphs."""

from __future__ import annotations

from typing import Any


class Module:
    """Subclasses define `build`, which creates the ops of one graph."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__qualname__} does not define `build`")
