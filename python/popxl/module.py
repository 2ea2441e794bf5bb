"""Modules: objects that build graphs."""

from __future__ import annotations

from typing import Any


class Module:
    """A builder of graphs: subclasses define `build`, which creates the ops of one graph."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Create the ops of the module in the current graph.

        Args:
            *args: The arguments of `build`.
            **kwargs: The arguments of `build`.

        Returns:
            What `build` returns.
        """
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Create the ops of the graph; subclasses define it.

        Args:
            *args: Whatever the subclass wants.
            **kwargs: Whatever the subclass wants.

        Returns:
            What the graph returns: None, a tensor or several tensors.

        Raises:
            NotImplementedError: The subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__qualname__} does not define `build`")
