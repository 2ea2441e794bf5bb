"""Lowerings of normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import torch

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops

Optional = popxl.Tensor | None


def _filled(value: float, size: int, dtype: popxl.dtype) -> popxl.Tensor:
    return popxl.constant(np.full((size,), value, dtype.as_numpy()), dtype)


def _scale_and_shift(
    weight: Optional, bias: Optional, channels: int, dtype: popxl.dtype
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The scale and the shift of each channel; 1 and 0 where there is none."""
    scale = _filled(1, channels, dtype) if weight is None else cast(weight, dtype).flatten()
    shift = _filled(0, channels, dtype) if bias is None else cast(bias, dtype).flatten()
    return scale, shift


def _for_channels(values: popxl.Tensor, rank: int) -> popxl.Tensor:
    """A value for each channel in a shape that broadcasts to (N, C, ...)."""
    return ops.reshape(values, (values.shape[0], *[1] * (rank - 2)))


def _with_given_statistics(
    t: popxl.Tensor,
    weight: Optional,
    bias: Optional,
    mean: popxl.Tensor,
    variance: popxl.Tensor,
    eps: float,
) -> popxl.Tensor:
    """Normalise with statistics that are given. The popxl op for it has no gradient."""
    f = popxl.float32
    inverse = ops.div(number(1, f), ops.sqrt(ops.add(cast(variance, f), number(eps, f))))
    factor = inverse if weight is None else ops.mul(inverse, cast(weight, f))
    centred = ops.sub(cast(t, f), _for_channels(cast(mean, f), t.rank))
    result = ops.mul(centred, _for_channels(factor, t.rank))
    if bias is not None:
        result = ops.add(result, _for_channels(cast(bias, f), t.rank))
    return cast(result, t.dtype)


def _with_own_statistics(
    t: popxl.Tensor, weight: Optional, bias: Optional, eps: float
) -> tuple[popxl.Tensor, popxl.Tensor, popxl.Tensor]:
    """Normalise, and find the mean and the unbiased variance of each channel."""
    scale, shift = _scale_and_shift(weight, bias, t.shape[1], popxl.float32)
    if t.dtype == popxl.float64:
        scale, shift = cast(scale, t.dtype), cast(shift, t.dtype)
    return ops.batch_norm_training(t, scale, shift, eps)


def _update_running(call: Call, name: str, new: popxl.Tensor, momentum: float) -> None:
    """Move a running statistic toward a new one, outside of what is differentiated."""
    meta = call.argument(name)
    if meta is None:
        return
    old = cast(call.lowering.read(meta), popxl.float32)
    kept = ops.mul(old, number(1 - momentum, popxl.float32))
    moved = ops.add(
        kept, ops.mul(ops.detach(cast(new, popxl.float32)), number(momentum, old.dtype))
    )
    call.write(name, moved)


@lowers("aten::batch_norm")
def batch_norm(
    call: Call,
    input: popxl.Tensor,
    weight: Optional,
    bias: Optional,
    running_mean: Optional,
    running_var: Optional,
    training: bool,
    momentum: float,
    eps: float,
    **_tuning: bool,
) -> popxl.Tensor:
    """Normalise each channel over samples and spatial axes."""
    t = cast(input, call.dtype)
    if not training:
        assert running_mean is not None and running_var is not None
        return _with_given_statistics(t, weight, bias, running_mean, running_var, eps)
    result, mean, variance = _with_own_statistics(t, weight, bias, eps)
    _update_running(call, "running_mean", mean, momentum)
    _update_running(call, "running_var", variance, momentum)
    return result


@lowers("aten::native_batch_norm", "aten::_native_batch_norm_legit")
def native_batch_norm(
    call: Call,
    input: popxl.Tensor,
    weight: Optional,
    bias: Optional,
    training: bool,
    momentum: float,
    eps: float,
    running_mean: Optional = None,
    running_var: Optional = None,
) -> tuple[popxl.Tensor, ...]:
    """Batch normalisation that also gives the statistics it used."""
    t = cast(input, call.dtype)
    if not training:
        assert running_mean is not None and running_var is not None
        result = _with_given_statistics(t, weight, bias, running_mean, running_var, eps)
        empty = [popxl.constant(np.zeros(tuple(m.shape), np.float32)) for m in call.outputs[1:]]
        return (result, *empty)
    result, mean, variance = _with_own_statistics(t, weight, bias, eps)
    if "running_mean" in call.node.arguments:
        _update_running(call, "running_mean", mean, momentum)
        _update_running(call, "running_var", variance, momentum)
    count = prod(t.shape) // t.shape[1]
    biased = ops.mul(variance, number((count - 1) / count, variance.dtype))
    inverse = ops.div(number(1, biased.dtype), ops.sqrt(ops.add(biased, number(eps, biased.dtype))))
    return result, mean, inverse


@lowers("aten::instance_norm")
def instance_norm(
    call: Call,
    input: popxl.Tensor,
    weight: Optional,
    bias: Optional,
    running_mean: Optional,
    running_var: Optional,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    **_tuning: bool,
) -> popxl.Tensor:
    """Normalise each channel of each sample over spatial axes."""
    t = cast(input, call.dtype)
    if not use_input_stats:
        assert running_mean is not None and running_var is not None
        return _with_given_statistics(t, weight, bias, running_mean, running_var, eps)
    if running_mean is not None or running_var is not None:
        _update_of_instances(call, t, momentum)
    channels = t.shape[1]
    scale, shift = _scale_and_shift(weight, bias, channels, t.dtype)
    return ops.group_norm(t, scale, shift, channels, eps)


def _update_of_instances(call: Call, t: popxl.Tensor, momentum: float) -> None:
    """Running statistics move toward the means, over samples, of those of samples."""
    values = ops.detach(cast(t, popxl.float32))
    axes = list(range(2, t.rank))
    count = prod(t.shape[2:])
    mean = ops.mean(values, axes, True)
    spread = ops.sub(values, mean)
    variance = ops.div(ops.sum(ops.mul(spread, spread), axes), number(count - 1, popxl.float32))
    _update_running(call, "running_mean", ops.mean(ops.reshape(mean, t.shape[:2]), 0), momentum)
    _update_running(call, "running_var", ops.mean(variance, 0), momentum)


@lowers("aten::group_norm")
def group_norm(
    call: Call,
    input: popxl.Tensor,
    num_groups: int,
    weight: Optional = None,
    bias: Optional = None,
    eps: float = 1e-5,
    **_tuning: bool,
) -> popxl.Tensor:
    """Normalise groups of channels of each sample."""
    t = cast(input, call.dtype)
    scale, shift = _scale_and_shift(weight, bias, t.shape[1], t.dtype)
    return ops.group_norm(t, scale, shift, num_groups, eps)


def _rows(t: popxl.Tensor, normalized_shape: Sequence[int]) -> popxl.Tensor:
    """The tensor as rows of the elements that are normalised together."""
    size = prod(normalized_shape)
    shape = (prod(t.shape) // size, size)
    return t if t.shape == shape else ops.reshape(t, shape)


@lowers("aten::layer_norm")
def layer_norm(
    call: Call,
    input: popxl.Tensor,
    normalized_shape: Sequence[int],
    weight: Optional = None,
    bias: Optional = None,
    eps: float = 1e-5,
    **_tuning: bool,
) -> popxl.Tensor:
    """Normalise over the last axes."""
    rows = _rows(cast(input, call.dtype), normalized_shape)
    scale, shift = _scale_and_shift(weight, bias, rows.shape[1], rows.dtype)
    return ops.reshape(ops.layer_norm(rows, scale, shift, eps), call.shape)


def _mean_and_inverse(
    t: popxl.Tensor, axes: Sequence[int], eps: float
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The mean over axes, which are kept, and 1 over the root of the biased variance plus eps."""
    values = cast(t, popxl.float32)
    mean = ops.mean(values, list(axes), True)
    spread = ops.sub(values, mean)
    variance = ops.mean(ops.mul(spread, spread), list(axes), True)
    one = number(1, popxl.float32)
    return mean, ops.div(one, ops.sqrt(ops.add(variance, number(eps, popxl.float32))))


@lowers("aten::native_layer_norm")
def native_layer_norm(
    call: Call,
    input: popxl.Tensor,
    normalized_shape: Sequence[int],
    weight: Optional,
    bias: Optional,
    eps: float,
) -> tuple[popxl.Tensor, ...]:
    """Layer normalisation that also gives the statistics it used."""
    result = layer_norm(call, input, normalized_shape, weight, bias, eps)
    axes = range(input.rank - len(normalized_shape), input.rank)
    return (result, *_mean_and_inverse(input, axes, eps))


@lowers("aten::native_group_norm")
def native_group_norm(
    call: Call,
    input: popxl.Tensor,
    weight: Optional,
    bias: Optional,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[popxl.Tensor, ...]:
    """Group normalisation that also gives the statistics it used."""
    result = group_norm(call, input, group, weight, bias, eps)
    grouped = ops.reshape(input, (N, group, C // group * HxW))
    mean, inverse = _mean_and_inverse(grouped, [2], eps)
    return result, ops.reshape(mean, (N, group)), ops.reshape(inverse, (N, group))


@lowers("aten::rms_norm")
def rms_norm(
    call: Call,
    input: popxl.Tensor,
    normalized_shape: Sequence[int],
    weight: Optional = None,
    eps: float | None = None,
) -> popxl.Tensor:
    """Divide by the root of the mean of squares over the last axes."""
    f = popxl.float32
    t = cast(input, f)
    added = float(torch.finfo(call.outputs[0].dtype).eps) if eps is None else eps
    axes = list(range(t.rank - len(normalized_shape), t.rank))
    mean = ops.mean(ops.mul(t, t), axes, True)
    result = ops.mul(t, ops.div(number(1, f), ops.sqrt(ops.add(mean, number(added, f)))))
    if weight is not None:
        result = ops.mul(result, cast(weight, f))
    return cast(result, call.dtype)


@lowers("aten::_weight_norm")
def weight_norm(call: Call, v: popxl.Tensor, g: popxl.Tensor, dim: int = 0) -> popxl.Tensor:
    """Scale slices of a weight, one for each position of an axis, to given norms."""
    axes = [axis for axis in range(v.rank) if dim == -1 or axis != dim % v.rank]
    t = cast(v, popxl.float32)
    norm = ops.sqrt(ops.sum(ops.mul(t, t), axes, True))
    return cast(ops.mul(t, ops.div(cast(g, popxl.float32), norm)), call.dtype)
