"""The optimizers: those of torch with settings for training on a device, and LAMB.

Arguments that are None have torch's default. Those that are given are variable: a training executor
takes a new value of them by `setOptimizer`. Those that are not given are compiled into the program.
`maximize`, `foreach`, `capturable`, `differentiable` and `fused` are of interest to `step` alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch

from poptorch._logging import logger
from poptorch._optimizer_base import Optimizer as Optimizer
from poptorch._optimizer_base import VariableAttributes as VariableAttributes
from poptorch._optimizer_base import (
    accumulation_type,
    given_arguments,
    moment_types,
    torch_arguments,
)
from poptorch._optimizer_lamb import LAMB as LAMB

Parameters: TypeAlias = Iterable[Any]


_NO_AMSGRAD = "Only non-amsgrad Adam/AdamW optimizers are supported."


def _number(value: float | None, default: float) -> float:
    return default if value is None else value


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent, with momentum if the momentum is variable or not 0.

    Dampening applies from the first step on.

    Args:
        params: Parameters, named parameters or dictionaries of groups, as torch takes them.
        lr: The learning rate, which is always variable.
        momentum: The share of the velocity that stays.
        dampening: The share of the gradient that does not go into the velocity.
        weight_decay: The factor of the weight that is added to its gradient.
        nesterov: Whether to take the step from where the velocity would lead.
        maximize: Not honoured on a device.
        foreach: Of interest to `step` alone.
        differentiable: Of interest to `step` alone.
        loss_scaling: The factor of the loss in the backward pass; gradients are divided by it.
        velocity_scaling: The factor of the stored velocity, for the combined variant.
        use_combined_accum: Whether one tensor holds velocity and accumulated gradient. The rule is
            the same, but a new learning rate, momentum, weight decay or dampening takes effect one
            step later.
        accum_type: The dtype in which gradients are accumulated, float32 or float16.
        velocity_accum_type: The dtype of the velocity, float32 or float16.
        max_grad_norm: Gradients are made shorter where the norm of all exceeds it; None: never.
        **torch_keywords: Further keyword arguments of the installed torch.

    Raises:
        AssertionError: A dtype is another one.
        TypeError: Torch has no such keyword.
        ValueError: A value is out of range.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | torch.Tensor | None = None,
        momentum: float | None = None,
        dampening: float | None = None,
        weight_decay: float | None = None,
        nesterov: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        velocity_scaling: float | None = None,
        use_combined_accum: bool | None = None,
        accum_type: torch.dtype | None = None,
        velocity_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
        **torch_keywords: Any,
    ) -> None:
        given = given_arguments(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
        )
        torch.optim.SGD.__init__(
            self, params, **torch_arguments(torch.optim.SGD, given, torch_keywords)
        )
        scales = given_arguments(
            loss_scaling=loss_scaling,
            velocity_scaling=velocity_scaling,
            max_grad_norm=max_grad_norm,
        )
        own = {
            "loss_scaling": _number(loss_scaling, 1.0),
            "use_combined_accum": bool(use_combined_accum),
            "accum_type": accumulation_type(accum_type),
            "velocity_accum_type": accumulation_type(velocity_accum_type),
            "max_grad_norm": _number(max_grad_norm, math.inf),
        }
        if use_combined_accum:
            self._add_group_default("velocity_scaling", _number(velocity_scaling, 1.0))
        elif velocity_scaling is not None:
            logger.warning(
                "velocity_scaling is ignored: only SGD with use_combined_accum=True keeps the "
                "velocity scaled"
            )
        self._begin(own, [*given, *scales], others=["velocity_scaling"])


class Adam(Optimizer, torch.optim.Adam):
    """Adam. With `decoupled_weight_decay`, which newer torch has, it is AdamW.

    Args:
        params: Parameters, named parameters or dictionaries of groups, as torch takes them.
        lr: The learning rate, which is always variable.
        betas: The decay of the first and of the second moment.
        eps: What is added to the root of the second moment.
        weight_decay: The factor of the weight that is added to its gradient.
        amsgrad: It must not be True.
        foreach: Of interest to `step` alone.
        maximize: Not honoured on a device.
        capturable: Of interest to `step` alone.
        differentiable: Of interest to `step` alone.
        fused: Of interest to `step` alone.
        loss_scaling: The factor of the loss in the backward pass; gradients are divided by it.
        accum_type: The dtype in which gradients are accumulated, float32 or float16.
        first_order_momentum_accum_type: The dtype of the first moment, float32 or float16.
        second_order_momentum_accum_type: The dtype of the second moment, float32 or float16.
        max_grad_norm: Gradients are made shorter where the norm of all exceeds it; None: never.
        **torch_keywords: Further keyword arguments of the installed torch.

    Raises:
        AssertionError: A dtype is another one.
        TypeError: Torch has no such keyword.
        ValueError: A value is out of range, or `amsgrad` is True.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | torch.Tensor | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
        **torch_keywords: Any,
    ) -> None:
        if amsgrad:
            raise ValueError(_NO_AMSGRAD)
        given = given_arguments(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )
        torch.optim.Adam.__init__(
            self, params, **torch_arguments(torch.optim.Adam, given, torch_keywords)
        )
        own = {
            "loss_scaling": _number(loss_scaling, 1.0),
            **moment_types(
                accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type
            ),
            "max_grad_norm": _number(max_grad_norm, math.inf),
        }
        scales = given_arguments(loss_scaling=loss_scaling, max_grad_norm=max_grad_norm)
        self._begin(own, [*given, *scales])


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam whose weights decay beside the moments.

    Args:
        params: Parameters, named parameters or dictionaries of groups, as torch takes them.
        lr: The learning rate, which is always variable.
        betas: The decay of the first and of the second moment.
        eps: What is added to the root of the second moment.
        weight_decay: The share of the weight, times the learning rate, that a step takes away.
        amsgrad: It must not be True.
        maximize: Not honoured on a device.
        foreach: Of interest to `step` alone.
        capturable: Of interest to `step` alone.
        differentiable: Of interest to `step` alone.
        fused: Of interest to `step` alone.
        loss_scaling: The factor of the loss in the backward pass; gradients are divided by it.
        bias_correction: Accepted; the moments are corrected for having begun at 0 in any case.
        accum_type: The dtype in which gradients are accumulated, float32 or float16.
        first_order_momentum_accum_type: The dtype of the first moment, float32 or float16.
        second_order_momentum_accum_type: The dtype of the second moment, float32 or float16.
        max_grad_norm: Gradients are made shorter where the norm of all exceeds it; None: never.
        **torch_keywords: Further keyword arguments of the installed torch.

    Raises:
        AssertionError: A dtype is another one.
        TypeError: Torch has no such keyword.
        ValueError: A value is out of range, or `amsgrad` is True.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | torch.Tensor | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        bias_correction: bool | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
        **torch_keywords: Any,
    ) -> None:
        if amsgrad:
            raise ValueError(_NO_AMSGRAD)
        given = given_arguments(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )
        torch.optim.AdamW.__init__(
            self, params, **torch_arguments(torch.optim.AdamW, given, torch_keywords)
        )
        own = {
            "loss_scaling": _number(loss_scaling, 1.0),
            "bias_correction": True if bias_correction is None else bias_correction,
            **moment_types(
                accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type
            ),
            "max_grad_norm": _number(max_grad_norm, math.inf),
        }
        scales = given_arguments(loss_scaling=loss_scaling, max_grad_norm=max_grad_norm)
        self._begin(own, [*given, *scales])


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop.

    Args:
        params: Parameters, named parameters or dictionaries of groups, as torch takes them.
        lr: The learning rate, which is always variable.
        alpha: The decay of the mean square of the gradient, which is always constant.
        eps: What is added to the root of the mean square.
        weight_decay: The factor of the weight that is added to its gradient.
        momentum: The share of the velocity that stays.
        centered: Whether the mean square is that of the difference from the mean gradient; the same
            in all groups.
        foreach: Of interest to `step` alone.
        maximize: Not honoured on a device.
        differentiable: Of interest to `step` alone.
        loss_scaling: The factor of the loss in the backward pass; gradients are divided by it.
        accum_type: The dtype in which gradients are accumulated, float32 or float16.
        first_order_momentum_accum_type: The dtype of velocity and mean gradient, float32 or
            float16.
        second_order_momentum_accum_type: The dtype of the mean square, float32 or float16.
        use_tf_variant: Whether to compute as TensorFlow does: the mean square begins at 1, `eps` is
            added before the root is taken, and the velocity contains the learning rate.
        **torch_keywords: Further keyword arguments of the installed torch.

    Raises:
        AssertionError: A dtype is another one.
        TypeError: Torch has no such keyword.
        ValueError: A value is out of range.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | torch.Tensor | None = None,
        alpha: float | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        momentum: float | None = None,
        centered: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        use_tf_variant: bool | None = None,
        **torch_keywords: Any,
    ) -> None:
        given = given_arguments(
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
        )
        torch.optim.RMSprop.__init__(
            self, params, **torch_arguments(torch.optim.RMSprop, given, torch_keywords)
        )
        own = {
            "loss_scaling": _number(loss_scaling, 1.0),
            **moment_types(
                accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type
            ),
            "use_tf_variant": bool(use_tf_variant),
        }
        self._begin(own, [*given, *given_arguments(loss_scaling=loss_scaling)])
