"""Lowerings of pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_conv import compute_dtype, per_axis, with_batch
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops

Window = int | Sequence[int]


def _axes(call: Call) -> int:
    """The number of spatial axes, which the name of the operator says."""
    return int(call.node.name.partition("pool")[2][0])


def _result(call: Call, t: popxl.Tensor) -> popxl.Tensor:
    axes = _axes(call)
    sizes = call.shape[-axes:]
    if t.shape[2:] != sizes:
        # Torch drops windows that lie in the padding behind alone, which `ceil_mode` may add.
        t = ops.slice(t, [0] * axes, list(sizes), [1] * axes, list(range(2, 2 + axes)))
    return cast(t if t.shape == call.shape else ops.reshape(t, call.shape), call.dtype)


@lowers("aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d")
def max_pool(
    call: Call,
    self: popxl.Tensor,
    kernel_size: Window,
    stride: Window = (),
    padding: Window = 0,
    dilation: Window = 1,
    ceil_mode: bool = False,
) -> popxl.Tensor:
    """The largest element of each window; of equal ones the first gets the gradient."""
    axes = _axes(call)
    kernel = per_axis(kernel_size, axes, 1)
    result = ops.max_pool(
        cast(with_batch(self, axes), compute_dtype(call.dtype)),
        kernel,
        stride=per_axis(stride or kernel, axes),
        padding=per_axis(padding, axes) * 2,
        dilation=per_axis(dilation, axes, 1),
        ceil_mode=ceil_mode,
        ties="first",
    )
    return _result(call, result)


@lowers("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d")
def average_pool(
    call: Call,
    self: popxl.Tensor,
    kernel_size: Window,
    stride: Window = (),
    padding: Window = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> popxl.Tensor:
    """The mean of each window, or its sum over a given number."""
    axes = _axes(call)
    kernel = per_axis(kernel_size, axes, 1)
    steps, pads = per_axis(stride or kernel, axes), per_axis(padding, axes)
    t = cast(with_batch(self, axes), compute_dtype(call.dtype))
    if divisor_override is not None:
        # Windows of a padded tensor are all whole, but for those that `ceil_mode` adds.
        ends = [
            max(0, (out - 1) * s + k - (size + 2 * p))
            for out, s, k, size, p in zip(
                call.shape[-axes:], steps, kernel, t.shape[2:], pads, strict=True
            )
        ]
        around = [(p, p + end) for p, end in zip(pads, ends, strict=True)]
        t = ops.pad(t, [(0, 0), (0, 0), *around])
        means = ops.average_pool(t, kernel, stride=steps)
        factor = _product(kernel) / divisor_override
        return _result(call, ops.mul(means, number(factor, means.dtype)))
    result = ops.average_pool(
        t,
        kernel,
        stride=steps,
        padding=pads * 2,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )
    return _result(call, result)


def _product(sizes: Sequence[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


@lowers(
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d",
    "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool3d",
)
def adaptive_average_pool(call: Call, self: popxl.Tensor, output_size: Window) -> popxl.Tensor:
    """Means of windows that share each spatial axis out evenly."""
    del output_size
    axes = _axes(call)
    t = cast(with_batch(self, axes), call.dtype)
    sizes = call.shape[-axes:]
    if all(size == 1 for size in sizes):
        return _result(call, ops.mean(t, list(range(2, t.rank)), True))
    return _result(call, ops.adaptive_average_pool(t, sizes))


def _even_windows(size: int, count: int) -> list[list[int]]:
    """The positions of each window of an axis that is shared out evenly."""
    return [
        list(range(o * size // count, ((o + 1) * size + count - 1) // count)) for o in range(count)
    ]


def _positions_of_largest(
    t: popxl.Tensor, windows: Sequence[Sequence[Sequence[int]]]
) -> popxl.Tensor:
    """Where the largest element of each window is, counted in C order over the spatial axes.

    Only programs that use indices run this: what nobody reads is not compiled.

    Args:
        t: The tensor (N, C, spatial...).
        windows: For each spatial axis the positions of each window.

    Returns:
        The int32 positions (N, C, windows...).
    """
    sizes = t.shape[2:]
    cells = np.zeros((1, 1), np.int64)
    for size, axis in zip(sizes, windows, strict=True):
        longest = max(map(len, axis))
        # Short windows repeat a cell: the first of equal ones is found.
        table = np.array([list(w) + [w[0]] * (longest - len(w)) for w in axis])
        grid = cells[:, None, :, None] * size + table[None, :, None, :]
        cells = grid.reshape(cells.shape[0] * len(axis), cells.shape[1] * longest)
    count, longest = cells.shape
    flat = ops.reshape(t, (t.shape[0] * t.shape[1], _product(sizes)))
    gathered = ops.gather(flat, popxl.constant(cells.reshape(-1).astype(np.int32)), 1)
    best = ops.argmax(ops.reshape(gathered, (flat.shape[0], count, longest)), 2)
    first = np.arange(count, dtype=np.int32) * longest
    numbers = ops.add(cast(best, popxl.int32), popxl.constant(first, popxl.int32))
    found = ops.gather(popxl.constant(cells.reshape(-1).astype(np.int32)), numbers, 0)
    return ops.reshape(found, (*t.shape[:2], *(len(axis) for axis in windows)))


@lowers(
    "aten::max_pool1d_with_indices",
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
)
def max_pool_with_indices(
    call: Call,
    self: popxl.Tensor,
    kernel_size: Window,
    stride: Window = (),
    padding: Window = 0,
    dilation: Window = 1,
    ceil_mode: bool = False,
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The largest element of each window, and where it is."""
    axes = _axes(call)
    kernel = per_axis(kernel_size, axes, 1)
    values = max_pool(call, self, kernel, stride, padding, dilation, ceil_mode)
    t = with_batch(self, axes)
    settings = zip(
        t.shape[2:],
        call.shape[-axes:],
        kernel,
        per_axis(stride or kernel, axes),
        per_axis(padding, axes),
        per_axis(dilation, axes, 1),
        strict=True,
    )
    windows = [
        [
            [p for p in range(o * s - pad, o * s - pad + d * k, d) if 0 <= p < size]
            for o in range(count)
        ]
        for size, count, k, s, pad, d in settings
    ]
    return values, ops.reshape(_positions_of_largest(t, windows), call.shape)


@lowers("aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(
    call: Call, self: popxl.Tensor, output_size: Window
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The largest elements of windows that share each spatial axis out evenly, and where."""
    del output_size
    axes = _axes(call)
    t = cast(with_batch(self, axes), call.dtype)
    sizes = call.shape[-axes:]
    values = ops.adaptive_max_pool(t, sizes, ties="first")
    windows = [_even_windows(size, n) for size, n in zip(t.shape[2:], sizes, strict=True)]
    return _result(call, values), ops.reshape(_positions_of_largest(t, windows), call.shape)
