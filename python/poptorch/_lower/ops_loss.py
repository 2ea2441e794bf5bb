"""Lowerings of losses. Calls of them are marked, so that training finds what it differentiates."""

from __future__ import annotations

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.registry import lowers
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


@lowers("aten::mse_loss")
def mse_loss(
    call: Call, self: popxl.Tensor, target: popxl.Tensor, reduction: int = MEAN
) -> popxl.Tensor:
    """Squares of differences."""
    difference = ops.sub(cast(self, call.dtype), cast(target, call.dtype))
    return reduced(ops.mul(difference, difference), reduction)


@lowers("aten::l1_loss")
def l1_loss(
    call: Call, self: popxl.Tensor, target: popxl.Tensor, reduction: int = MEAN
) -> popxl.Tensor:
    """Distances."""
    difference = ops.sub(cast(self, call.dtype), cast(target, call.dtype))
    return reduced(ops.abs(difference), reduction)


@lowers("poptorch::identity_loss")
def identity_loss(call: Call, x: popxl.Tensor, reduction: int) -> popxl.Tensor:
    """What the user calls the loss. 0: sum, 1: mean, 2: none."""
    del call
    if reduction == 2:
        return ops.identity(x)
    return ops.sum(x) if reduction == 0 else ops.mean(x)
