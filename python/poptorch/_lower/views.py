"""How a write through a view reaches the tensor that it is a view of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

import popxl
from poptorch._lower.values import Inverse, Replay
from poptorch._trace.recording import Node
from popxl import ops

FindInverse = Callable[[Node, int], Inverse | None]


def _in_order(node: Node, index: int) -> Inverse:
    """Views that keep the order of elements."""
    del node, index
    return lambda old, new: ops.reshape(new, old.shape)


def _same(node: Node, index: int) -> Inverse:
    del node, index
    return lambda old, new: new


def with_gradient_of(value: popxl.Tensor, before: popxl.Tensor) -> popxl.Tensor:
    """New elements that autodiff takes for old ones, as torch does where it does not see a write.

    Args:
        value: The new elements.
        before: The old ones, of the same shape and dtype.

    Returns:
        The elements of `value`.
    """
    if not value.dtype.is_floating_point:
        return value
    nothing = ops.sub(before, ops.detach(before))
    # The difference of infinities is NaN.
    nothing = ops.where(ops.isfinite(before), nothing, popxl.constant(0, before.dtype))
    return ops.add(ops.detach(value), nothing)


def detached_view(replay: Replay, inverse: Inverse) -> tuple[Replay, Inverse]:
    """How a view follows that needs no gradient, of a tensor that needs one.

    Args:
        replay: Makes the value of the view.
        inverse: Makes that of the tensor, of the view's new one.

    Returns:
        The same, so that autodiff sees neither.
    """
    return (
        lambda base: ops.detach(replay(base)),
        lambda old, new: with_gradient_of(inverse(old, new), old),
    )


def _detached(node: Node, index: int) -> Inverse:
    del node, index
    return lambda old, new: with_gradient_of(new, old)


def _permuted(permutation: Sequence[int]) -> Inverse:
    inverse = [int(i) for i in np.argsort(permutation)]
    return lambda old, new: ops.transpose(new, inverse)


def _permute(node: Node, index: int) -> Inverse:
    del index
    rank = node.arguments["self"].dim()
    return _permuted([axis % rank for axis in node.arguments["dims"]])


def _transpose(node: Node, index: int) -> Inverse:
    del index
    rank = node.arguments["self"].dim()
    order = list(range(rank))
    first, second = (node.arguments[name] % max(rank, 1) for name in ("dim0", "dim1"))
    if rank:
        order[first], order[second] = second, first
    return _permuted(order)


def _reversed_axes(node: Node, index: int) -> Inverse:
    del index
    return _permuted(list(range(node.arguments["self"].dim()))[::-1])


def replace_range(old: popxl.Tensor, new: popxl.Tensor, axis: int, start: int) -> popxl.Tensor:
    """Copy a tensor with a range of one axis replaced.

    Args:
        old: The tensor.
        new: What takes the place of `old[start : start + new.shape[axis]]` along the axis.
        axis: The axis, not negative.
        start: The first replaced position.

    Returns:
        A new tensor of the shape of `old`.
    """
    if new.shape == old.shape:
        return new
    position = popxl.constant(np.array([start], np.uint32))
    return ops.dynamic_update(old, position, new, [axis], [new.shape[axis]], True)


def _select(node: Node, index: int) -> Inverse:
    del index
    base = node.arguments["self"]
    axis = node.arguments["dim"] % base.dim()
    position = node.arguments["index"] % base.shape[axis]

    def inverse(old: popxl.Tensor, new: popxl.Tensor) -> popxl.Tensor:
        row = ops.reshape(new, (*new.shape[:axis], 1, *new.shape[axis:]))
        return replace_range(old, row, axis, position)

    return inverse


def _slice(node: Node, index: int) -> Inverse | None:
    del index
    base = node.arguments["self"]
    axis = node.arguments["dim"] % base.dim()
    start, stop, step = slice(
        node.arguments["start"], node.arguments["end"], node.arguments["step"]
    ).indices(base.shape[axis])
    if step != 1 or stop <= start:
        return None
    return lambda old, new: replace_range(old, new, axis, start)


def _narrow(node: Node, index: int) -> Inverse | None:
    del index
    base, start = node.arguments["self"], node.arguments["start"]
    axis = node.arguments["dim"] % base.dim()
    if not isinstance(start, int):
        return None
    position = start % base.shape[axis]
    return lambda old, new: replace_range(old, new, axis, position)


def _piece(node: Node, index: int) -> Inverse:
    """One of the tensors that an axis was cut into."""
    axis = node.arguments["dim"] % node.arguments["self"].dim()
    ends = list(accumulate(piece.shape[axis] for piece in node.outputs))
    start = ends[index - 1] if index else 0
    return lambda old, new: replace_range(old, new, axis, start)


def _unbound(node: Node, index: int) -> Inverse:
    axis = node.arguments["dim"] % node.arguments["self"].dim()

    def inverse(old: popxl.Tensor, new: popxl.Tensor) -> popxl.Tensor:
        row = ops.reshape(new, (*new.shape[:axis], 1, *new.shape[axis:]))
        return replace_range(old, row, axis, index)

    return inverse


_IN_ORDER = [
    "view",
    "reshape",
    "_unsafe_view",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "view_as",
    "reshape_as",
    "_reshape_alias",
    "ravel",
    "contiguous",
]
_SAME = ["alias", "to", "type_as", "dropout", "_to_copy", "lift_fresh"]

# Views that are not here are written by position: right for every view, and slower.
INVERSES: dict[str, FindInverse] = {
    **{f"aten::{name}": _in_order for name in _IN_ORDER},
    **{f"aten::{name}": _same for name in _SAME},
    **{
        f"aten::{prefix}{name}": _piece
        for name in ("split", "split_with_sizes", "chunk")
        for prefix in ("", "unsafe_")
    },
    "aten::detach": _detached,
    "aten::permute": _permute,
    "aten::transpose": _transpose,
    "aten::t": _reversed_axes,
    "aten::numpy_T": _reversed_axes,
    "aten::select": _select,
    "aten::slice": _slice,
    "aten::narrow": _narrow,
    "aten::unbind": _unbound,
}
