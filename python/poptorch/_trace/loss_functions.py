"""Loss functions of torch that are written in Python: what they return is a loss."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

# A loss of one operator is known by its name; here something may be computed behind it.
_NAMES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linear_cross_entropy",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
)
LOSS_FUNCTIONS = frozenset(getattr(F, name) for name in _NAMES if hasattr(F, name))


def gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """Compute what torch's function does, without its look at the values of the variance.

    Args:
        input: The expectations.
        target: The samples.
        var: The variances, of the shape of `input`, or with one element along one axis, or without
            the last axis.
        full: Whether the constant term is added.
        eps: The smallest variance that is used; gradients pass as if it were not.
        reduction: `none`, `mean` or `sum`.

    Returns:
        The loss.
    """
    if not isinstance(var, torch.Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif (
            input.dim() != var.dim()
            or sum(y for x, y in zip(input.size(), var.size(), strict=True) if x != y) != 1
        ):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    var = var + (var.clamp(min=eps) - var).detach()
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


# Functions that read values, which a trace does not have.
_REPLACED: dict[Any, Any] = {F.gaussian_nll_loss: gaussian_nll_loss}


def call_loss_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a loss function of torch, or what takes its place in a trace.

    Args:
        func: The function, of `LOSS_FUNCTIONS`.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Returns:
        The loss.
    """
    return _REPLACED.get(func, func)(*args, **kwargs)
