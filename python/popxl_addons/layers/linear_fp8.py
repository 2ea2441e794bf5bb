"""A fully connected layer in float8."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl_addons.layers.initialisers import truncated_normal
from popxl_addons.layers.linear import Linear
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.fp8_amax_scale import fp8_amax_scale
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale
from popxl_addons.utils import WeightsDict

_SCALE_METRICS = ("amax", "mse", "manual_scale")
# Powers of two that gradients stay below the largest number, and the most that a scale may be.
_GRADIENT_MARGIN = 3
_MOST = 31


def _product(
    lhs: popxl.Tensor, rhs: popxl.Tensor, log2_scale: popxl.Tensor, dtype: popxl.dtype
) -> popxl.Tensor:
    """`lhs @ rhs * 2**log2_scale` of float8 tensors, made in float16. A product takes scales in
    [-32, 32) only; what is beyond is multiplied afterwards, in float32."""
    least = popxl.constant(-_MOST, popxl.int32)
    within = ops.negate(ops.maximum(ops.negate(ops.maximum(log2_scale, least)), least))
    y = ops.matmul_pow2scaled(lhs, rhs, within)
    beyond = popxl.constant(np.ldexp(np.float32(1), np.arange(-_MOST, _MOST + 1)), popxl.float32)
    factor = ops.gather(beyond, log2_scale - within + popxl.constant(_MOST, popxl.int32))
    return ops.cast(ops.cast(y, popxl.float32) * factor, dtype)


class LinearFP8(Module):
    """A fully connected layer in float8: x @ weight + bias.

    Weight and input are cast to float8_143, output gradients to float8_152; products come in
    float16. The layer has a gradient of its own, so it must be called as a graph (`call_module`,
    `create_graph`). Variables as those of `Linear`.

    Args:
        out_features: The size of the last axis of the result.
        bias: Whether there is a bias.
        scale_metric: How the powers of two are found that bring values into the range of the casts:
            "amax" (the largest value fits), "mse" (the least mean square error) or "manual_scale"
            (`scale` for weight and input, amax for gradients).
        scale: The exponent for "manual_scale".
        replica_grouping: Replicas in one group have the same variables; None means all replicas.

    Raises:
        ValueError: `scale_metric` is another text.
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        scale_metric: str = "amax",
        scale: int = 0,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        super().__init__()
        if scale_metric not in _SCALE_METRICS:
            raise ValueError(
                f"LinearFP8: wanted a scale metric of {', '.join(_SCALE_METRICS)}; given "
                f"{scale_metric!r}"
            )
        self.out_features = out_features
        self.bias = bias
        self.scale_metric = scale_metric
        self.scale = scale
        self.replica_grouping = replica_grouping

    def _scale_of(self, t: popxl.Tensor) -> popxl.Tensor:
        if self.scale_metric == "amax":
            return fp8_amax_scale(t, popxl.float8_143)
        if self.scale_metric == "mse":
            return fp8_mse_scale(t, popxl.float8_143)
        return popxl.constant(self.scale, popxl.int32)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Applies the layer.

        Args:
            x: (..., in), float16 or float32.

        Returns:
            (..., out_features) in the dtype of `x`.
        """
        weight = self.add_variable_input(
            "weight",
            truncated_normal((x.shape[-1], self.out_features)),
            x.dtype,
            replica_grouping=self.replica_grouping,
        )
        x_scale, weight_scale = self._scale_of(x), self._scale_of(weight)
        rows = ops.reshape(x, (-1, x.shape[-1]))
        x8 = ops.pow2scale_cast_to_fp8(rows, x_scale, popxl.float8_143)
        weight8 = ops.pow2scale_cast_to_fp8(weight, weight_scale, popxl.float8_143)
        for name, t in (("x", x8), ("weight", weight8)):
            self.aux[name] = t
        self.aux["x_scale"], self.aux["weight_scale"] = x_scale, weight_scale
        y = _product(x8, weight8, ops.negate(x_scale + weight_scale), x.dtype)
        y = ops.reshape(y, (*x.shape[:-1], self.out_features))
        if self.bias:
            y = y + self.add_variable_input(
                "bias",
                partial(np.zeros, (self.out_features,)),
                x.dtype,
                replica_grouping=self.replica_grouping,
            )
        return y

    def build_grad(self, dy: popxl.Tensor) -> popxl.Tensor:  # type: ignore[override]
        """The gradient of the layer.

        Args:
            dy: The gradient of the result, (..., out_features).

        Returns:
            The gradient of the input, (..., in) in the dtype of `dy`.
        """
        rows = ops.reshape(dy, (-1, self.out_features))
        scale = fp8_amax_scale(rows, popxl.float8_152) - popxl.constant(
            _GRADIENT_MARGIN, popxl.int32
        )
        scale = ops.maximum(scale, popxl.constant(-_MOST, popxl.int32))
        dy8 = ops.pow2scale_cast_to_fp8(rows, scale, popxl.float8_152)
        x_scale, weight_scale = self.aux["x_scale"], self.aux["weight_scale"]
        self.var_grad["weight"] = _product(
            ops.transpose(self.aux["x"]), dy8, ops.negate(x_scale + scale), dy.dtype
        )
        if self.bias:
            self.var_grad["bias"] = ops.sum(rows, axis=0)
        dx = _product(
            dy8, ops.transpose(self.aux["weight"]), ops.negate(weight_scale + scale), dy.dtype
        )
        return ops.reshape(dx, (*dy.shape[:-1], self.aux["weight"].shape[0]))

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
        return Linear.torch_mapping(variables, nn_layer, dtype)
