"""Pooling of (N, C, spatial...) tensors, or (N, spatial..., C) where `channel_last` is given."""

from __future__ import annotations

from collections.abc import Sequence

from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor

_AUTO_PADS = ("not_set", "same_upper", "same_lower", "valid")
_TIES = ("all", "first")


def _check_ties(ties: str) -> None:
    if ties not in _TIES:
        raise ValueError(f"ties: wanted one of {', '.join(_TIES)}; given {ties!r}")


def _attributes(
    kernel_size: Sequence[int],
    lists: dict[str, Sequence[int] | None],
    auto_pad: str,
    ceil_mode: bool,
    more: dict[str, str | bool],
) -> dict[str, object]:
    if auto_pad not in _AUTO_PADS:
        raise KeyError(f"auto_pad: wanted one of {', '.join(_AUTO_PADS)}; given {auto_pad!r}")
    attributes: dict[str, object] = {
        "kernel_size": [int(k) for k in kernel_size],
        "pad_type": auto_pad,
        "ceil_mode": bool(ceil_mode),
    }
    attributes.update({name: [int(v) for v in values] for name, values in lists.items() if values})
    # Only those that are not the default: programs of popxl print as they did.
    attributes.update({name: value for name, value in more.items() if value not in (False, "all")})
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
    *,
    count_include_pad: bool = False,
    channel_last: bool = False,
) -> Tensor:
    """Compute the mean of every window. Padded cells do not count, unless it is asked for.

    `count_include_pad` and `channel_last` are not part of the original popxl.

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
        count_include_pad: Whether the cells of the padding count as zeros; those behind it, which
            `ceil_mode` adds, never do.
        channel_last: Whether `t` and the result are (N, spatial..., C).

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
    more: dict[str, str | bool] = {
        "count_include_pad": bool(count_include_pad),
        "channel_last": bool(channel_last),
    }
    attributes = _attributes(kernel_size, lists, auto_pad, ceil_mode, more)
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
    *,
    ties: str = "all",
    channel_last: bool = False,
) -> Tensor:
    """Find the largest value of every window. Each element that equals it gets the full gradient.

    `ties`, which changes that, and `channel_last` are not part of the original popxl.

    Args:
        t: Data of shape (N, C, spatial...) with 1 to 3 spatial axes; float16, bfloat16, float32 or
            float64.
        kernel_size: The size K of the window along each spatial axis.
        stride: The step s between windows along each spatial axis. None: 1.
        padding: The cells (-infinity) added before each spatial axis, then those behind. None: 0.
        out_pads: More cells of the result; only 0 is supported. None: 0.
        dilation: The distance d of the cells of a window along each spatial axis. None: 1.
        in_dilations: The distance of the cells of `t`; only 1 is supported. None: 1.
        auto_pad: `not_set` takes `padding`, `valid` none, and `same_upper` and `same_lower` as many
            cells as make ceil(D / s) windows, an odd one behind or before.
        ceil_mode: Whether the number of windows is rounded up instead of down.
        storage_order: Only `row` is supported.
        ties: Which elements that equal the largest get the gradient: `all`, or the `first` one in C
            order (of NaNs the last one), as in torch.
        channel_last: Whether `t` and the result are (N, spatial..., C).

    Returns:
        A new tensor of shape (N, C, out...) with the dtype of `t`; `average_pool` gives the sizes.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph, or `ties` is another word.
        KeyError: `auto_pad` is another word.
        popart_exception: The lists do not fit the rank of `t`, no window fits, `storage_order` is
            another word, or `out_pads` or `in_dilations` have another value, here or when a session
            is made.
    """
    check_inputs(t=t)
    _check_ties(ties)
    lists = {
        "strides": stride,
        "pads": padding,
        "out_pads": out_pads,
        "dilations": dilation,
        "in_dilations": in_dilations,
    }
    more: dict[str, str | bool] = {"ties": ties, "channel_last": bool(channel_last)}
    attributes = _attributes(kernel_size, lists, auto_pad, ceil_mode, more)
    attributes["storage_order"] = storage_order
    return make("MaxPool", [t], attributes, name="maxpool_out", settings="max_pool")


def adaptive_average_pool(
    t: Tensor, output_size: Sequence[int], *, channel_last: bool = False
) -> Tensor:
    """Compute means of windows that share each spatial axis out evenly to a number of results.

    Result o of n along an axis of size D is the mean of the elements from floor(o * D / n) to
    ceil((o + 1) * D / n) - 1. It is not part of the original popxl.

    Args:
        t: Data of shape (N, C, spatial...) with 1 to 3 spatial axes; float16, bfloat16, float32 or
            float64.
        output_size: The number of results along each spatial axis.
        channel_last: Whether `t` and the result are (N, spatial..., C).

    Returns:
        A new tensor of shape (N, C, output_size...) with the dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: A size is below 1, or there are too many or too few, here or when a
            session is made.
    """
    check_inputs(t=t)
    attributes: dict[str, object] = {
        "output_size": [int(n) for n in output_size],
        "channel_last": bool(channel_last),
    }
    return make(
        "AdaptiveAveragePool",
        [t],
        attributes,
        name="adaptive_averagepool_out",
        settings="adaptive_average_pool",
    )


def adaptive_max_pool(
    t: Tensor, output_size: Sequence[int], *, ties: str = "all", channel_last: bool = False
) -> Tensor:
    """Find the largest values of the windows of `adaptive_average_pool`.

    It is not part of the original popxl.

    Args:
        t: Data of shape (N, C, spatial...) with 1 to 3 spatial axes; float16, bfloat16, float32 or
            float64.
        output_size: The number of results along each spatial axis.
        ties: Which elements that equal the largest get the gradient, as in `max_pool`.
        channel_last: Whether `t` and the result are (N, spatial..., C).

    Returns:
        A new tensor of shape (N, C, output_size...) with the dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph, or `ties` is another word.
        popart_exception: A size is below 1, or there are too many or too few, here or when a
            session is made.
    """
    check_inputs(t=t)
    _check_ties(ties)
    attributes: dict[str, object] = {
        "output_size": [int(n) for n in output_size],
        "ties": ties,
        "channel_last": bool(channel_last),
    }
    return make(
        "AdaptiveMaxPool",
        [t],
        attributes,
        name="adaptive_maxpool_out",
        settings="adaptive_max_pool",
    )
