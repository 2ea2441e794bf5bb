"""Group normalisation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl_addons.layers.layer_norm import LayerNorm
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


class GroupNorm(Module):
    """Normalises groups of channels.

    Variables: `weight` (channels,), ones, and `bias` (channels,), zeros.

    Args:
        num_groups: Into how many groups the channels are split.
        replica_grouping: Replicas in one group have the same variables; None means all replicas.
        eps: Added to the variance.
        cache: Whether equal arguments give the same graph.
    """

    def __init__(
        self,
        num_groups: int,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        eps: float = 1e-5,
        cache: bool = False,
    ) -> None:
        super().__init__(cache=cache)
        self.num_groups = num_groups
        self.replica_grouping = replica_grouping
        self.eps = eps

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Normalises.

        Args:
            x: (n, channels, ...), float.

        Returns:
            The normalised, scaled and shifted tensor, of the shape and dtype of `x`.

        Raises:
            ValueError: `x` has fewer than two axes.
        """
        if len(x.shape) < 2:
            raise ValueError(f"GroupNorm needs a tensor of rank 2 or more; given {x}.")
        parameters: dict[str, Any] = {"dtype": x.dtype, "replica_grouping": self.replica_grouping}
        channels = x.shape[1:2]
        weight = self.add_variable_input("weight", partial(np.ones, channels), **parameters)
        bias = self.add_variable_input("bias", partial(np.zeros, channels), **parameters)
        return ops.group_norm(x, weight, bias, self.num_groups, self.eps)

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """The values of a torch layer for this layer's variables.

        Args:
            variables: The variables of this layer.
            nn_layer: A torch.nn.GroupNorm.
            dtype: The dtype of the variables.

        Returns:
            Variable -> array.
        """
        return LayerNorm.torch_mapping(variables, nn_layer, dtype)
