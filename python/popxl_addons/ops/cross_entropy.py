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
    """The negative log likelihood of class labels under the softmax of scores.

    Args:
        x: Scores (..., classes), float.
        labels: Classes (...), integer.
        ignore_index: Labels equal to it count neither in the loss nor in the mean; None counts all.
        reduction: "mean" or "sum" over the labels, or "none".

    Returns:
        A scalar, or the shape of the labels for "none", in the dtype of `x`.

    Raises:
        ValueError: The reduction is none of the three.
    """
    return ops.nll_loss(ops.softmax(x, axis=-1), labels, ignore_index, reduction)


def cross_entropy_with_grad(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    loss_scaling: float | popxl.Tensor = 1,
    ignore_index: int | None = None,
    reduction: ReductionType = "mean",
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The cross entropy and its gradient.

    Args:
        x: Scores (..., classes), float.
        labels: Classes (...), integer.
        loss_scaling: The gradient alone is multiplied by it, a number or a scalar tensor.
        ignore_index: Labels equal to it count neither in the loss nor in the mean; None counts all.
        reduction: "mean" or "sum" over the labels, or "none".

    Returns:
        The loss as `cross_entropy` gives it, and the gradient with respect to `x`, of its shape and
        dtype.

    Raises:
        ValueError: The reduction is none of the three.
    """
    if not isinstance(loss_scaling, popxl.Tensor):
        loss_scaling = popxl.constant(loss_scaling, popxl.float32, "loss_scaling")
    probabilities = ops.softmax(x, axis=-1)
    loss, gradient = ops.nll_loss_with_softmax_grad(
        probabilities, labels, loss_scaling, ignore_index, reduction
    )
    return loss, gradient
