"""Lowerings of convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.registry import lowers
from popxl import ops
from popxl.ops.utils import make


def per_axis(values: int | Sequence[int] | None, axes: int, default: int = 0) -> list[int]:
    """A setting of windows for each spatial axis.

    Args:
        values: One number for each axis, or one for all; None or empty: the default.
        axes: The number of spatial axes.
        default: The value where none is given.

    Returns:
        A number for each axis.
    """
    given = [values] if isinstance(values, int) else list(values or [default])
    return given * axes if len(given) == 1 else given


def with_batch(t: popxl.Tensor, axes: int) -> popxl.Tensor:
    """Give a single sample an axis of samples.

    Args:
        t: A tensor (N, C, spatial...) or (C, spatial...).
        axes: The number of spatial axes.

    Returns:
        A tensor (N, C, spatial...).
    """
    return t if t.rank == axes + 2 else ops.reshape(t, (1, *t.shape))


def compute_dtype(dtype: popxl.dtype) -> popxl.dtype:
    """The element type in which sums of products are exact enough.

    Args:
        dtype: The element type of the result.

    Returns:
        The same one if it is a float, else float64, which holds integers up to 2 ** 53.
    """
    return dtype if dtype.is_floating_point else popxl.float64


def _explicit_pads(
    padding: str | int | Sequence[int], kernel: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """Zeros before each axis, then those behind each."""
    if padding == "valid":
        return [0] * (2 * len(kernel))
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return [n // 2 for n in total] + [n - n // 2 for n in total]
    assert not isinstance(padding, str)
    return per_axis(padding, len(kernel)) * 2


def _with_bias(call: Call, t: popxl.Tensor, bias: popxl.Tensor | None) -> popxl.Tensor:
    if bias is not None:
        shape = (bias.shape[0], *[1] * (t.rank - 2))
        t = ops.add(t, ops.reshape(cast(bias, t.dtype), shape))
    return cast(t if t.shape == call.shape else ops.reshape(t, call.shape), call.dtype)


@lowers("aten::conv1d", "aten::conv2d", "aten::conv3d")
def conv(
    call: Call,
    input: popxl.Tensor,
    weight: popxl.Tensor,
    bias: popxl.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> popxl.Tensor:
    """A convolution with an optional bias for each channel."""
    axes = weight.rank - 2
    dtype = compute_dtype(call.dtype)
    spread = per_axis(dilation, axes, 1)
    result = ops.conv(
        cast(with_batch(input, axes), dtype),
        cast(weight, dtype),
        stride=per_axis(stride, axes, 1),
        padding=_explicit_pads(padding, weight.shape[2:], spread),
        dilation=spread,
        groups=groups,
    )
    return _with_bias(call, result, bias)


@lowers("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d")
def conv_transpose(
    call: Call,
    input: popxl.Tensor,
    weight: popxl.Tensor,
    bias: popxl.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> popxl.Tensor:
    """The gradient of a convolution by its data, taken as a function of that gradient."""
    del output_padding  # the shape of the result says it
    axes = weight.rank - 2
    dtype = compute_dtype(call.dtype)
    data = cast(with_batch(input, axes), dtype)
    attributes: dict[str, object] = {
        "strides": per_axis(stride, axes, 1),
        "pads": per_axis(padding, axes) * 2,
        "dilations": per_axis(dilation, axes, 1),
        "groups": groups,
        "input_shape": [data.shape[0], weight.shape[1] * groups, *call.shape[-axes:]],
    }
    result = make(
        "ConvDataGrad",
        [cast(weight, dtype), data],
        attributes,
        name="conv_transpose_out",
        settings="conv_transpose",
    )
    return _with_bias(call, result, bias)


@lowers("aten::convolution", "aten::_convolution")
def convolution(
    call: Call,
    input: popxl.Tensor,
    weight: popxl.Tensor,
    bias: popxl.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    **_tuning: bool,
) -> popxl.Tensor:
    """A convolution, transposed or not."""
    if transposed:
        return conv_transpose(
            call, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return conv(call, input, weight, bias, stride, padding, dilation, groups)
