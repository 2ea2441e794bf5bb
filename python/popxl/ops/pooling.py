"""Pooling of (N, C, spatial...) tensors."""

from __future__ import annotations

from collections.abc import Sequence

from popxl.ops.utils import check_inputs, make
from popxl.tensor import Tensor

_AUTO_PADS = ("not_set", "same_upper", "same_lower", "valid")


def _attributes(
    kernel_size: Sequence[int],
    lists: dict[str, Sequence[int] | None],
    auto_pad: str,
    ceil_mode: bool,
) -> dict[str, object]:
    if auto_pad not in _AUTO_PADS:
        raise KeyError(f"auto_pad: wanted one of {', '.join(_AUTO_PADS)}; given {auto_pad!r}")
    attributes: dict[str, object] = {
        "kernel_size": [int(k) for k in kernel_size],
        "pad_type": auto_pad,
        "ceil_mode": bool(ceil_mode),
    }
    attributes.update({name: [int(v) for v in values] for name, values in lists.items() if values})
    return attributes


def average_pool(
    t: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    out_pads: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    in_dilations: Sequence[int] | None = None,
    auto_pad: str = "not_set",
    ceil_mode: bool = False,
) -> Tensor:
    """The mean of every window; padded cells do not count. The stride is 1 by default."""
    check_inputs(t=t)
    lists = {
        "strides": stride,
        "pads": padding,
        "out_pads": out_pads,
        "dilations": dilation,
        "in_dilations": in_dilations,
    }
    attributes = _attributes(kernel_size, lists, auto_pad, ceil_mode)
    return make("AveragePool", [t], attributes, name="averagepool_out", settings="average_pool")


def max_pool(
    t: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    out_pads: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    in_dilations: Sequence[int] | None = None,
    auto_pad: str = "not_set",
    ceil_mode: bool = False,
    storage_order: str = "row",
) -> Tensor:
    """The largest value of every window. The stride is 1 by default."""
    check_inputs(t=t)
    lists = {
        "strides": stride,
        "pads": padding,
        "out_pads": out_pads,
        "dilations": dilation,
        "in_dilations": in_dilations,
    }
    attributes = _attributes(kernel_size, lists, auto_pad, ceil_mode)
    attributes["storage_order"] = storage_order
    return make("MaxPool", [t], attributes, name="maxpool_out", settings="max_pool")
