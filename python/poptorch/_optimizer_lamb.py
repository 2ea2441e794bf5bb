"""LAMB, which torch does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from poptorch._optimizer_base import Optimizer, given_arguments, moment_types


class LAMB(Optimizer):
    """LAMB: Adam whose step for a weight is as long as the weight, times the learning rate.

        x = m' / (sqrt(s') + eps) + weight_decay w
        w = w - lr min(|w|, max_weight_norm) / |x| x

    m' and s' are the moments of the gradient, corrected for having begun at 0. Where a norm is 0
    the step is lr x.

    Args:
        params: Parameters, named parameters or dictionaries of groups, as torch takes them.
        lr: The learning rate, which is always variable; None: 1e-3.
        betas: The decay of the first and of the second moment; None: (0.9, 0.999).
        eps: What is added to the root of the second moment; None: 1e-8.
        weight_decay: The factor of the weight that is added to the step; None: 1e-2.
        bias_correction: Whether the moments are corrected; None: True.
        loss_scaling: The factor of the loss in the backward pass; gradients are divided by it.
        max_weight_norm: The largest norm that a weight counts with; None: 65500.
        accum_type: The dtype in which gradients are accumulated, float32 or float16.
        first_order_momentum_accum_type: The dtype of the first moment, float32 or float16.
        second_order_momentum_accum_type: The dtype of the second moment, float32 or float16.

    Raises:
        AssertionError: A dtype is another one.
        ValueError: A value is out of range.
    """

    max_weight_norm: float
    bias_correction: bool

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        bias_correction: bool | None = None,
        loss_scaling: float | None = None,
        max_weight_norm: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
    ) -> None:
        given = given_arguments(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            max_weight_norm=max_weight_norm,
        )
        defaults = {
            "lr": 1e-3,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            "weight_decay": 1e-2,
            "max_weight_norm": 65500.0,
            **given,
        }
        for name in ("lr", "eps", "weight_decay"):
            if not defaults[name] >= 0:
                raise ValueError(f"LAMB: wanted {name} >= 0; given {defaults[name]}")
        for beta in defaults["betas"]:
            if not 0 <= beta < 1:
                raise ValueError(f"LAMB: wanted betas in [0, 1); given {defaults['betas']}")
        torch.optim.Optimizer.__init__(self, params, defaults)
        text = "either torch.float32\nor torch.float16"
        own = {
            "loss_scaling": 1.0 if loss_scaling is None else loss_scaling,
            "bias_correction": True if bias_correction is None else bias_correction,
            "max_weight_norm": defaults["max_weight_norm"],
            **moment_types(
                accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type, text
            ),
        }
        self._begin(own, [*given, *given_arguments(loss_scaling=loss_scaling)])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters on the host, from their `grad`.

        Args:
            closure: Computes the loss and the gradients again; None: they are there.

        Returns:
            What `closure` returned, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        mean = state["exp_avg"].lerp_(parameter.grad, 1 - beta1)
        square = (
            state["exp_avg_sq"]
            .mul_(beta2)
            .addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
        )
        if self.bias_correction:
            mean = mean / (1 - beta1 ** state["step"])
            square = square / (1 - beta2 ** state["step"])
        step = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * parameter
        length, size = float(step.norm()), min(float(parameter.norm()), self.max_weight_norm)
        ratio = size / length if size > 0 and length > 0 else 1.0
        parameter.sub_(step, alpha=float(group["lr"]) * ratio)
