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
    """`x @ weight + bias`, the weight (in, out) made from groups of four-bit numbers along `dim`.

    Variables: `weight_compressed` (other axis, size of dim / group_size, group_size / 4) uint16,
    `weight_decompression_scale` and `weight_decompression_bias` (..., 1), `bias` (out,); all start
    at zero. ValueError unless group_size is a positive multiple of 4 that divides the axis.
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
        """The compressed values of a torch.nn.Linear for this layer's variables."""
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
