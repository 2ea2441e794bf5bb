"""Pooling of (N, C, spatial...) tensors."""

from __future__ import annotations

from collections.abc import Sequence

from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor

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
    """Compute the mean of every window. Padded cells do not count.

    Args:
        t: Data of shape (N, C, spatial...) with 1 to 3 spatial axes; float16, bfloat16, float32 or
            float64.
        kernel_size: The size K of the window along each spatial axis.
        stride: The step s between windows along each spatial axis. None: 1.
        padding: The cells added before each spatial axis, then those added behind each. None: 0.
        out_pads: More cells of the result; only 0 is supported. None: 0.
        dilation: The distance d of the cells of a window along each spatial axis. None: 1.
        in_dilations: The distance of the cells of `t`; only 1 is supported. None: 1.
        auto_pad: `not_set` takes `padding`, `valid` none, and `same_upper` and `same_lower` as many
            cells as make ceil(D / s) windows, an odd one behind or before.
        ceil_mode: Whether the number of windows is rounded up instead of down.

    Returns:
        A new tensor of shape (N, C, out...) with the dtype of `t`; for a size D with the paddings p
        and q out is floor((D + p + q - d * (K - 1) - 1) / s) + 1.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        KeyError: `auto_pad` is another word.
        popart_exception: The lists do not fit the rank of `t`, no window fits, or `out_pads` or
            `in_dilations` have another value, here or when a session is made.
    """
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
    """Find the largest value of every window. Each element that equals it gets the full gradient.

    Args:
        t: Data of shape (N, C, spatial...) with 1 to 3 spatial axes; float16, bfloat16, float32 or
            float64.
        kernel_size: The size K of the window along each spatial axis.
        stride: The step s between windows along each spatial axis. None: 1.
        padding: The cells, of -infinity, added before each spatial axis, then those behind. None:
            0.
        out_pads: More cells of the result; only 0 is supported. None: 0.
        dilation: The distance d of the cells of a window along each spatial axis. None: 1.
        in_dilations: The distance of the cells of `t`; only 1 is supported. None: 1.
        auto_pad: `not_set` takes `padding`, `valid` none, and `same_upper` and `same_lower` as many
            cells as make ceil(D / s) windows, an odd one behind or before.
        ceil_mode: Whether the number of windows is rounded up instead of down.
        storage_order: Only `row` is supported.

    Returns:
        A new tensor of shape (N, C, out...) with the dtype of `t`; `average_pool` gives the sizes.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        KeyError: `auto_pad` is another word.
        popart_exception: The lists do not fit the rank of `t`, no window fits, `storage_order` is
            another word, or `out_pads` or `in_dilations` have another value, here or when a session
            is made.
    """
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
