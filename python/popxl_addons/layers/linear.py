"""A fully connected layer."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl.utils import to_numpy
from popxl_addons.layers.initialisers import truncated_normal
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


class Linear(Module):
    """A fully connected layer: x @ weight + bias.

    Variables: `weight` (in, out_features), normal within two deviations of 0.02, and `bias`
    (out_features,), zeros.

    Args:
        out_features: The size of the last axis of the result.
        bias: Whether there is a bias.
        replica_grouping: Replicas in one group have the same variables; None means all replicas.
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        super().__init__()
        self.out_features = out_features
        self.bias = bias
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Applies the layer.

        Args:
            x: (..., in), float.

        Returns:
            (..., out_features) in the dtype of `x`.
        """
        weight = self.add_variable_input(
            "weight",
            truncated_normal((x.shape[-1], self.out_features)),
            x.dtype,
            replica_grouping=self.replica_grouping,
        )
        y = x @ weight
        if self.bias:
            y = y + self.add_variable_input(
                "bias",
                partial(np.zeros, (self.out_features,)),
                x.dtype,
                replica_grouping=self.replica_grouping,
            )
        return y

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """The values of a torch layer for this layer's variables; the weight is transposed.

        Args:
            variables: The variables of this layer.
            nn_layer: A torch.nn.Linear.
            dtype: The dtype of the variables.

        Returns:
            Variable -> array.
        """
        weights = WeightsDict({variables.weight: to_numpy(nn_layer.weight.T, dtype)})
        if nn_layer.bias is not None:
            weights[variables.bias] = to_numpy(nn_layer.bias, dtype)
        return weights
