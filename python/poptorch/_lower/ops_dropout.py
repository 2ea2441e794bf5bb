"""Lowerings of dropout: device random ops, each with a seed of its own."""

from __future__ import annotations

from math import sqrt

import numpy as np

import popxl
from poptorch._lower.lowering import Call, broadcast_to
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops

# The value that a SELU has far on the negative side.
_SELU_FLOOR = -1.7580993408473766


def _zeros(t: popxl.Tensor) -> popxl.Tensor:
    # Times 0: the gradient exists and is 0, as in torch.
    return ops.mul(t, number(0, t.dtype))


def _argument(given: dict[str, popxl.Tensor]) -> popxl.Tensor:
    """The tensor, which in-place forms call `self` and the others `input`."""
    (tensor,) = given.values()
    return tensor


@lowers("aten::dropout")
def dropout(call: Call, p: float, train: bool, **given: popxl.Tensor) -> popxl.Tensor:
    """Elements set to 0 with probability p; the others are divided by 1 - p."""
    input = _argument(given)
    if not train or p == 0:
        return input
    return _zeros(input) if p == 1 else ops.dropout(input, call.seed(), p)


def _feature_shape(t: popxl.Tensor) -> tuple[int, ...]:
    return (*t.shape[:2], *[1] * (t.rank - 2))


@lowers("aten::feature_dropout")
def feature_dropout(call: Call, p: float, train: bool, **given: popxl.Tensor) -> popxl.Tensor:
    """Whole channels set to 0 with probability p; the others are divided by 1 - p."""
    input = _argument(given)
    if not train or p == 0:
        return input
    if p == 1:
        return _zeros(input)
    return ops.shaped_dropout(input, call.seed(), _feature_shape(input), p)


@lowers("aten::native_dropout")
def native_dropout(
    call: Call, input: popxl.Tensor, p: float, train: bool | None
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Dropout that also gives the mask of what it keeps."""
    if train is False or p == 0:
        kept = popxl.constant(np.ones(input.shape, np.bool_), popxl.bool)
        return input, kept
    if p == 1:
        return _zeros(input), popxl.constant(np.zeros(input.shape, np.bool_), popxl.bool)
    mask = _kept(call, input.shape, p)
    scaled = ops.mul(input, number(1 / (1 - p), input.dtype))
    return ops.where(mask, scaled, number(0, input.dtype)), mask


def _kept(call: Call, shape: tuple[int, ...], p: float) -> popxl.Tensor:
    """A mask that holds with probability 1 - p."""
    numbers = ops.random_uniform(call.seed(), shape, 0.0, 1.0, popxl.float32)
    return ops.logical_not(ops.greater(number(p, popxl.float32), numbers))


def _alpha(call: Call, t: popxl.Tensor, shape: tuple[int, ...], p: float) -> popxl.Tensor:
    """Set elements to the floor of SELU, then scale and shift: mean and variance stay."""
    if p == 1:
        return _zeros(t)
    scale = 1 / sqrt((1 - p) * (1 + p * _SELU_FLOOR**2))
    shift = -scale * p * _SELU_FLOOR
    mask = broadcast_to(_kept(call, shape, p), t.shape)
    chosen = ops.where(mask, t, number(_SELU_FLOOR, t.dtype))
    return ops.add(ops.mul(chosen, number(scale, t.dtype)), number(shift, t.dtype))


@lowers("aten::alpha_dropout")
def alpha_dropout(call: Call, p: float, train: bool, **given: popxl.Tensor) -> popxl.Tensor:
    """Dropout that keeps mean and variance of SELU networks."""
    input = _argument(given)
    return input if not train or p == 0 else _alpha(call, input, input.shape, p)


@lowers("aten::feature_alpha_dropout")
def feature_alpha_dropout(call: Call, p: float, train: bool, **given: popxl.Tensor) -> popxl.Tensor:
    """The same for whole channels."""
    input = _argument(given)
    return input if not train or p == 0 else _alpha(call, input, _feature_shape(input), p)
