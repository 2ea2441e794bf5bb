"""Results on meta tensors of operators whose own rule torch lacks, by name with overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SHAPE_RULES: dict[str, Callable[..., Any]] = {}


def shape_rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that takes the place of operators on meta tensors.

    Args:
        *names: The operators, such as `aten::add.Tensor`.

    Returns:
        A decorator.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in SHAPE_RULES:
                raise ValueError(f"{name} has two shape rules")
            SHAPE_RULES[name] = function
        return function

    return register


def _losses_of_labels(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's rule under its Python dispatcher reads labels of single samples, which have no
    values here, and forgets the axes of unreduced losses.
    """

    def rule(
        self: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None = None,
        reduction: int = 1,
        *rest: Any,
        **more: Any,
    ) -> torch.Tensor:
        if reduction != 0 and self.dim() > 1:
            result: torch.Tensor = operator(self, target, weight, reduction, *rest, **more)
            return result
        scores = self * target if target.is_floating_point() else self
        return scores.sum(1) if self.dim() > 1 else scores.sum()

    return rule


for _name in ("nll_loss", "nll_loss2d", "nll_loss_nd", "cross_entropy_loss"):
    shape_rule(f"aten::{_name}")(_losses_of_labels(getattr(torch.ops.aten, _name).default))
