"""Lowerings of losses. Training differentiates a call of one of them."""

from __future__ import annotations

import math

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_activation import scaled, shifted, softplus_of
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from poptorch._lower.views import with_gradient_of
from popxl import ops

NONE, MEAN, SUM = 0, 1, 2

# Operators whose result is a loss where no other loss is computed of it.
LOSSES = frozenset(
    f"aten::{name}"
    for name in [
        "l1_loss",
        "mse_loss",
        "smooth_l1_loss",
        "huber_loss",
        "nll_loss",
        "nll_loss2d",
        "nll_loss_nd",
        "cross_entropy_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "kl_div",
        "poisson_nll_loss",
        "hinge_embedding_loss",
        "soft_margin_loss",
        "multilabel_margin_loss",
        "cosine_embedding_loss",
        "margin_ranking_loss",
        "triplet_margin_loss",
        "ctc_loss",
    ]
) | {"poptorch::identity_loss"}


def reduced(losses: popxl.Tensor, reduction: int) -> popxl.Tensor:
    """Losses of elements, reduced as asked.

    Args:
        losses: The losses.
        reduction: 0: none, 1: mean, 2: sum.

    Returns:
        The loss.
    """
    if reduction == NONE:
        return losses
    return ops.mean(losses) if reduction == MEAN else ops.sum(losses)


def finish(call: Call, losses: popxl.Tensor, reduction: int) -> popxl.Tensor:
    """Losses of elements, reduced, in the element type of the result.

    Args:
        call: The call.
        losses: The float32 losses.
        reduction: 0: none, 1: mean, 2: sum.

    Returns:
        The loss.
    """
    return cast(reduced(losses, reduction), call.dtype)


def wide(*tensors: popxl.Tensor) -> list[popxl.Tensor]:
    """Tensors in float32, in which losses of half precision are computed too.

    Args:
        *tensors: The tensors.

    Returns:
        The float32 tensors.
    """
    return [cast(t, popxl.float32) for t in tensors]


def at_least_zero(t: popxl.Tensor) -> popxl.Tensor:
    """Elements below 0 become 0; at 0 the gradient passes, as that of clamp does in torch.

    Args:
        t: The tensor.

    Returns:
        A tensor of the same shape.
    """
    zero = number(0, t.dtype)
    return ops.where(ops.greater(zero, t), zero, t)


@lowers("aten::mse_loss")
def mse_loss(
    call: Call, self: popxl.Tensor, target: popxl.Tensor, reduction: int = MEAN
) -> popxl.Tensor:
    """Squares of differences."""
    x, y = wide(self, target)
    difference = ops.sub(x, y)
    return finish(call, ops.mul(difference, difference), reduction)


@lowers("aten::l1_loss")
def l1_loss(
    call: Call, self: popxl.Tensor, target: popxl.Tensor, reduction: int = MEAN
) -> popxl.Tensor:
    """Distances."""
    x, y = wide(self, target)
    return finish(call, ops.abs(ops.sub(x, y)), reduction)


def _quadratic_below(difference: popxl.Tensor, limit: float, factor: float) -> popxl.Tensor:
    """Squares over 2 below a limit, `limit * (|d| - limit / 2)` above it, times a factor."""
    size = ops.abs(difference)
    square = scaled(ops.mul(difference, difference), 0.5 * factor)
    linear = scaled(shifted(size, -0.5 * limit), limit * factor)
    return ops.where(ops.greater(number(limit, size.dtype), size), square, linear)


@lowers("aten::smooth_l1_loss")
def smooth_l1_loss(
    call: Call, self: popxl.Tensor, target: popxl.Tensor, reduction: int = MEAN, beta: float = 1.0
) -> popxl.Tensor:
    """Distances, squared over `2 * beta` below `beta`."""
    if beta == 0:
        return l1_loss(call, self, target, reduction)
    x, y = wide(self, target)
    return finish(call, _quadratic_below(ops.sub(x, y), beta, 1 / beta), reduction)


@lowers("aten::huber_loss")
def huber_loss(
    call: Call, self: popxl.Tensor, target: popxl.Tensor, reduction: int = MEAN, delta: float = 1.0
) -> popxl.Tensor:
    """Half of squared distances, and lines above `delta`."""
    x, y = wide(self, target)
    return finish(call, _quadratic_below(ops.sub(x, y), delta, 1), reduction)


@lowers("aten::binary_cross_entropy")
def binary_cross_entropy(
    call: Call,
    self: popxl.Tensor,
    target: popxl.Tensor,
    weight: popxl.Tensor | None = None,
    reduction: int = MEAN,
) -> popxl.Tensor:
    """`-(y ln p + (1 - y) ln(1 - p))`, with logarithms of at least -100."""
    p, y = wide(self, target)
    low = number(-100, p.dtype)
    log_p = ops.maximum(ops.log(ops.detach(p)), low)
    log_rest = ops.maximum(ops.log1p(ops.detach(ops.negate(p))), low)
    losses = ops.sub(ops.mul(shifted(y, -1), log_rest), ops.mul(y, log_p))
    if call.node.from_grad:
        # The gradient's denominator is bounded, so that it is finite where p is 0 or 1.
        spread = ops.maximum(ops.mul(ops.sub(number(1, p.dtype), p), p), number(1e-12, p.dtype))
        slope = ops.mul(p, ops.detach(ops.div(ops.sub(p, y), spread)))
        losses = with_gradient_of(losses, ops.add(losses, slope))
    if weight is not None:
        losses = ops.mul(losses, cast(weight, p.dtype))
    return finish(call, losses, reduction)


@lowers("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    call: Call,
    self: popxl.Tensor,
    target: popxl.Tensor,
    weight: popxl.Tensor | None = None,
    pos_weight: popxl.Tensor | None = None,
    reduction: int = MEAN,
) -> popxl.Tensor:
    """Binary cross entropy of the sigmoid, without its overflow."""
    x, y = wide(self, target)
    above = softplus_of(ops.negate(x))
    if pos_weight is not None:
        factor = ops.mul(shifted(cast(pos_weight, x.dtype), -1), y)
        above = ops.mul(shifted(factor, 1), above)
    losses = ops.add(ops.mul(ops.sub(number(1, y.dtype), y), x), above)
    if weight is not None:
        losses = ops.mul(losses, cast(weight, x.dtype))
    return finish(call, losses, reduction)


def _times_log(y: popxl.Tensor) -> popxl.Tensor:
    """`y ln y`, and 0 for 0."""
    zero, one = number(0, y.dtype), number(1, y.dtype)
    is_zero = ops.equal(y, zero)
    return ops.where(is_zero, zero, ops.mul(y, ops.log(ops.where(is_zero, one, y))))


@lowers("aten::kl_div")
def kl_div(
    call: Call,
    self: popxl.Tensor,
    target: popxl.Tensor,
    reduction: int = MEAN,
    log_target: bool = False,
) -> popxl.Tensor:
    """The relative entropy of a target and logarithms of probabilities."""
    x, y = wide(self, target)
    if log_target:
        losses = ops.mul(ops.exp(y), ops.sub(y, x))
    else:
        losses = ops.sub(_times_log(y), ops.mul(y, x))
    return finish(call, losses, reduction)


@lowers("aten::poisson_nll_loss")
def poisson_nll_loss(
    call: Call,
    input: popxl.Tensor,
    target: popxl.Tensor,
    log_input: bool,
    full: bool,
    eps: float,
    reduction: int,
) -> popxl.Tensor:
    """The negative log-likelihood of counts of a Poisson distribution."""
    x, y = wide(input, target)
    if log_input:
        losses = ops.sub(ops.exp(x), ops.mul(y, x))
    else:
        losses = ops.sub(x, ops.mul(y, ops.log(shifted(x, eps))))
    if full:
        # Stirling's approximation of ln y!, used above 1.
        one = number(1, y.dtype)
        above = ops.greater(y, one)
        safe = ops.where(above, y, one)
        term = ops.add(
            ops.sub(ops.mul(safe, ops.log(safe)), safe),
            scaled(ops.log(scaled(safe, 2 * math.pi)), 0.5),
        )
        losses = ops.add(losses, ops.where(above, term, number(0, y.dtype)))
    return finish(call, losses, reduction)


@lowers("aten::soft_margin_loss")
def soft_margin_loss(
    call: Call, self: popxl.Tensor, target: popxl.Tensor, reduction: int = MEAN
) -> popxl.Tensor:
    """`ln(1 + e^(-y x))`."""
    x, y = wide(self, target)
    return finish(call, softplus_of(ops.negate(ops.mul(y, x))), reduction)


@lowers("aten::hinge_embedding_loss")
def hinge_embedding_loss(
    call: Call,
    self: popxl.Tensor,
    target: popxl.Tensor,
    margin: float = 1.0,
    reduction: int = MEAN,
) -> popxl.Tensor:
    """`x` for targets of 1, `max(0, margin - x)` for those of -1."""
    x, y = wide(self, target)
    # The gradient of a target is 0, but there is one.
    zero = scaled(y, 0) if call.argument("target").requires_grad else number(0, x.dtype)
    below = at_least_zero(ops.sub(number(margin, x.dtype), x))
    negative = ops.where(ops.equal(y, number(1, y.dtype)), zero, below)
    positive = ops.where(ops.equal(y, number(-1, y.dtype)), zero, x)
    return finish(call, ops.add(negative, positive), reduction)


@lowers("aten::margin_ranking_loss")
def margin_ranking_loss(
    call: Call,
    input1: popxl.Tensor,
    input2: popxl.Tensor,
    target: popxl.Tensor,
    margin: float = 0.0,
    reduction: int = MEAN,
) -> popxl.Tensor:
    """`max(0, -y (x1 - x2) + margin)`."""
    first, second, y = wide(input1, input2, target)
    losses = at_least_zero(shifted(ops.mul(y, ops.sub(second, first)), margin))
    return finish(call, losses, reduction)


@lowers("poptorch::identity_loss")
def identity_loss(call: Call, x: popxl.Tensor, reduction: int) -> popxl.Tensor:
    """What the user calls the loss. 0: sum, 1: mean, 2: none."""
    del call
    if reduction == 2:
        return ops.identity(x)
    return ops.sum(x) if reduction == 0 else ops.mean(x)
