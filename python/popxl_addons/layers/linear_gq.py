"""A fully connected layer whose weight is kept in four bits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl.utils import to_numpy
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
)
from popxl_addons.utils import WeightsDict

__all__ = ["LinearGQ", "group_quantize_compress_numpy"]


class LinearGQ(Module):
    """A fully connected layer, x @ weight + bias, whose weight is kept in four bits.

    The weight (in, out_features) is made from groups of four-bit numbers along `dim`. Variables,
    all zeros at first: `weight_compressed` (other axis, size of dim / group_size, group_size / 4)
    uint16, `weight_decompression_scale` and `weight_decompression_bias` (..., 1), and `bias`
    (out_features,).

    Args:
        out_features: The size of the last axis of the result.
        bias: Whether there is a bias.
        replica_grouping: Replicas in one group have the same variables; None means all replicas.
        group_size: How many numbers share a scale: a positive multiple of 4 that divides the axis.
        dim: The axis of the weight that is split into groups: -2, -1, 0 or 1.

    Raises:
        ValueError: `group_size` or `dim` is another number.
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        group_size: int = 0,
        dim: int = -1,
    ) -> None:
        super().__init__()
        if group_size <= 0 or group_size % 4:
            raise ValueError(
                f"LinearGQ: wanted a positive group_size that is a multiple of 4; given "
                f"{group_size}"
            )
        if dim not in (-2, -1, 0, 1):
            raise ValueError(f"LinearGQ: wanted dim -2, -1, 0 or 1; given {dim}")
        self.out_features = out_features
        self.bias = bias
        self.replica_grouping = replica_grouping
        self.group_size = group_size
        self.dim = dim

    def _zeros(self, name: str, shape: tuple[int, ...], dtype: popxl.dtype) -> popxl.Tensor:
        return self.add_variable_input(
            name, partial(np.zeros, shape), dtype, replica_grouping=self.replica_grouping
        )

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Applies the layer.

        Args:
            x: (..., in), float.

        Returns:
            (..., out_features) in the dtype of `x`.

        Raises:
            ValueError: `group_size` does not divide the axis.
        """
        shape = (x.shape[-1], self.out_features)
        rows, columns = shape if self.dim in (-1, 1) else shape[::-1]
        if columns % self.group_size:
            raise ValueError(
                f"LinearGQ: axis {self.dim} of a weight {shape} does not divide into groups of "
                f"{self.group_size}"
            )
        groups = (rows, columns // self.group_size)
        packed = self._zeros("weight_compressed", (*groups, self.group_size // 4), popxl.uint16)
        scale = self._zeros("weight_decompression_scale", (*groups, 1), x.dtype)
        offset = self._zeros("weight_decompression_bias", (*groups, 1), x.dtype)
        y = x @ group_quantize_decompress(packed, scale, offset, self.dim)
        if self.bias:
            y = y + self._zeros("bias", (self.out_features,), x.dtype)
        return y

    @staticmethod
    def torch_mapping(
        variables: NamedTensors,
        nn_layer: Any,
        dtype: popxl.dtype = popxl.float32,
        group_size: int = 64,
        dim: int = -1,
    ) -> WeightsDict:
        """The compressed values of a torch layer for this layer's variables.

        Args:
            variables: The variables of this layer.
            nn_layer: A torch.nn.Linear.
            dtype: The dtype of scale, bias and offsets.
            group_size: As that of the layer.
            dim: As that of the layer.

        Returns:
            Variable -> array.
        """
        weight = to_numpy(nn_layer.weight.T, popxl.float32)
        packed, scale, offset = group_quantize_compress_numpy(weight, group_size, dim)
        weights = WeightsDict(
            {
                variables.weight_compressed: packed,
                variables.weight_decompression_scale: to_numpy(scale, dtype),
                variables.weight_decompression_bias: to_numpy(offset, dtype),
            }
        )
        if nn_layer.bias is not None:
            weights[variables.bias] = to_numpy(nn_layer.bias, dtype)
        return weights
