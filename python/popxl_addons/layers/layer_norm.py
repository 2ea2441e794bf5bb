"""Layer normalisation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl.utils import to_numpy
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


class LayerNorm(Module):
    """Normalises the rows of a tensor.

    Variables: `weight` (channels,), ones, and `bias` (channels,), zeros.
    """

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        """Normalises.

        Args:
            x: (n, channels), float.
            eps: Added to the variance.

        Returns:
            The normalised, scaled and shifted tensor, of the shape and dtype of `x`.

        Raises:
            ValueError: `x` does not have two axes.
        """
        if len(x.shape) != 2:
            raise ValueError(f"LayerNorm needs a tensor of rank 2; {x} has rank {len(x.shape)}.")
        weight = self.add_variable_input("weight", partial(np.ones, x.shape[-1:]), x.dtype)
        bias = self.add_variable_input("bias", partial(np.zeros, x.shape[-1:]), x.dtype)
        return ops.layer_norm(x, weight, bias, eps)

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """The values of a torch layer for this layer's variables.

        Args:
            variables: The variables of this layer.
            nn_layer: A torch.nn.LayerNorm.
            dtype: The dtype of the variables.

        Returns:
            Variable -> array.
        """
        return WeightsDict(
            {
                variables.weight: to_numpy(nn_layer.weight.flatten(), dtype),
                variables.bias: to_numpy(nn_layer.bias.flatten(), dtype),
            }
        )
