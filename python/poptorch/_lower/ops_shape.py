"""Lowerings of operators that move elements, and of those that make tensors of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import popxl
from poptorch._lower.dtypes import host_array
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_pointwise import Operand, operand
from poptorch._lower.registry import lowers
from popxl import ops
from popxl.ops.utils import make


@lowers(
    "aten::view",
    "aten::reshape",
    "aten::_unsafe_view",
    "aten::flatten",
    "aten::unflatten",
    "aten::squeeze",
    "aten::unsqueeze",
    "aten::view_as",
    "aten::reshape_as",
    "aten::_reshape_alias",
    "aten::ravel",
)
def reshape(call: Call, self: popxl.Tensor, **_ignored: Any) -> popxl.Tensor:
    """The elements in order, in the shape of the result."""
    if isinstance(_ignored.get("dtype"), type(call.outputs[0].dtype)):
        raise NotImplementedError(f"{call.node.name} as another dtype at {call.node.location}")
    return self if self.shape == call.shape else ops.reshape(self, call.shape)


@lowers("aten::permute")
def permute(call: Call, self: popxl.Tensor, dims: Sequence[int]) -> popxl.Tensor:
    """Axes in another order."""
    del call
    return ops.transpose(self, [axis % max(self.rank, 1) for axis in dims])


@lowers("aten::swapaxes")
def swap_axes(call: Call, self: popxl.Tensor, axis0: int, axis1: int) -> popxl.Tensor:
    """Two axes exchanged."""
    return transpose(call, self, axis0, axis1)


@lowers("aten::transpose", "aten::swapdims")
def transpose(call: Call, self: popxl.Tensor, dim0: int, dim1: int) -> popxl.Tensor:
    """Two axes exchanged."""
    del call
    if self.rank == 0:
        return self
    order = list(range(self.rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return ops.transpose(self, order)


@lowers("aten::t", "aten::numpy_T", "aten::matrix_H", "aten::mT")
def matrix_transpose(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """All axes reversed; of batches of matrices, the last two."""
    if self.rank < 2:
        return self
    order = list(range(self.rank))
    if call.node.name == "aten::mT":
        order[-2:] = order[-1], order[-2]
    else:
        order = order[::-1]
    return ops.transpose(self, order)


@lowers("aten::expand", "aten::expand_as", "aten::broadcast_to")
def expand(call: Call, self: popxl.Tensor, **_ignored: Any) -> popxl.Tensor:
    """Axes of one element repeated."""
    return broadcast_to(self, call.shape)


def take_range(t: popxl.Tensor, axis: int, start: int, stop: int, step: int = 1) -> popxl.Tensor:
    """A range of one axis.

    Args:
        t: The tensor.
        axis: The axis, not negative.
        start: The first position, not negative.
        stop: The position after the last one, -1 below the first.
        step: The distance of positions; negative to go down from `start`.

    Returns:
        A new tensor, or `t` where the range is all of the axis.
    """
    size = t.shape[axis]
    if (start, stop, step) == (0, size, 1):
        return t
    starts, steps, counts = [0] * t.rank, [1] * t.rank, list(t.shape)
    starts[axis], steps[axis], counts[axis] = start, step, len(range(start, stop, step))
    attributes: dict[str, object] = {"starts": starts, "steps": steps, "counts": counts}
    return make("Slice", [t], attributes, name="slice_out", settings="slice")


@lowers("aten::slice")
def slice_(
    call: Call,
    self: popxl.Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> popxl.Tensor:
    """A range of one axis."""
    del call
    axis = dim % self.rank
    first, last, stride = slice(start, end, step).indices(self.shape[axis])
    return take_range(self, axis, first, last, stride)


@lowers("aten::select")
def select(call: Call, self: popxl.Tensor, dim: int, index: int) -> popxl.Tensor:
    """One position of an axis, which is taken away."""
    axis = dim % self.rank
    position = index % self.shape[axis]
    return ops.reshape(take_range(self, axis, position, position + 1), call.shape)


@lowers("aten::narrow")
def narrow(
    call: Call, self: popxl.Tensor, dim: int, start: int | popxl.Tensor, length: int
) -> popxl.Tensor:
    """A range of one axis, whose start may be known at run time only."""
    del call
    axis = dim % self.rank
    if isinstance(start, popxl.Tensor):
        size = operand(self.shape[axis], popxl.int32)
        begin = cast(ops.reshape(start, (1,)), popxl.int32)
        begin = ops.where(ops.greater(operand(0, popxl.int32), begin), ops.add(begin, size), begin)
        steps = popxl.constant(np.arange(length, dtype=np.int32), popxl.int32)
        return ops.gather(self, ops.add(begin, steps), axis)
    first = start % self.shape[axis] if length else 0
    return take_range(self, axis, first, first + length)


@lowers(
    "aten::split",
    "aten::split_with_sizes",
    "aten::chunk",
    "aten::tensor_split",
    # Cells of recurrent networks write to the pieces of these.
    "aten::unsafe_split",
    "aten::unsafe_split_with_sizes",
    "aten::unsafe_chunk",
)
def split(call: Call, self: popxl.Tensor, dim: int = 0, **_sizes: Any) -> list[popxl.Tensor]:
    """An axis cut into ranges."""
    sizes = [piece.shape[dim] for piece in call.outputs]
    return [self] if len(sizes) == 1 else ops.split(self, sizes, dim % self.rank)


@lowers("aten::unbind")
def unbind(call: Call, self: popxl.Tensor, dim: int = 0) -> list[popxl.Tensor]:
    """Each position of an axis."""
    axis = dim % self.rank
    pieces = ops.split(self, self.shape[axis], axis) if self.shape[axis] > 1 else [self]
    return [ops.reshape(piece, call.shape) for piece in pieces]


@lowers("aten::cat", "aten::concat", "aten::concatenate")
def cat(call: Call, tensors: Sequence[popxl.Tensor | None], dim: int = 0) -> popxl.Tensor:
    """Tensors in a row along an axis; None stands for one without elements."""
    parts = [cast(t, call.dtype) for t in tensors if t is not None]
    return parts[0] if len(parts) == 1 else ops.concat(parts, dim % len(call.shape))


@lowers("aten::block_diag")
def block_diag(call: Call, tensors: Sequence[popxl.Tensor]) -> popxl.Tensor:
    """Matrices along the diagonal, zeros elsewhere."""
    rows, before = [], 0
    for t in tensors:
        matrix = ops.reshape(cast(t, call.dtype), (1,) * (2 - t.rank) + t.shape)
        height, width = matrix.shape
        zeros_beside = [
            broadcast_to(operand(0, call.dtype), (height, size))
            for size in (before, call.shape[1] - before - width)
        ]
        row = [zeros_beside[0], matrix, zeros_beside[1]]
        rows.append(ops.concat([part for part in row if part.shape[1]], 1))
        before += width
    return rows[0] if len(rows) == 1 else ops.concat(rows, 0)


@lowers("aten::stack")
def stack(call: Call, tensors: Sequence[popxl.Tensor], dim: int = 0) -> popxl.Tensor:
    """Tensors in a row along a new axis."""
    axis = dim % len(call.shape)
    shape = [1 if i == axis else size for i, size in enumerate(call.shape)]
    parts = [ops.reshape(cast(t, call.dtype), shape) for t in tensors]
    return parts[0] if len(parts) == 1 else ops.concat(parts, axis)


def filled(call: Call, value: Operand) -> popxl.Tensor:
    """A tensor of the shape of the result with one value everywhere.

    Args:
        call: The call.
        value: The value.

    Returns:
        The tensor.
    """
    return broadcast_to(operand(value, call.dtype), call.shape)


@lowers(
    "aten::zeros",
    "aten::zeros_like",
    "aten::new_zeros",
    "aten::empty",
    "aten::empty_like",
    "aten::new_empty",
    "aten::zero",
    "aten::empty_strided",
    "aten::new_empty_strided",
    "aten::empty_permuted",
)
def zeros(call: Call, **_ignored: Any) -> popxl.Tensor:
    """Zeros. Tensors without values have them too."""
    return filled(call, 0)


@lowers("aten::ones", "aten::ones_like", "aten::new_ones")
def ones(call: Call, **_ignored: Any) -> popxl.Tensor:
    """Ones."""
    return filled(call, 1)


@lowers("aten::full", "aten::full_like", "aten::new_full")
def full(call: Call, fill_value: Operand, **_ignored: Any) -> popxl.Tensor:
    """One value everywhere."""
    return filled(call, fill_value)


@lowers("aten::fill")
def fill(call: Call, self: popxl.Tensor, value: Operand) -> popxl.Tensor:
    """One value everywhere."""
    del self
    return filled(call, value)


@lowers("aten::scalar_tensor")
def scalar_tensor(call: Call, s: float, **_ignored: Any) -> popxl.Tensor:
    """A number."""
    return filled(call, s)


@lowers("aten::arange")
def arange(
    call: Call, end: float, start: float = 0, step: float = 1, **_ignored: Any
) -> popxl.Tensor:
    """Numbers at equal distances."""
    values = torch.arange(start, end, step, dtype=call.outputs[0].dtype)
    return popxl.constant(host_array(values), call.dtype)


def _evenly_spaced(call: Call, start: Operand, end: Operand, steps: int) -> popxl.Tensor:
    """Numbers at equal distances between two, counted from the nearer end, as torch does."""
    dtype = popxl.float32
    first, last = (cast(operand(value, call.dtype), dtype) for value in (start, end))
    numbers = np.arange(steps, dtype=np.float32)
    step = ops.div(ops.sub(last, first), operand(max(steps - 1, 1), dtype))
    up = ops.add(first, ops.mul(step, popxl.constant(numbers, dtype)))
    down = ops.sub(last, ops.mul(step, popxl.constant(steps - 1 - numbers, dtype)))
    return ops.where(popxl.constant(numbers < steps / 2, popxl.bool), up, down)


@lowers("aten::linspace")
def linspace(call: Call, start: Operand, end: Operand, steps: int, **_ignored: Any) -> popxl.Tensor:
    """Numbers at equal distances between two."""
    if isinstance(start, popxl.Tensor) or isinstance(end, popxl.Tensor):
        return _evenly_spaced(call, start, end, steps)
    values = torch.linspace(start, end, steps, dtype=call.outputs[0].dtype)
    return popxl.constant(host_array(values), call.dtype)


@lowers("aten::logspace")
def logspace(
    call: Call, start: Operand, end: Operand, steps: int, base: float = 10.0, **_ignored: Any
) -> popxl.Tensor:
    """Powers of a base whose exponents are at equal distances between two numbers."""
    if isinstance(start, popxl.Tensor) or isinstance(end, popxl.Tensor):
        exponents = _evenly_spaced(call, start, end, steps)
        return ops.pow(operand(base, popxl.float32), exponents)
    values = torch.logspace(start, end, steps, base, dtype=call.outputs[0].dtype)
    return popxl.constant(host_array(values), call.dtype)
