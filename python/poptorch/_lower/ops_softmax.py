"""Lowerings of the softmax family."""

from __future__ import annotations

from typing import Any

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops


def softmax_along(t: popxl.Tensor, axis: int) -> popxl.Tensor:
    """Exponentials over their sum along one axis.

    Args:
        t: A tensor of floats.
        axis: The axis, not negative.

    Returns:
        A tensor of the same shape and element type.
    """
    if t.rank == 0:
        return ops.exp(ops.sub(t, t))
    if axis == t.rank - 1:
        return ops.softmax(t, axis)
    # The rows of `ops.softmax` go over all axes from one on.
    behind = [i for i in range(t.rank) if i != axis] + [axis]
    back = [behind.index(i) for i in range(t.rank)]
    return ops.transpose(ops.softmax(ops.transpose(t, behind), t.rank - 1), back)


@lowers("aten::softmax", "aten::_softmax")
def softmax(call: Call, self: popxl.Tensor, dim: int, **_ignored: Any) -> popxl.Tensor:
    """Exponentials over their sum."""
    return softmax_along(cast(self, call.dtype), dim % max(self.rank, 1))


@lowers("aten::_safe_softmax")
def safe_softmax(call: Call, self: popxl.Tensor, dim: int, **_ignored: Any) -> popxl.Tensor:
    """The softmax, and 0 in rows of -infinity alone."""
    axis = dim % max(self.rank, 1)
    t = cast(self, call.dtype)
    lowest = number(float("-inf"), t.dtype)
    axes = [axis] if t.rank else []
    largest = ops.max(t, axes, True) if axes else t
    empty = broadcast_to(ops.equal(ops.detach(largest), lowest), t.shape)
    zero = number(0, t.dtype)
    return ops.where(empty, zero, softmax_along(ops.where(empty, zero, t), axis))


@lowers("aten::log_softmax", "aten::_log_softmax")
def log_softmax(call: Call, self: popxl.Tensor, dim: int, **_ignored: Any) -> popxl.Tensor:
    """The logarithm of the softmax."""
    t = cast(self, popxl.float32)
    if t.rank == 0:
        return cast(ops.sub(t, t), call.dtype)
    return cast(ops.sub(t, ops.logsumexp(t, [dim % t.rank], True)), call.dtype)
