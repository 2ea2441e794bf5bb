"""A convolution over images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl.utils import to_numpy
from popxl_addons.layers.initialisers import truncated_normal
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict

_PAD_TYPES = ("same_upper", "same_lower", "valid")


class Conv2D(Module):
    """A convolution over images (n, channels, h, w).

    Variables: `weight` (out_channels, channels / groups, kh, kw), normal within two deviations of
    0.02, and `bias` (1, out_channels, 1, 1), zeros.

    Args:
        out_channels: Channels of the result.
        kernel_size: Height and width of the window, or one number for both.
        strides: Steps of the window, down and to the right.
        paddings: Zeros added at (top, left, bottom, right), or "same_upper", "same_lower" or
            "valid".
        dilations: Distance between the elements of the window, down and to the right.
        groups: Channels are split into so many groups that do not meet.
        bias: Whether there is a bias.
        available_memory_proportions: Has no effect.
        partials_types: Has no effect.
        enable_conv_dithering: Has no effect.
        replica_grouping: Replicas in one group have the same variables; None means all replicas.

    Raises:
        ValueError: `paddings` is another text.
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        strides: Sequence[int] = (1, 1),
        paddings: str | Sequence[int] = (0, 0, 0, 0),
        dilations: Sequence[int] = (1, 1),
        groups: int = 1,
        bias: bool = True,
        available_memory_proportions: Sequence[float] | None = None,
        partials_types: Sequence[str] | None = None,
        enable_conv_dithering: Sequence[int] | None = None,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        super().__init__()
        if isinstance(paddings, str) and paddings not in _PAD_TYPES:
            raise ValueError(
                f"Conv2D: wanted four paddings or one of {', '.join(_PAD_TYPES)}; given "
                f"{paddings!r}"
            )
        self.out_channels = out_channels
        self.kernel_size = (
            (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        )
        self.strides = strides
        self.paddings = paddings
        self.dilations = dilations
        self.groups = groups
        self.bias = bias
        self.hints: dict[str, Any] = {
            "available_memory_proportions": available_memory_proportions,
            "partials_types": partials_types,
            "enable_conv_dithering": enable_conv_dithering,
        }
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Convolves.

        Args:
            x: Images (n, channels, h, w), float.

        Returns:
            (n, out_channels, h', w') in the dtype of `x`.
        """
        parameters: dict[str, Any] = {"dtype": x.dtype, "replica_grouping": self.replica_grouping}
        shape = (self.out_channels, x.shape[1] // self.groups, *self.kernel_size)
        weight = self.add_variable_input("weight", truncated_normal(shape), **parameters)
        pad: dict[str, Any] = (
            {"pad_type": self.paddings}
            if isinstance(self.paddings, str)
            else {"padding": self.paddings}
        )
        y = ops.conv(
            x,
            weight,
            stride=self.strides,
            dilation=self.dilations,
            groups=self.groups,
            **pad,
            **self.hints,
        )
        if self.bias:
            zeros = partial(np.zeros, (1, self.out_channels, 1, 1))
            y = y + self.add_variable_input("bias", zeros, **parameters)
        return y

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """The values of a torch layer for this layer's variables.

        Args:
            variables: The variables of this layer.
            nn_layer: A torch.nn.Conv2d.
            dtype: The dtype of the variables.

        Returns:
            Variable -> array.
        """
        weights = WeightsDict({variables.weight: to_numpy(nn_layer.weight, dtype)})
        if nn_layer.bias is not None:
            weights[variables.bias] = to_numpy(nn_layer.bias.reshape(1, -1, 1, 1), dtype)
        return weights
