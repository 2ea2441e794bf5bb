"""Lowerings of distances, of losses of them, and of bilinear forms."""

from __future__ import annotations

import math

import numpy as np

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_activation import scaled, shifted
from poptorch._lower.ops_functions import root
from poptorch._lower.ops_linear import product
from poptorch._lower.ops_loss import MEAN, at_least_zero, finish, wide
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops

# Torch computes more distances than these by a matrix product.
_BY_PRODUCT_FROM = 25


def norm_of(t: popxl.Tensor, p: float, axis: int, keep: bool = False) -> popxl.Tensor:
    """The p-norm along one axis; where it is 0, so is the gradient.

    Args:
        t: A float32 tensor.
        p: The order, from 0 to infinity.
        axis: The axis, not negative.
        keep: Whether the axis stays, with one element.

    Returns:
        The norms.
    """
    if p == 2:
        return root(ops.sum(ops.mul(t, t), [axis], keep))
    size = ops.abs(t)
    if p == 1:
        return ops.sum(size, [axis], keep)
    if p == math.inf:
        return ops.max(size, [axis], keep)
    zero, one = number(0, t.dtype), number(1, t.dtype)
    nothing = ops.equal(size, zero)
    if p == 0:
        # The gradient is 0, but there is one.
        counts = ops.add(ops.where(nothing, zero, one), scaled(t, 0))
        return ops.sum(counts, [axis], keep)
    powers = ops.where(nothing, zero, ops.pow(ops.where(nothing, one, size), number(p, t.dtype)))
    total = ops.sum(powers, [axis], keep)
    empty = ops.equal(total, zero)
    safe = ops.where(empty, one, total)
    return ops.where(empty, zero, ops.pow(safe, number(1 / p, t.dtype)))


def _pairwise(a: popxl.Tensor, b: popxl.Tensor, p: float, eps: float) -> popxl.Tensor:
    difference = shifted(ops.sub(a, b), eps)
    if not difference.rank:
        difference = ops.reshape(difference, (1,))
    return norm_of(difference, p, difference.rank - 1)


@lowers("aten::pairwise_distance")
def pairwise_distance(
    call: Call,
    x1: popxl.Tensor,
    x2: popxl.Tensor,
    p: float = 2.0,
    eps: float = 1e-6,
    keepdim: bool = False,
) -> popxl.Tensor:
    """The norm of differences along the last axis."""
    del keepdim  # the shape of the result says it
    a, b = wide(x1, x2)
    return cast(ops.reshape(_pairwise(a, b, p, eps), call.shape), call.dtype)


def _by_product(a: popxl.Tensor, b: popxl.Tensor) -> popxl.Tensor:
    """Euclidean distances of all rows of two matrices from one product."""
    last = a.rank - 1
    squares_a = ops.sum(ops.mul(a, a), [last], True)
    squares_b = ops.reshape(ops.sum(ops.mul(b, b), [last]), (*b.shape[:-2], 1, b.shape[-2]))
    order = [*range(b.rank - 2), b.rank - 1, b.rank - 2]
    products = ops.matmul(a, ops.transpose(b, order))
    return root(at_least_zero(ops.sub(ops.add(squares_a, squares_b), scaled(products, 2))))


@lowers("aten::cdist")
def cdist(
    call: Call,
    x1: popxl.Tensor,
    x2: popxl.Tensor,
    p: float = 2.0,
    compute_mode: int | None = None,
) -> popxl.Tensor:
    """Distances of all rows of one matrix to all of another."""
    batch = call.shape[:-2]
    a, b = (broadcast_to(t, (*batch, *t.shape[-2:])) for t in wide(x1, x2))
    many = a.shape[-2] > _BY_PRODUCT_FROM or b.shape[-2] > _BY_PRODUCT_FROM
    # 1: use the product whatever the size; 2: never.
    if p == 2 and (compute_mode == 1 or (many and compute_mode != 2)):
        return cast(_by_product(a, b), call.dtype)
    rows = ops.reshape(a, (*batch, a.shape[-2], 1, a.shape[-1]))
    columns = ops.reshape(b, (*batch, 1, *b.shape[-2:]))
    return cast(_pairwise(rows, columns, p, 0.0), call.dtype)


@lowers("aten::pdist")
def pdist(call: Call, self: popxl.Tensor, p: float = 2.0) -> popxl.Tensor:
    """Distances of all pairs of rows of a matrix."""
    first, second = np.triu_indices(self.shape[0], 1)
    if not first.size:
        return popxl.constant(np.zeros(call.shape), call.dtype)
    (t,) = wide(self)
    a, b = (
        ops.gather(t, popxl.constant(rows.astype(np.int32), popxl.int32), 0)
        for rows in (first, second)
    )
    return cast(_pairwise(a, b, p, 0.0), call.dtype)


@lowers("aten::triplet_margin_loss")
def triplet_margin_loss(
    call: Call,
    anchor: popxl.Tensor,
    positive: popxl.Tensor,
    negative: popxl.Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = MEAN,
) -> popxl.Tensor:
    """How much farther, with a margin, the positive sample is than the negative one."""
    a, near, far = wide(anchor, positive, negative)
    of_negative = _pairwise(a, far, p, eps)
    if swap:
        other = _pairwise(near, far, p, eps)
        of_negative = ops.where(ops.greater(of_negative, other), other, of_negative)
    losses = at_least_zero(shifted(ops.sub(_pairwise(a, near, p, eps), of_negative), margin))
    return finish(call, losses, reduction)


@lowers("aten::cosine_similarity")
def cosine_similarity(
    call: Call, x1: popxl.Tensor, x2: popxl.Tensor, dim: int = 1, eps: float = 1e-8
) -> popxl.Tensor:
    """The cosine of the angle between vectors along an axis; short ones count as `eps` long."""
    shape = np.broadcast_shapes(x1.shape, x2.shape) or (1,)
    vectors = [broadcast_to(t, shape) for t in wide(x1, x2)]
    axis = dim % len(shape)
    least = number(eps, popxl.float32)
    lengths = [norm_of(t, 2, axis, True) for t in vectors]
    a, b = (
        ops.div(t, ops.where(ops.greater(least, length), least, length))
        for t, length in zip(vectors, lengths, strict=True)
    )
    return cast(ops.reshape(ops.sum(ops.mul(a, b), [axis]), call.shape), call.dtype)


@lowers("aten::cosine_embedding_loss")
def cosine_embedding_loss(
    call: Call,
    input1: popxl.Tensor,
    input2: popxl.Tensor,
    target: popxl.Tensor,
    margin: float = 0.0,
    reduction: int = MEAN,
) -> popxl.Tensor:
    """1 minus the cosine for targets of 1, the cosine above a margin for those of -1."""
    a, b, y = wide(input1, input2, target)
    axes = [max(a.rank, b.rank) - 1]
    squares = [shifted(ops.sum(ops.mul(t, t), [t.rank - 1]), 1e-12) for t in (a, b)]
    cosine = ops.div(ops.sum(ops.mul(a, b), axes), ops.sqrt(ops.mul(*squares)))
    zero = number(0, y.dtype)
    equal = ops.where(ops.equal(y, number(1, y.dtype)), ops.sub(number(1, y.dtype), cosine), zero)
    apart = ops.where(
        ops.equal(y, number(-1, y.dtype)), at_least_zero(shifted(cosine, -margin)), zero
    )
    return finish(call, ops.add(equal, apart), reduction)


@lowers("aten::bilinear")
def bilinear(
    call: Call,
    input1: popxl.Tensor,
    input2: popxl.Tensor,
    weight: popxl.Tensor,
    bias: popxl.Tensor | None = None,
) -> popxl.Tensor:
    """`x1 @ weight[o] @ x2` for each output o."""
    outputs, left, right = weight.shape
    a = ops.reshape(input1, (-1, left))
    b = ops.reshape(input2, (-1, right, 1))
    w = ops.reshape(ops.transpose(weight, [1, 0, 2]), (left, outputs * right))
    halves = ops.reshape(product(call, a, w), (a.shape[0], outputs, right))
    result = ops.reshape(product(call, halves, b), call.shape)
    return result if bias is None else ops.add(result, cast(bias, call.dtype))
