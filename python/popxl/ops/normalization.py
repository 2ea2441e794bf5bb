"""Normalisation layers. Channels are axis 1."""

from __future__ import annotations

from popxl.context import create_op, get_current_graph
from popxl.ops.utils import check_inputs, make, outputs_of
from popxl.tensor import Tensor

_OUTPUTS = ("group_norm_out", "group_norm_mean", "group_norm_inv_std_dev")


def _group_norm(
    t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float, settings: str
) -> Tensor:
    check_inputs(t=t, weight=weight, bias=bias)
    options = get_current_graph().ir._options
    attributes: dict[str, object] = {
        "num_groups": int(num_groups),
        "eps": float(eps),
        "strided_channel_grouping": bool(options.groupNormStridedChannelGrouping),
    }
    inputs = [t, weight, bias]
    op = create_op("GroupNormalization", inputs, attributes, names=_OUTPUTS, settings_name=settings)
    return outputs_of(op)[0]


def group_norm(
    t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 per sample and group of channels, then scaled and shifted."""
    return _group_norm(t, weight, bias, num_groups, eps, "group_norm")


def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """`group_norm` with one group."""
    return _group_norm(t, weight, bias, 1, eps, "layer_norm")


def batch_norm_inference(
    t: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> Tensor:
    """scale * (t - mean) / sqrt(var + epsilon) + bias per channel; momentum has no effect."""
    check_inputs(t=t, scale=scale, bias=bias, mean=mean, var=var)
    return make(
        "BatchNormalization",
        [t, scale, bias, mean, var],
        {"epsilon": float(epsilon), "momentum": float(momentum)},
        name="batch_norm_out",
        settings="batch_norm_inference",
    )
