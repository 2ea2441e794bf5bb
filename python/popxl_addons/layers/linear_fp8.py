"""A fully connected layer in float8."""

from __future__ import annotations

from typing import Any

import popxl
from popxl_addons.layers.linear import Linear
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict

_SCALE_METRICS = ("amax", "mse", "manual_scale")


class LinearFP8(Linear):
    """Not available: making a graph of it raises NotImplementedError.

    ValueError for a scale metric that is not "amax", "mse" or "manual_scale".
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        scale_metric: str = "amax",
        scale: int = 0,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        super().__init__(out_features, bias, replica_grouping)
        if scale_metric not in _SCALE_METRICS:
            raise ValueError(
                f"LinearFP8: wanted a scale metric of {', '.join(_SCALE_METRICS)}; given "
                f"{scale_metric!r}"
            )
        self.scale_metric = scale_metric
        self.scale = scale

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        raise NotImplementedError(
            "LinearFP8: training in float8 is not available; use popxl_addons.layers.Linear, whose "
            "torch_mapping takes the same layer"
        )

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """The values of a torch.nn.Linear for this layer's variables."""
        return Linear.torch_mapping(variables, nn_layer, dtype)
