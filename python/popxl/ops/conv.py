"""Convolutions of (N, C, spatial...) tensors with one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from popxl.ops.utils import check_inputs, log2_scale_attributes, is_float8, make
from popxl.tensor import Tensor

PadType = Literal["not_set", "same_upper", "same_lower", "valid"]


def _attributes(
    stride: Iterable[int],
    padding: Iterable[int],
    dilation: Iterable[int],
    groups: int,
    pad_type: str,
) -> dict[str, object]:
    if pad_type not in get_args(PadType):
        raise ValueError(
            f"Not a valid pad type: {pad_type}. Must choose from: {', '.join(get_args(PadType))}"
        )
    lists = {"strides": stride, "pads": padding, "dilations": dilation}
    given = {name: [int(v) for v in values] for name, values in lists.items()}
    attributes: dict[str, object] = {"groups": int(groups), "pad_type": pad_type}
    # Empty lists stand for the defaults.
    attributes.update({name: values for name, values in given.items() if values})
    return attributes


def _check_float8(t: Tensor, weight: Tensor, log2_scale: Tensor) -> dict[str, object]:
    check_inputs(t=t, weight=weight, log2_scale=log2_scale)
    if not (is_float8(t.dtype) and is_float8(weight.dtype)):
        raise TypeError(
            "Scaled conv operands must be of dtype popxl.float8_143 or popxl.float8_152. "
            f"Provided {t.dtype} and {weight.dtype}"
        )
    return log2_scale_attributes(log2_scale)


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
) -> Tensor:
    """Cross-correlation with a weight (M, C/groups, k...). The last three have no effect.

    `padding` lists all begins, then all ends.
    """
    check_inputs(t=t, weight=weight)
    attributes = _attributes(stride, padding, dilation, groups, pad_type)
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
    """float16(conv * 2^log2_scale) of float8 operands."""
    attributes = _check_float8(t, weight, log2_scale)
    attributes.update(_attributes(stride, padding, dilation, groups, pad_type))
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
) -> Tensor:
    """The transposed convolution with a weight (Cin, Cout/groups, k...)."""
    check_inputs(t=t, weight=weight)
    attributes = _attributes(stride, padding, dilation, groups, pad_type)
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
    """float16(conv_transpose * 2^log2_scale) of float8 operands."""
    attributes = _check_float8(t, weight, log2_scale)
    attributes.update(_attributes(stride, padding, dilation, groups, pad_type))
    inputs: list[Tensor | None] = [t, weight, log2_scale]
    return _transposed(
        inputs, attributes, output_padding, output_shape, "conv_transpose_pow2scaled"
    )
