"""The update rules of the optimizers, as ops on one weight after the other.

Rules compute in float32. State that is kept in float16 is rounded only where it is stored: the step
itself is made with the value before rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

import popxl
from poptorch._lower.update_variables import (
    Factor,
    UpdateVariables,
    WeightGradient,
    as_float32,
    as_tensor,
    is_number,
    moved,
    negative,
    product,
)
from poptorch._optimizer_scalars import Scalar, group_scalars, has_no_velocity
from poptorch._optimizer_values import OptimizerKind, OptimizerValues
from popxl import ops

updates = ops.var_updates


class Rule(Protocol):
    """Updates weights of a group."""

    def update(self, weight: WeightGradient) -> None:
        """Updates a weight in place.

        Args:
            weight: The weight and its gradient.
        """
        ...


class Group:
    """What the rule of a parameter group works with.

    Args:
        values: What the program takes of its optimizer.
        index: The group.
        variables: Makes variables.
        scale: What every gradient is multiplied by, at home.
        device: The virtual device of the weights; None: home.
    """

    def __init__(
        self,
        values: OptimizerValues,
        index: int,
        variables: UpdateVariables,
        scale: Factor,
        device: int | None = None,
    ) -> None:
        self.values = values
        self.settings = values.groups[index]
        self.variables = variables
        self.roles: dict[str, Scalar] = group_scalars(values, index)
        self.factors = {role: variables.scalar(scalar) for role, scalar in self.roles.items()}
        if values.kind == OptimizerKind.SGD1 and not has_no_velocity(self.settings):
            self._hold()
        self.factors = {role: moved(one, device) for role, one in self.factors.items()}
        self._scale = moved(scale, device)
        self._decays = not (
            self.settings.decoupled
            or values.kind in (OptimizerKind.LAMB, OptimizerKind.LAMB_NO_BIAS)
            or is_number(self.factors["decay"], 0)
        )

    def _hold(self) -> None:
        """Replaces numbers that may change by those of the previous step."""
        held = self.variables.held
        for role, factor in self.factors.items():
            if isinstance(factor, popxl.Tensor):
                self.factors[role] = held("Held", self.roles[role], factor)
        scaling = self.factors["scaling"]
        if isinstance(scaling, popxl.Tensor):
            # The velocity still has the scale of the step before.
            self.factors["rescaled"] = scaling / held("Stored", self.roles["scaling"], scaling)

    @property
    def left_over(self) -> Factor:
        """What the result of `gradient` still must be multiplied by."""
        return 1.0 if self._decays else self._scale

    def gradient(self, weight: WeightGradient) -> popxl.Tensor:
        """Give the gradient with the decay of the weight.

        Args:
            weight: The weight and its gradient.

        Returns:
            The gradient, which is scaled already if there is a decay.
        """
        if not self._decays:
            return weight.gradient
        return ops.scaled_add(
            as_float32(weight.gradient),
            weight.weight,
            a=self._scale,
            b=self.factors["decay"],
        )

    def scaled_gradient(self, weight: WeightGradient) -> popxl.Tensor:
        """Give the gradient with the decay of the weight, scaled.

        Args:
            weight: The weight and its gradient.

        Returns:
            The gradient, in float32 unless it is that of the program itself.
        """
        gradient, factor = self.gradient(weight), self.left_over
        if is_number(factor, 1):
            return gradient
        return as_float32(gradient) * factor


def _updated(state: popxl.Tensor, update: Callable[[popxl.Tensor], popxl.Tensor]) -> popxl.Tensor:
    """Updates state in place; returns its new value in float32. `update` writes its argument."""
    if state.dtype == popxl.float32:
        return update(state)
    value = update(ops.cast(state, popxl.float32))
    updates.copy_var_update_(state, ops.cast(value, state.dtype))
    return value


class PlainSgd:
    """w -= rate (g + decay w).

    Args:
        group: The group.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._step = negative(product(group.factors["rate"], group.left_over))

    def update(self, weight: WeightGradient) -> None:
        """Updates a weight.

        Args:
            weight: The weight and its gradient.
        """
        ops.scaled_add_(weight.weight, self._group.gradient(weight), b=self._step)


class Momentum:
    """v = momentum v + gradient (g + decay w), w -= rate v; with Nesterov's momentum, w -= rate
    (gradient (g + decay w) + momentum v).

    Args:
        group: The group.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._step = negative(group.factors["rate"])
        self._gradient = product(group.factors["gradient"], group.left_over)
        self._kept = product(group.factors["momentum"], group.factors.get("rescaled", 1.0))

    def update(self, weight: WeightGradient) -> None:
        """Updates a weight and its velocity.

        Args:
            weight: The weight and its gradient.
        """
        group = self._group
        gradient = group.gradient(weight)
        velocity = _updated(
            group.variables.state("Accl", weight, group.values.first_type),
            lambda v: ops.scaled_add_(v, gradient, a=self._kept, b=self._gradient),
        )
        step = velocity
        if group.settings.nesterov:
            momentum = group.factors["momentum"]
            step = ops.scaled_add(velocity, gradient, a=momentum, b=self._gradient)
        ops.scaled_add_(weight.weight, step, b=self._step)


def _bias_correction(beta: Factor, step: popxl.Tensor) -> Factor:
    """1 - beta^step, accurate where beta is near to 1."""
    if isinstance(beta, popxl.Tensor):
        log_beta = ops.log1p(beta - 1.0)
    elif beta == 0:
        return 1.0
    else:
        log_beta = popxl.constant(math.log(float(np.float32(beta))), popxl.float32)
    return ops.negate(ops.expm1(ops.mul(step, log_beta)))


class _Moments:
    """The moments of Adam and LAMB, and the numbers that correct their bias, for all weights once.

    m / c1 / (sqrt(v / c2) + eps) = k m / (sqrt(v) + eps sqrt(c2)), with c = 1 - beta^step and k =
    sqrt(c2) / c1.

    Args:
        group: The group.
        step: The number of this step, from 1; None: moments are not corrected.
    """

    def __init__(self, group: Group, step: popxl.Tensor | None) -> None:
        self._group = group
        self.epsilon = group.factors["eps"]
        self.correction: Factor = 1.0
        if step is not None:
            first = _bias_correction(group.factors["beta1"], step)
            second = ops.sqrt(as_tensor(_bias_correction(group.factors["beta2"], step)))
            self.correction = second / first
            self.epsilon = product(second, self.epsilon)

    def step(self, weight: WeightGradient, decay: Factor) -> popxl.Tensor:
        """Updates the moments of a weight.

        Args:
            weight: The weight and its gradient.
            decay: The share of the weight in the step.

        Returns:
            m / (sqrt(v) + eps sqrt(c2)) + decay w.
        """
        group, values = self._group, self._group.values
        gradient = group.scaled_gradient(weight)
        first = _updated(
            group.variables.state("Accl1", weight, values.first_type),
            lambda m: updates.accumulate_moving_average_(m, gradient, f=group.factors["beta1"]),
        )
        second = _updated(
            group.variables.state("Accl2", weight, values.second_type),
            lambda v: updates.accumulate_moving_average_square_(
                v, gradient, f=group.factors["beta2"]
            ),
        )
        decays = not is_number(decay, 0)
        return updates.adam_updater(
            first,
            second,
            weight=as_float32(weight.weight) if decays else None,
            weight_decay=decay if decays else None,
            epsilon=self.epsilon,
        )


class Adam:
    """w -= rate (m' / (sqrt(v') + eps) + decay w), with a decay only if it is decoupled.

    Args:
        group: The group.
        step: The number of this step, from 1.
    """

    def __init__(self, group: Group, step: popxl.Tensor) -> None:
        self._moments = _Moments(group, step)
        self._decay: Factor = 0.0
        if group.settings.decoupled and not is_number(group.factors["decay"], 0):
            self._decay = as_tensor(group.factors["decay"]) / self._moments.correction
        self._step = negative(product(group.factors["rate"], self._moments.correction))

    def update(self, weight: WeightGradient) -> None:
        """Updates a weight and its moments.

        Args:
            weight: The weight and its gradient.
        """
        step = self._moments.step(weight, self._decay)
        ops.scaled_add_(weight.weight, step, b=self._step)


class Lamb:
    """w -= rate ratio x, x = m' / (sqrt(v') + eps) + decay w, ratio = min(|w|, limit) / |x|.

    Args:
        group: The group.
        step: The number of this step, from 1; None: moments are not corrected.
    """

    def __init__(self, group: Group, step: popxl.Tensor | None) -> None:
        self._moments = _Moments(group, step)
        # What the moments give is x / correction.
        correction = self._moments.correction
        self._decay = group.factors["decay"]
        if not is_number(self._decay, 0) and not is_number(correction, 1):
            self._decay = as_tensor(self._decay) / correction
        self._correction_square = product(correction, correction)
        self._rate = product(group.factors["rate"], correction)
        limit = group.factors["limit"]
        self._limit = as_tensor(limit) if is_number(limit, 0) else limit

    def update(self, weight: WeightGradient) -> None:
        """Updates a weight and its moments.

        Args:
            weight: The weight and its gradient.
        """
        step = self._moments.step(weight, self._decay)
        square = product(ops.lamb_square(step), self._correction_square)
        updates.adam_var_update(
            weight.weight,
            step,
            ops.lamb_square(weight.weight),
            as_tensor(square),
            learning_rate=self._rate,
            max_weight_norm=self._limit,
        )


class RmsProp:
    """x = g / (sqrt(s) + eps), or g / sqrt(s + eps) as TensorFlow has it; w -= rate x, or with a
    velocity.

    Args:
        group: The group.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._step = negative(group.factors["rate"])

    def update(self, weight: WeightGradient) -> None:
        """Updates a weight and its state.

        Args:
            weight: The weight and its gradient.
        """
        group = self._group
        step = self._direction(weight)
        if has_no_velocity(group.settings):
            ops.scaled_add_(weight.weight, step, b=self._step)
            return
        with_rate = group.values.use_tf_variant
        velocity = _updated(
            group.variables.state("Accl2", weight, group.values.first_type),
            lambda b: ops.scaled_add_(
                b,
                step,
                a=group.factors["momentum"],
                b=group.factors["rate"] if with_rate else 1.0,
            ),
        )
        ops.scaled_add_(weight.weight, velocity, b=-1.0 if with_rate else self._step)

    def _direction(self, weight: WeightGradient) -> popxl.Tensor:
        group, factors = self._group, self._group.factors
        gradient = as_float32(group.scaled_gradient(weight))
        spread = self._mean_square(weight, gradient)
        epsilon = as_tensor(factors["eps"])
        if group.values.use_tf_variant:
            return gradient / ops.sqrt(spread + epsilon)
        return gradient / (ops.sqrt(spread) + epsilon)

    def _mean_square(self, weight: WeightGradient, gradient: popxl.Tensor) -> popxl.Tensor:
        group, values, alpha = self._group, self._group.values, self._group.factors["alpha"]
        begin = 1.0 if values.use_tf_variant else 0.0
        square = _updated(
            group.variables.state("Accl1", weight, values.second_type, begin),
            lambda s: updates.accumulate_moving_average_square_(s, gradient, f=alpha),
        )
        if values.kind != OptimizerKind.RMSPROP_CENTERED:
            return square
        mean = _updated(
            group.variables.state("Accl3", weight, values.first_type),
            lambda a: updates.accumulate_moving_average_(a, gradient, f=alpha),
        )
        # Rounding may leave less than 0, whose root is NaN.
        return ops.clip(square - mean * mean, min=0.0)


def make_rule(group: Group, step: Factor) -> Rule:
    """Make the rule of a group.

    Args:
        group: The group.
        step: The number of this step, a tensor if the kind counts steps.

    Returns:
        The rule.
    """
    kind = group.values.kind
    if kind in (OptimizerKind.SGD1, OptimizerKind.SGD2):
        if has_no_velocity(group.settings):
            return PlainSgd(group)
        return Momentum(group)
    if kind in (OptimizerKind.RMSPROP, OptimizerKind.RMSPROP_CENTERED):
        return RmsProp(group)
    if kind in (OptimizerKind.LAMB, OptimizerKind.LAMB_NO_BIAS):
        return Lamb(group, step if isinstance(step, popxl.Tensor) else None)
    assert isinstance(step, popxl.Tensor), "Adam counts its steps"
    return Adam(group, step)
