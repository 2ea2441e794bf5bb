"""Lowerings of reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_functions import maximum, minimum, root, truth
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from poptorch._lower.views import with_gradient_of
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
        # Booleans are reduced as numbers.
        t = cast(self, popxl.int32 if call.dtype == popxl.bool else call.dtype)
        axes = axes_of(dim, t.rank)
        return reduction(t, axes, keepdim) if axes else t


_register("sum", ops.sum)
_register("mean", ops.mean)
_register("prod", ops.prod)


def _extreme_of(
    call: Call, t: popxl.Tensor, axes: list[int], keepdim: bool, largest: bool
) -> popxl.Tensor:
    """The extreme elements along axes, of which equal ones share the gradient."""
    reduce = ops.max if largest else ops.min
    if not call.node.from_grad:
        return reduce(t, axes, keepdim)
    value = ops.detach(reduce(t, axes, True))
    equals = ops.equal(t, value)
    count = ops.sum(cast(equals, t.dtype), axes, keepdim)
    mean = ops.div(ops.sum(ops.where(equals, t, number(0, t.dtype)), axes, keepdim), count)
    return with_gradient_of(ops.reshape(value, mean.shape), mean)


@lowers("aten::amax", "aten::amin")
def amax(call: Call, self: popxl.Tensor, dim: Axes = None, keepdim: bool = False) -> popxl.Tensor:
    """The extreme elements along axes."""
    # Booleans are reduced as numbers.
    t = cast(self, popxl.int32 if call.dtype == popxl.bool else call.dtype)
    axes = axes_of(dim, t.rank)
    return _extreme_of(call, t, axes, keepdim, call.node.name == "aten::amax") if axes else t


@lowers("aten::logsumexp")
def logsumexp(
    call: Call, self: popxl.Tensor, dim: Axes = None, keepdim: bool = False
) -> popxl.Tensor:
    """The logarithm of the sum of exponentials."""
    t = cast(self, call.dtype)
    axes = axes_of(dim, t.rank)
    return ops.logsumexp(t, axes, keepdim) if axes else t


@lowers("aten::argmax", "aten::argmin")
def argmax(
    call: Call, self: popxl.Tensor, dim: int | None = None, keepdim: bool = False
) -> popxl.Tensor:
    """Where the largest or smallest element is."""
    if self.rank == 0:
        return popxl.constant(0, popxl.int32)
    find = ops.argmax if call.node.name == "aten::argmax" else ops.argmin
    if dim is None:
        return ops.reshape(find(ops.flatten(self), 0), call.shape)
    return ops.reshape(find(self, dim % self.rank, keepdim), call.shape)


def _extreme_along(
    call: Call, t: popxl.Tensor, dim: int, keepdim: bool, largest: bool
) -> list[popxl.Tensor]:
    """The extreme elements along an axis and where they are."""
    shape = call.shape
    if t.rank == 0:
        return [t, popxl.constant(0, popxl.int32)]
    axis = dim % t.rank
    if call.node.from_grad:
        # The gradient goes to the element that is returned, not to all that equal it.
        values, positions = ops.topk(t, 1, axis, largest, True)
        return [ops.reshape(values, shape), ops.reshape(positions, shape)]
    wide = cast(t, popxl.int32) if t.dtype == popxl.bool else t
    reduce, find = (ops.max, ops.argmax) if largest else (ops.min, ops.argmin)
    return [
        cast(reduce(wide, [axis], keepdim), t.dtype),
        ops.reshape(find(wide, axis), shape),
    ]


@lowers("aten::max", "aten::min")
def extreme(
    call: Call,
    self: popxl.Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    other: popxl.Tensor | None = None,
) -> popxl.Tensor | list[popxl.Tensor]:
    """The extreme elements of a tensor, along an axis, or of two tensors."""
    largest = call.node.name == "aten::max"
    if other is not None:
        return (maximum if largest else minimum)(call, self, other)
    if dim is not None:
        return _extreme_along(call, self, dim, keepdim, largest)
    t = cast(self, popxl.int32) if self.dtype == popxl.bool else self
    if t.rank == 0:
        return self
    return cast(_extreme_of(call, t, list(range(t.rank)), False, largest), self.dtype)


@lowers("aten::all", "aten::any")
def all_(call: Call, self: popxl.Tensor, dim: Axes = None, keepdim: bool = False) -> popxl.Tensor:
    """Whether all or any elements are not zero."""
    wide = cast(truth(self), popxl.int32)
    axes = axes_of(dim, self.rank)
    reduce = ops.min if call.node.name == "aten::all" else ops.max
    return cast(reduce(wide, axes, keepdim) if axes else wide, call.dtype)


@lowers("aten::count_nonzero")
def count_nonzero(call: Call, self: popxl.Tensor, dim: Axes = None) -> popxl.Tensor:
    """How many elements are not zero."""
    wide = cast(truth(self), call.dtype)
    axes = axes_of(dim, self.rank)
    return ops.sum(wide, axes) if axes else wide


@lowers("aten::nansum")
def nansum(
    call: Call, self: popxl.Tensor, dim: Axes = None, keepdim: bool = False, **_dtype: Any
) -> popxl.Tensor:
    """The sum of the elements that are numbers."""
    t = cast(self, call.dtype)
    if self.dtype.is_floating_point:
        t = ops.where(ops.isnan(t), number(0, t.dtype), t)
    axes = axes_of(dim, t.rank)
    return ops.sum(t, axes, keepdim) if axes else t


def moments(
    t: popxl.Tensor, axes: list[int], keepdim: bool, correction: float
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Variance and mean in float32, the variance of differences from the mean.

    Args:
        t: The tensor.
        axes: The axes, not negative.
        keepdim: Whether they stay, with one element.
        correction: What the number of elements is reduced by in the variance.

    Returns:
        The variance and the mean.
    """
    wide = cast(t, popxl.float32)
    count = math.prod(t.shape[axis] for axis in axes)
    mean = ops.mean(wide, axes, True) if axes else wide
    difference = ops.sub(wide, mean)
    square = ops.mul(difference, difference)
    total = ops.sum(square, axes, keepdim) if axes else square
    divisor = count - correction
    scale = 1 / divisor if divisor > 0 else (math.nan if count == 1 else math.inf)
    variance = ops.mul(total, number(scale, popxl.float32))
    if not keepdim and axes:
        kept = [size for i, size in enumerate(t.shape) if i not in axes]
        mean = ops.reshape(mean, kept)
    return variance, mean


@lowers("aten::var", "aten::std", "aten::var_mean", "aten::std_mean", "prims::var")
def variance(
    call: Call,
    self: popxl.Tensor | None = None,
    dim: Axes = None,
    unbiased: bool = True,
    correction: float | None = None,
    keepdim: bool = False,
    inp: popxl.Tensor | None = None,
    dims: Axes = None,
    **_dtype: Any,
) -> list[popxl.Tensor]:
    """Variance or standard deviation, and the mean where it is asked for."""
    t = self if self is not None else inp
    assert t is not None
    if correction is None:
        correction = 1 if unbiased else 0
    spread, mean = moments(t, axes_of(dim if inp is None else dims, t.rank), keepdim, correction)
    if "std" in call.node.name:
        spread = root(spread) if call.node.from_grad else ops.sqrt(spread)
    return [spread, mean][: len(call.outputs)]


@lowers("aten::linalg_vector_norm", "aten::norm", "aten::frobenius_norm")
def vector_norm(
    call: Call,
    self: popxl.Tensor,
    ord: float = 2,
    dim: Axes = None,
    keepdim: bool = False,
    p: float | None = 2,
    **_dtype: Any,
) -> popxl.Tensor:
    """The norm of the elements along axes."""
    power = float(ord if "linalg" in call.node.name else 2 if p is None else p)
    t = cast(self, popxl.float32)
    axes = axes_of(dim, t.rank)
    if not axes:
        t, axes, keepdim = ops.reshape(t, (1,)), [0], False
    if call.node.from_grad and power not in (0, 1) and not math.isinf(power):
        result = _norm_with_gradient(t, power, axes, keepdim)
    elif power == 2:
        result = ops.l2(t, axes, keepdim)
    elif power == 1:
        result = ops.l1(t, axes, keepdim)
    elif math.isinf(power):
        result = _extreme_of(call, ops.abs(t), axes, keepdim, power > 0)
    elif power == 0:
        result = ops.sum(cast(truth(t), popxl.float32), axes, keepdim)
    else:
        powers = ops.pow(ops.abs(t), number(power, popxl.float32))
        total = ops.sum(powers, axes, keepdim)
        result = ops.pow(total, number(1 / power, popxl.float32))
    return cast(result, call.dtype)


def _norm_with_gradient(
    t: popxl.Tensor, power: float, axes: list[int], keepdim: bool
) -> popxl.Tensor:
    """A norm whose gradient is 0, not NaN, where all or some elements are 0."""
    zero, one = number(0, popxl.float32), number(1, popxl.float32)
    # What a zero counts; a sum of the same kind has the norm 0.
    blank = number(0.0 if power > 0 else math.inf, popxl.float32)
    if power == 2:
        powers = ops.mul(t, t)
    else:
        is_zero = ops.equal(t, zero)
        base = ops.abs(ops.where(is_zero, one, t))
        powers = ops.where(is_zero, blank, ops.pow(base, number(power, popxl.float32)))
    total = ops.sum(powers, axes, keepdim)
    is_zero = ops.equal(total, blank)
    base = ops.where(is_zero, one, total)
    root = ops.sqrt(base) if power == 2 else ops.pow(base, number(1 / power, popxl.float32))
    return ops.where(is_zero, zero, root)
