"""Trees of tensors and of host arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import popxl
from popxl import ops
from popxl_addons.dot_tree import DotTree


class NamedTensors(DotTree[popxl.Tensor]):
    """A tree of tensors."""

    @property
    def tensors(self) -> tuple[popxl.Tensor, ...]:
        """The leaves, sorted by the tensors' own names."""
        return tuple(sorted(self.values_flat(), key=lambda tensor: tensor.name))

    @property
    def named_tensors(self) -> dict[str, popxl.Tensor]:
        """Flat key -> tensor, in insertion order."""
        return dict(self.to_dict())

    def remap(self, mapping: Mapping[popxl.Tensor, popxl.Tensor]) -> NamedTensors:
        """Replaces every tensor.

        Args:
            mapping: Tensor -> its replacement.

        Returns:
            A new tree with the same keys.

        Raises:
            KeyError: A tensor is not in the mapping.
        """
        return self.map(lambda tensor: mapping[tensor])


class NamedTensorData(DotTree[np.ndarray]):
    """A tree of host arrays."""


def print_named_tensors(tensors: NamedTensors) -> NamedTensors:
    """Prints every tensor when the program runs, titled with its flat key.

    Args:
        tensors: Tensors of the current graph.

    Returns:
        The results of the prints under the same keys, in insertion order.
    """
    return NamedTensors.from_dict(
        {key: ops.print_tensor(t, title=key) for key, t in tensors.to_dict().items()}
    )
