"""Lowerings of losses of class labels."""

from __future__ import annotations

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_activation import scaled
from poptorch._lower.ops_loss import MEAN, finish, reduced
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops
from popxl.ops.negative_log_likelihood import ReductionType

_WORDS: tuple[ReductionType, ...] = ("none", "mean", "sum")


def _classes_last(t: popxl.Tensor) -> popxl.Tensor:
    """(N, C, ...) as (N, ..., C)."""
    if t.rank < 3:
        return t
    return ops.transpose(t, [0, *range(2, t.rank), 1])


def _weights_of_labels(
    target: popxl.Tensor, weight: popxl.Tensor | None, ignore_index: int
) -> popxl.Tensor:
    """The weight of each label: that of its class, 1 without weights, 0 where it is ignored."""
    zero, one = number(0, popxl.float32), number(1, popxl.float32)
    ignored = ops.equal(target, number(ignore_index, target.dtype))
    if weight is None:
        return ops.where(ignored, zero, one)
    label = ops.where(ignored, number(0, target.dtype), target)
    return ops.where(ignored, zero, ops.gather(cast(weight, popxl.float32), label, 0))


def _weighted(
    losses: popxl.Tensor, weights: popxl.Tensor, reduction: int, divisor: popxl.Tensor | None = None
) -> popxl.Tensor:
    """Losses times weights, reduced; a mean is over the sum of the weights."""
    products = ops.mul(losses, weights)
    if reduction != MEAN:
        return reduced(products, reduction)
    return ops.div(ops.sum(products), ops.sum(weights) if divisor is None else divisor)


@lowers("aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd")
def nll_loss(
    call: Call,
    self: popxl.Tensor,
    target: popxl.Tensor,
    weight: popxl.Tensor | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> popxl.Tensor:
    """Minus the element of each label, of logarithms of probabilities."""
    t = _classes_last(self)
    if weight is None:
        return cast(
            ops.nll_loss(
                cast(t, popxl.float32), target, ignore_index, _WORDS[reduction], log_prob=True
            ),
            call.dtype,
        )
    losses = ops.nll_loss(cast(t, popxl.float32), target, ignore_index, "none", log_prob=True)
    weights = _weights_of_labels(target, weight, ignore_index)
    return cast(_weighted(losses, weights, reduction), call.dtype)


@lowers("aten::cross_entropy_loss")
def cross_entropy_loss(
    call: Call,
    self: popxl.Tensor,
    target: popxl.Tensor,
    weight: popxl.Tensor | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> popxl.Tensor:
    """The negative log-likelihood of labels or probabilities under the softmax of scores."""
    scores = cast(_classes_last(self), popxl.float32)
    log_sum = ops.logsumexp(scores, [scores.rank - 1])
    if target.dtype.is_floating_point:
        y = cast(_classes_last(target), popxl.float32)
        losses = _of_probabilities(scores, log_sum, y, weight, label_smoothing)
        if reduction != MEAN:
            return finish(call, losses, reduction)
        rows = number(max(losses.nelms, 1), popxl.float32)
        return cast(ops.div(ops.sum(losses), rows), call.dtype)
    # The loss of a label is ln(sum(e^x)) - x[label]: no matrix of logarithms is ever made.
    of_label = ops.nll_loss(scores, target, None, "none", log_prob=True)
    weights = _weights_of_labels(target, weight, ignore_index)
    loss = _weighted(ops.add(log_sum, of_label), weights, reduction)
    if label_smoothing:
        spread = _of_all_classes(scores, log_sum, weight)
        kept = _weights_of_labels(target, None, ignore_index)
        smooth = _weighted(spread, kept, reduction, ops.sum(weights))
        share = label_smoothing / scores.shape[-1]
        loss = ops.add(scaled(loss, 1 - label_smoothing), scaled(smooth, share))
    return cast(loss, call.dtype)


def _of_all_classes(
    scores: popxl.Tensor, log_sum: popxl.Tensor, weight: popxl.Tensor | None
) -> popxl.Tensor:
    """The sum of the losses that each class would give, times its weight."""
    classes = scores.shape[-1]
    if weight is None:
        return ops.sub(scaled(log_sum, classes), ops.sum(scores, [scores.rank - 1]))
    w = cast(weight, popxl.float32)
    return ops.sub(ops.mul(log_sum, ops.sum(w)), ops.sum(ops.mul(scores, w), [scores.rank - 1]))


def _of_probabilities(
    scores: popxl.Tensor,
    log_sum: popxl.Tensor,
    y: popxl.Tensor,
    weight: popxl.Tensor | None,
    label_smoothing: float,
) -> popxl.Tensor:
    """Losses of rows of class probabilities."""
    if label_smoothing:
        share = number(label_smoothing / scores.shape[-1], y.dtype)
        y = ops.add(scaled(y, 1 - label_smoothing), share)
    if weight is not None:
        y = ops.mul(y, cast(weight, y.dtype))
    logs = ops.sub(ops.reshape(log_sum, (*log_sum.shape, 1)), scores)
    return ops.sum(ops.mul(y, logs), [scores.rank - 1])
