"""Lowerings of reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.registry import lowers
from popxl import ops

Axes = Sequence[int] | int | None


def axes_of(dim: Axes, rank: int) -> list[int]:
    """The axes that an argument names.

    Args:
        dim: An axis, several, or none of them for all.
        rank: The number of axes of the tensor.

    Returns:
        The axes, not negative.
    """
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(rank))
    axes = [dim] if isinstance(dim, int) else list(dim)
    return [axis % rank for axis in axes] if rank else []


Reduction = Callable[..., popxl.Tensor]


def _register(name: str, reduction: Reduction) -> None:
    @lowers(f"aten::{name}")
    def lower(
        call: Call, self: popxl.Tensor, dim: Axes = None, keepdim: bool = False, **_dtype: Any
    ) -> popxl.Tensor:
        t = cast(self, call.dtype)
        axes = axes_of(dim, t.rank)
        return reduction(t, axes, keepdim) if axes else t


_register("sum", ops.sum)
_register("mean", ops.mean)
_register("prod", ops.prod)
_register("amax", ops.max)
_register("amin", ops.min)


@lowers("aten::logsumexp")
def logsumexp(
    call: Call, self: popxl.Tensor, dim: Axes = None, keepdim: bool = False
) -> popxl.Tensor:
    """The logarithm of the sum of exponentials."""
    t = cast(self, call.dtype)
    axes = axes_of(dim, t.rank)
    return ops.logsumexp(t, axes, keepdim) if axes else t


@lowers("aten::softmax", "aten::_softmax")
def softmax(call: Call, self: popxl.Tensor, dim: int, **_ignored: Any) -> popxl.Tensor:
    """Exponentials over their sum."""
    return ops.softmax(cast(self, call.dtype), dim % max(self.rank, 1))


@lowers("aten::log_softmax", "aten::_log_softmax")
def log_softmax(call: Call, self: popxl.Tensor, dim: int, **_ignored: Any) -> popxl.Tensor:
    """The logarithm of the softmax."""
    t = cast(self, call.dtype)
    return ops.sub(t, ops.logsumexp(t, [dim % max(t.rank, 1)], True))


@lowers("aten::argmax", "aten::argmin")
def argmax(
    call: Call, self: popxl.Tensor, dim: int | None = None, keepdim: bool = False
) -> popxl.Tensor:
    """Where the largest or smallest element is."""
    find = ops.argmax if call.node.name == "aten::argmax" else ops.argmin
    if dim is None:
        return ops.reshape(find(ops.flatten(self), 0), call.shape)
    return ops.reshape(find(self, dim % max(self.rank, 1), keepdim), call.shape)
