"""Lowerings of random numbers. Each op draws from a seed of its own (`Call.seed`)."""

from __future__ import annotations

import math
from typing import Any

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops


def uniform(call: Call, low: float = 0.0, high: float = 1.0) -> popxl.Tensor:
    """Numbers of float32 in [low, high), in the shape of the result.

    Args:
        call: The call.
        low: The lower bound.
        high: The upper bound.

    Returns:
        The numbers.
    """
    return ops.random_uniform(call.seed(), call.shape, low, high, popxl.float32)


def gaussian(call: Call, mean: float = 0.0, std: float = 1.0) -> popxl.Tensor:
    """Normally distributed numbers of float32, in the shape of the result.

    Args:
        call: The call.
        mean: Their mean.
        std: Their standard deviation.

    Returns:
        The numbers.
    """
    return ops.random_normal(call.seed(), call.shape, mean, std, popxl.float32)


@lowers("aten::rand", "aten::rand_like")
def rand(call: Call, **_ignored: Any) -> popxl.Tensor:
    """Uniform numbers in [0, 1)."""
    return cast(uniform(call), call.dtype)


@lowers("aten::uniform")
def uniform_(call: Call, self: popxl.Tensor, to: float = 1.0, **bounds: float) -> popxl.Tensor:
    """Uniform numbers in a range."""
    del self
    return cast(uniform(call, bounds.get("from", 0.0), to), call.dtype)


@lowers("aten::randn", "aten::randn_like")
def randn(call: Call, **_ignored: Any) -> popxl.Tensor:
    """Normally distributed numbers."""
    return cast(gaussian(call), call.dtype)


@lowers("aten::normal", "aten::normal_functional")
def normal(
    call: Call,
    self: popxl.Tensor | None = None,
    mean: popxl.Tensor | float = 0.0,
    std: popxl.Tensor | float = 1.0,
    **_ignored: Any,
) -> popxl.Tensor:
    """Normally distributed numbers of given means and deviations."""
    del self
    if not isinstance(mean, popxl.Tensor) and not isinstance(std, popxl.Tensor):
        return cast(gaussian(call, mean, std), call.dtype)
    draws = gaussian(call)
    spread = cast(std, popxl.float32) if isinstance(std, popxl.Tensor) else number(std, draws.dtype)
    base = (
        cast(mean, popxl.float32) if isinstance(mean, popxl.Tensor) else number(mean, draws.dtype)
    )
    return cast(ops.add(ops.mul(draws, spread), base), call.dtype)


@lowers("aten::exponential")
def exponential(call: Call, self: popxl.Tensor, lambd: float = 1.0) -> popxl.Tensor:
    """Exponentially distributed numbers: -log(1 - u) / lambda."""
    del self
    draws = ops.log1p(ops.negate(uniform(call)))
    return cast(ops.mul(draws, number(-1 / lambd, popxl.float32)), call.dtype)


@lowers("aten::bernoulli")
def bernoulli(
    call: Call, self: popxl.Tensor, p: popxl.Tensor | float | None = None
) -> popxl.Tensor:
    """Ones with a probability, zeros otherwise."""
    chance = self if p is None else p
    limit = chance if isinstance(chance, popxl.Tensor) else number(chance, popxl.float32)
    drawn = ops.greater(cast(limit, popxl.float32), uniform(call))
    return cast(drawn, call.dtype)


@lowers("aten::randint", "aten::randint_like", "aten::random")
def randint(
    call: Call,
    self: popxl.Tensor | None = None,
    high: int | None = None,
    low: int = 0,
    to: int | None = None,
    **bounds: Any,
) -> popxl.Tensor:
    """Integers in [low, high), each as likely as the others to one part in 2^24."""
    del self
    first = bounds.get("from") or low
    last = high if high is not None else to
    if last is None:
        last = 2**24 if call.dtype.is_floating_point else 2**31 - 1
    draws = ops.floor(uniform(call, 0.0, float(last - first)))
    top = number(math.nextafter(last - first, 0) // 1, popxl.float32)
    draws = ops.where(ops.greater(draws, top), broadcast_to(top, call.shape), draws)
    return ops.add(cast(draws, call.dtype), number(first, call.dtype))


@lowers("aten::randperm")
def randperm(call: Call, n: int, **_ignored: Any) -> popxl.Tensor:
    """The integers from 0 to n - 1 in random order: the order of random numbers."""
    del n
    return cast(ops.argsort(uniform(call), 0), call.dtype)
