"""Convolutions of (N, C, spatial...) tensors with one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from popxl.ops.utils import check_inputs, check_log2_scale, is_float8, make
from popxl.tensor_base import Tensor

PadType = Literal["not_set", "same_upper", "same_lower", "valid"]


def _attributes(
    stride: Iterable[int],
    padding: Iterable[int],
    dilation: Iterable[int],
    groups: int,
    pad_type: str,
    channel_last: bool = False,
) -> dict[str, object]:
    if pad_type not in get_args(PadType):
        raise ValueError(
            f"Not a valid pad type: {pad_type}. Must choose from: {', '.join(get_args(PadType))}"
        )
    lists = {"strides": stride, "pads": padding, "dilations": dilation}
    given = {name: [int(v) for v in values] for name, values in lists.items()}
    attributes: dict[str, object] = {"groups": int(groups), "pad_type": pad_type}
    if channel_last:
        attributes["channel_last"] = True
    # Empty lists stand for the defaults.
    attributes.update({name: values for name, values in given.items() if values})
    return attributes


def _check_float8(t: Tensor, weight: Tensor, log2_scale: Tensor) -> None:
    check_inputs(t=t, weight=weight, log2_scale=log2_scale)
    if not (is_float8(t.dtype) and is_float8(weight.dtype)):
        raise TypeError(
            "Scaled conv operands must be of dtype popxl.float8_143 or popxl.float8_152. "
            f"Provided {t.dtype} and {weight.dtype}"
        )
    check_log2_scale(log2_scale)


def conv(
    t: Tensor,
    weight: Tensor,
    stride: Iterable[int] = (1, 1),
    padding: Iterable[int] = (0, 0, 0, 0),
    dilation: Iterable[int] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    available_memory_proportions: Iterable[float] | None = None,
    partials_types: Iterable[str] | None = None,
    enable_conv_dithering: Iterable[int] | None = None,
    *,
    channel_last: bool = False,
) -> Tensor:
    """Compute a convolution (a cross-correlation: the weight is not flipped).

    Args:
        t: Data of shape (N, C, spatial...) with 1 to 3 spatial axes; float16, bfloat16, float32 or
            float64.
        weight: The filters, of shape (M, C / groups, kernel...) and the dtype of `t`.
        stride: The step s between windows along each spatial axis; empty: 1.
        padding: The zeros p added before each spatial axis, then those added behind each; empty: 0.
        dilation: The distance d of the cells of a window along each spatial axis; empty: 1.
        groups: The number of groups of channels that are convolved each on their own.
        pad_type: `not_set` takes `padding`, `valid` none, and `same_upper` and `same_lower` as many
            zeros as make ceil(D / s) windows, an odd one behind or before.
        available_memory_proportions: Has no effect: a setting of other devices.
        partials_types: Has no effect: a setting of other devices.
        enable_conv_dithering: Has no effect: a setting of other devices.
        channel_last: Whether `t` and the result are (N, spatial..., C); the filters stay as they
            are. It is not part of the original popxl.

    Returns:
        A new tensor of shape (N, M, out...) with the dtype of `t`; for a size D, a kernel size K
        and the paddings p and q out is floor((D + p + q - d * (K - 1) - 1) / s) + 1.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; `pad_type` is another word.
        popart_exception: Shapes, dtypes, groups or lists do not fit each other, here or when a
            session is made.
    """
    check_inputs(t=t, weight=weight)
    attributes = _attributes(stride, padding, dilation, groups, pad_type, channel_last)
    return make("Conv", [t, weight], attributes, name="conv_out", settings="conv")


def conv_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Iterable[int] = (1, 1),
    padding: Iterable[int] = (0, 0, 0, 0),
    dilation: Iterable[int] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    available_memory_proportions: Iterable[float] | None = None,
    enable_conv_dithering: Iterable[int] | None = None,
) -> Tensor:
    """Compute float16(conv * 2^log2_scale) of float8 operands. There is no gradient.

    Args:
        t: Data of shape (N, C, spatial...) with 1 to 3 spatial axes; float8_143 or float8_152.
        weight: The filters, of shape (M, C / groups, kernel...); float8_143 or float8_152.
        log2_scale: The exponent of the scale: an int32 tensor of rank 0. A value outside [-32, 32)
            stops the run, unless the session option `throwIfLog2ScaleTensorNotInRange` is off.
        stride: The step between windows along each spatial axis; empty: 1.
        padding: The zeros added before each spatial axis, then those added behind each; empty: 0.
        dilation: The distance of the cells of a window along each spatial axis; empty: 1.
        groups: The number of groups of channels that are convolved each on their own.
        pad_type: `not_set`, `same_upper`, `same_lower` or `valid`, as `conv` takes it.
        available_memory_proportions: Has no effect: a setting of other devices.
        enable_conv_dithering: Has no effect: a setting of other devices.

    Returns:
        A new float16 tensor of the shape that `conv` gives.

    Raises:
        TypeError: An argument that must be a tensor is not one; an operand is not float8, or the
            scale is not int32.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the scale does not have rank 0, or `pad_type` is another word.
        popart_exception: Shapes, groups or lists do not fit each other, here or when a session is
            made.
        poplar_application_runtime_error: The scale is out of range in a run.
    """
    _check_float8(t, weight, log2_scale)
    attributes = _attributes(stride, padding, dilation, groups, pad_type)
    return make(
        "Conv", [t, weight, log2_scale], attributes, name="conv_out", settings="conv_pow2scaled"
    )


def _transposed(
    inputs: list[Tensor | None],
    attributes: dict[str, object],
    output_padding: Iterable[int],
    output_shape: Iterable[int],
    settings: str,
) -> Tensor:
    lists = {"output_padding": output_padding, "output_shape": output_shape}
    for name, values in lists.items():
        given = [int(v) for v in values]
        if given:
            attributes[name] = given
    return make("ConvTranspose", inputs, attributes, name="convtranspose_out", settings=settings)


def conv_transpose(
    t: Tensor,
    weight: Tensor,
    stride: Iterable[int] = (1, 1),
    padding: Iterable[int] = (0, 0, 0, 0),
    dilation: Iterable[int] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    output_padding: Iterable[int] = (),
    output_shape: Iterable[int] = (),
    available_memory_proportions: Iterable[float] | None = None,
    partials_types: Iterable[str] | None = None,
    enable_conv_dithering: Iterable[int] | None = None,
    *,
    channel_last: bool = False,
) -> Tensor:
    """Compute a transposed convolution. There is no gradient.

    Args:
        t: Data of shape (N, C, spatial...) with 1 to 3 spatial axes; float16, bfloat16, float32 or
            float64.
        weight: The filters, of shape (C, M / groups, kernel...) and the dtype of `t`.
        stride: The step s between windows of the result along each spatial axis; empty: 1.
        padding: The cells cut off before each spatial axis, then those cut off behind each; empty:
            0.
        dilation: Only 1 is supported; empty: 1.
        groups: The number of groups of channels that are convolved each on their own.
        pad_type: Where an odd cell goes with `output_shape`: behind for `same_upper`, else before.
        output_padding: Cells o added behind each spatial axis; empty: 0.
        output_shape: The spatial sizes, or the whole shape, of the result, from which `padding`
            follows; empty: they follow from `padding`.
        available_memory_proportions: Has no effect: a setting of other devices.
        partials_types: Has no effect: a setting of other devices.
        enable_conv_dithering: Has no effect: a setting of other devices.
        channel_last: Whether `t` and the result are (N, spatial..., C); the filters stay as they
            are. It is not part of the original popxl.

    Returns:
        A new tensor of shape (N, M, out...) with the dtype of `t`; for a size D, a kernel size K
        and the paddings p and q out is s * (D - 1) + o + K - p - q.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; `pad_type` is another word.
        popart_exception: Shapes, dtypes or lists do not fit, a dilation is not 1, or `valid` is
            combined with an `output_shape`, here or when a session is made.
    """
    check_inputs(t=t, weight=weight)
    attributes = _attributes(stride, padding, dilation, groups, pad_type, channel_last)
    return _transposed([t, weight], attributes, output_padding, output_shape, "conv_transpose")


def conv_transpose_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Iterable[int] = (1, 1),
    padding: Iterable[int] = (0, 0, 0, 0),
    dilation: Iterable[int] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    output_padding: Iterable[int] = (),
    output_shape: Iterable[int] = (),
    available_memory_proportions: Iterable[float] | None = None,
    enable_conv_dithering: Iterable[int] | None = None,
) -> Tensor:
    """Compute float16(conv_transpose * 2^log2_scale) of float8 operands. There is no gradient.

    Args:
        t: Data of shape (N, C, spatial...) with 1 to 3 spatial axes; float8_143 or float8_152.
        weight: The filters, of shape (C, M / groups, kernel...); float8_143 or float8_152.
        log2_scale: The exponent of the scale: an int32 tensor of rank 0. A value outside [-32, 32)
            stops the run, unless the session option `throwIfLog2ScaleTensorNotInRange` is off.
        stride: The step between windows of the result along each spatial axis; empty: 1.
        padding: The cells cut off before each spatial axis, then those cut off behind each; empty:
            0.
        dilation: Only 1 is supported; empty: 1.
        groups: The number of groups of channels that are convolved each on their own.
        pad_type: Where an odd cell goes with `output_shape`, as `conv_transpose` takes it.
        output_padding: Cells added behind each spatial axis; empty: 0.
        output_shape: The spatial sizes, or the whole shape, of the result; empty: from `padding`.
        available_memory_proportions: Has no effect: a setting of other devices.
        enable_conv_dithering: Has no effect: a setting of other devices.

    Returns:
        A new float16 tensor of the shape that `conv_transpose` gives.

    Raises:
        TypeError: An argument that must be a tensor is not one; an operand is not float8, or the
            scale is not int32.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the scale does not have rank 0, or `pad_type` is another word.
        popart_exception: Shapes or lists do not fit, or a dilation is not 1, here or when a session
            is made.
        poplar_application_runtime_error: The scale is out of range in a run.
    """
    _check_float8(t, weight, log2_scale)
    attributes = _attributes(stride, padding, dilation, groups, pad_type)
    inputs: list[Tensor | None] = [t, weight, log2_scale]
    return _transposed(
        inputs, attributes, output_padding, output_shape, "conv_transpose_pow2scaled"
    )
