"""Normalisation layers. Channels are axis 1."""

from __future__ import annotations

from popxl.context import create_op, get_current_graph
from popxl.ops.utils import check_inputs, make, outputs_of
from popxl.tensor_base import Tensor

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
    """Normalise groups of channels to mean 0 and variance 1, then scale and shift each channel.

    Computes (t - mean) / sqrt(variance + eps) * weight + bias. Mean and (biased) variance are those
    of a sample and group over the channels of the group and all axes behind, in float32. The
    channels of a group are neighbours, unless the session option `groupNormStridedChannelGrouping`
    is on.

    Args:
        t: Data of shape (N, C, ...); float16, bfloat16, float32 or float64.
        weight: The scale of each channel, of shape (C,) and the dtype of `t`.
        bias: The shift of each channel, of shape (C,) and the dtype of `t`.
        num_groups: The number of groups, which divides C.
        eps: What is added to the variance.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: Shapes, dtypes or groups do not fit, here or when a session is made.
    """
    return _group_norm(t, weight, bias, num_groups, eps, "group_norm")


def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Normalise each sample to mean 0 and variance 1, then scale and shift each channel.

    It is `group_norm` with one group. Channels are axis 1: bring (B, S, H) into the shape (B * S,
    H).

    Args:
        t: Data of shape (N, C, ...); float16, bfloat16, float32 or float64.
        weight: The scale of each channel, of shape (C,) and the dtype of `t`.
        bias: The shift of each channel, of shape (C,) and the dtype of `t`.
        eps: What is added to the variance.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: Shapes or dtypes do not fit, here or when a session is made.
    """
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
    """Compute scale * (t - mean) / sqrt(var + epsilon) + bias for each channel.

    There is no gradient: the statistics are given.

    Args:
        t: Data of shape (N, C, spatial...); float16, bfloat16, float32 or float64.
        scale: The scale of each channel, of shape (C,) and the dtype of `t`.
        bias: The shift of each channel, of shape (C,) and the dtype of `t`.
        mean: The mean of each channel, of shape (C,) and the dtype of `t`.
        var: The variance of each channel, of shape (C,) and the dtype of `t`.
        epsilon: What is added to the variance.
        momentum: Has no effect: nothing is averaged.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: Shapes or dtypes do not fit, here or when a session is made.
    """
    check_inputs(t=t, scale=scale, bias=bias, mean=mean, var=var)
    return make(
        "BatchNormalization",
        [t, scale, bias, mean, var],
        {"epsilon": float(epsilon), "momentum": float(momentum)},
        name="batch_norm_out",
        settings="batch_norm_inference",
    )
