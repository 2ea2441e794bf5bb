"""Lowerings of padding, and of windows as columns."""

from __future__ import annotations

from collections.abc import Sequence

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_conv import per_axis, with_batch
from poptorch._lower.ops_shape import take_range
from poptorch._lower.registry import lowers
from popxl import ops


def _pairs(pad: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """The padding of each axis; torch names the last axis first."""
    given = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (rank - len(given)) + given[::-1]


def _without(t: popxl.Tensor, pairs: Sequence[tuple[int, int]]) -> popxl.Tensor:
    """Elements left away where padding is negative."""
    for axis, (before, after) in enumerate(pairs):
        start, stop = max(0, -before), t.shape[axis] - max(0, -after)
        t = take_range(t, axis, start, stop)
    return t


@lowers("aten::constant_pad_nd")
def constant_pad(
    call: Call, self: popxl.Tensor, pad: Sequence[int], value: float = 0
) -> popxl.Tensor:
    """A number around a tensor."""
    pairs = _pairs(pad, self.rank)
    t = cast(_without(self, pairs), call.dtype)
    added = [(max(0, before), max(0, after)) for before, after in pairs]
    if not any(before or after for before, after in added):
        return t
    return ops.pad(t, added, "constant", float(value))


@lowers("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d")
def reflection_pad(call: Call, self: popxl.Tensor, padding: Sequence[int]) -> popxl.Tensor:
    """The elements next to the edges around a tensor, in reverse."""
    del call
    return _repeated(self, padding, "reflect")


@lowers("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d")
def replication_pad(call: Call, self: popxl.Tensor, padding: Sequence[int]) -> popxl.Tensor:
    """The edges around a tensor."""
    del call
    return _repeated(self, padding, "edge")


def _repeated(t: popxl.Tensor, padding: Sequence[int], mode: str) -> popxl.Tensor:
    pairs = _pairs(padding, t.rank)
    added = [(max(0, before), max(0, after)) for before, after in pairs]
    # Torch repeats elements of the whole tensor, and leaves away afterwards.
    return _without(ops.pad(t, added, mode), pairs)


@lowers("aten::_pad_circular")
def circular_pad(call: Call, self: popxl.Tensor, pad: Sequence[int]) -> popxl.Tensor:
    """The elements of the other end around a tensor."""
    del call
    pairs = _pairs(pad, self.rank)
    t = _without(self, pairs)
    for axis, (before, after) in enumerate(pairs):
        size = t.shape[axis]
        parts = [take_range(t, axis, size - before, size)] if before > 0 else []
        parts.append(t)
        if after > 0:
            parts.append(take_range(t, axis, 0, after))
        t = ops.concat(parts, axis) if len(parts) > 1 else t
    return t


@lowers("aten::im2col")
def im2col(
    call: Call,
    self: popxl.Tensor,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> popxl.Tensor:
    """A column of the elements of each window."""
    columns = ops.unfold(
        with_batch(self, 2),
        per_axis(kernel_size, 2),
        stride=per_axis(stride, 2),
        padding=per_axis(padding, 2),
        dilation=per_axis(dilation, 2),
    )
    return columns if columns.shape == call.shape else ops.reshape(columns, call.shape)


@lowers("aten::col2im")
def col2im(
    call: Call,
    self: popxl.Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> popxl.Tensor:
    """Sums of columns where `im2col` takes them from."""
    image = ops.fold(
        self if self.rank == 3 else ops.reshape(self, (1, *self.shape)),
        list(output_size),
        per_axis(kernel_size, 2),
        stride=per_axis(stride, 2),
        padding=per_axis(padding, 2),
        dilation=per_axis(dilation, 2),
    )
    return image if image.shape == call.shape else ops.reshape(image, call.shape)
