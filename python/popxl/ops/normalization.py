"""Normalisation layers. Channels are axis 1, or the last axis where `channel_last` is given."""

from __future__ import annotations

from popxl.context import create_op, get_current_graph
from popxl.ops.utils import check_inputs, make, outputs_of
from popxl.tensor_base import Tensor

_BATCH_OUTPUTS = (
    "batch_norm_out",
    "batch_norm_mean",
    "batch_norm_variance",
    "batch_norm_inv_std_dev",
)
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
    *,
    channel_last: bool = False,
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
        channel_last: Whether `t` is (N, spatial..., C). It is not part of the original popxl.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: Shapes or dtypes do not fit, here or when a session is made.
    """
    check_inputs(t=t, scale=scale, bias=bias, mean=mean, var=var)
    attributes: dict[str, object] = {"epsilon": float(epsilon), "momentum": float(momentum)}
    if channel_last:
        attributes["channel_last"] = True
    return make(
        "BatchNormalization",
        [t, scale, bias, mean, var],
        attributes,
        name="batch_norm_out",
        settings="batch_norm_inference",
    )


def batch_norm_training(
    t: Tensor, scale: Tensor, bias: Tensor, epsilon: float = 1e-5, *, channel_last: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise each channel to mean 0 and variance 1, then scale and shift it.

    Computes (t - mean) / sqrt(v + epsilon) * scale + bias with the mean and the biased variance v
    of a channel over the batch and the spatial axes, n elements, in float32. It is not part of the
    original popxl.

    Running statistics for `batch_norm_inference` are variables that
    `ops.var_updates.accumulate_moving_average_(running, new, 0.9)` updates, with the statistics
    that this function returns, outside the graph that is differentiated (a graph with ops that
    modify tensors has no gradient). The 0.9 is 1 - momentum of torch.

    Args:
        t: Data of shape (N, C, spatial...), or (N, C); float16, bfloat16, float32 or float64.
        scale: The scale of each channel, of shape (C,); the dtype of `t`, or float32 for 16 bits.
        bias: The shift of each channel, of shape (C,); the dtype of `t`, or float32 for 16 bits.
        epsilon: What is added to the variance.
        channel_last: Whether `t` is (N, spatial..., C).

    Returns:
        Three new tensors, all with gradients: the result, with the shape and dtype of `t`; the mean
        of each channel; and its unbiased variance v * n / (n - 1). The latter two have the shape
        (C,) and are float32, or float64 if `t` is.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: A channel has less than two elements; shapes or dtypes do not fit, here or
            when a session is made.
    """
    check_inputs(t=t, scale=scale, bias=bias)
    op = create_op(
        "BatchNormalizationTraining",
        [t, scale, bias],
        {"epsilon": float(epsilon), "channel_last": bool(channel_last)},
        names=_BATCH_OUTPUTS,
        settings_name="batch_norm_training",
    )
    y, mean, variance, _ = outputs_of(op)
    return y, mean, variance
