"""Cross entropy of logits and class labels."""

from __future__ import annotations

import popxl
from popxl import ops
from popxl.ops.negative_log_likelihood import ReductionType


def cross_entropy(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    ignore_index: int | None = None,
    reduction: ReductionType = "mean",
) -> popxl.Tensor:
    """The negative log likelihood of `labels` (...) under softmax of the last axis of `x` (..., C).

    `reduction` "mean" and "sum" give a scalar, "none" the shape of the labels; else ValueError.
    Labels equal to `ignore_index` count neither in the loss nor in the mean.
    """
    return ops.nll_loss(ops.softmax(x, axis=-1), labels, ignore_index, reduction)


def cross_entropy_with_grad(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    loss_scaling: float | popxl.Tensor = 1,
    ignore_index: int | None = None,
    reduction: ReductionType = "mean",
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The cross entropy and its gradient with respect to `x`.

    Only the gradient is multiplied by `loss_scaling`, a number or a scalar tensor.
    """
    if not isinstance(loss_scaling, popxl.Tensor):
        loss_scaling = popxl.constant(loss_scaling, popxl.float32, "loss_scaling")
    probabilities = ops.softmax(x, axis=-1)
    loss, gradient = ops.nll_loss_with_softmax_grad(
        probabilities, labels, loss_scaling, ignore_index, reduction
    )
    return loss, gradient
