"""The update of the weights in a training program."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import popxl
from poptorch._lower.loss_scaling import AutomaticLossScaling, LossScale
from poptorch._lower.update_rules import Group, Rule, make_rule
from poptorch._lower.update_variables import (
    Factor,
    MakeVariable,
    PlacedWeight,
    UpdateState,
    UpdateVariables,
    WeightGradient,
    as_tensor,
    brought_home,
    home_of,
    is_number,
    moved,
    on_device,
    product,
)
from poptorch._optimizer_scalars import global_scalars
from poptorch._optimizer_values import OptimizerKind, OptimizerValues
from popxl import ops

_COUNTS_STEPS = (
    OptimizerKind.ADAM,
    OptimizerKind.ADAMW,
    OptimizerKind.ADAMW_NO_BIAS,
    OptimizerKind.LAMB,
)


def square_sum(weight: WeightGradient) -> popxl.Tensor:
    """Sum the squares of a gradient.

    Args:
        weight: The weight with its gradient.

    Returns:
        The sum of those of all groups of replicas: a float32 scalar on the home device.
    """
    with on_device(weight.device):
        square = ops.lamb_square(weight.gradient)
        grouping = weight.grouping
        if grouping is not None and grouping.num_groups > 1:
            all_groups = grouping.transpose()
            square = ops.collectives.replicated_all_reduce(square, "add", all_groups)
    return brought_home(square, weight.device)


def _gradient_scale(
    values: OptimizerValues,
    squares: popxl.Tensor | None,
    variables: UpdateVariables,
    loss_scale: Factor,
) -> Factor:
    """What gradients are multiplied by: without the loss scale, and with a norm in its limit."""
    inverse: Factor = 1.0
    if isinstance(loss_scale, popxl.Tensor):
        inverse = popxl.constant(1.0, popxl.float32) / loss_scale
    elif loss_scale != 1:
        inverse = 1.0 / loss_scale
    if squares is None:
        return inverse
    norm = as_tensor(product(ops.sqrt(squares), inverse))
    limit = as_tensor(variables.scalar(global_scalars(values)["max_grad_norm"]))
    share = ops.clip(limit / (norm + 1e-6), max=1.0)
    return share if is_number(inverse, 1) else product(inverse, share)


class Updates:
    """One update of the weights, made in the current graph step by step.

    First what all weights share, as the count of steps, then `update` for each weight, at last
    `finish`.

    Args:
        values: What the program takes of its optimizer.
        groups: The weights of each parameter group that will be updated, at least one.
        make_variable: Makes variables of the main graph.
        automatic: The settings of automatic loss scaling, if it is on.
        squares: The sum of squares of the gradients of all weights, where the optimizer limits
            their norm (`values.clips`).
    """

    def __init__(
        self,
        values: OptimizerValues,
        groups: Sequence[Sequence[PlacedWeight]],
        make_variable: MakeVariable,
        automatic: AutomaticLossScaling | None = None,
        squares: popxl.Tensor | None = None,
    ) -> None:
        weights = [weight for group in groups for weight in group]
        self._variables = UpdateVariables(make_variable)
        self._home = home_of(weights)
        self._index = {weight.name: i for i, group in enumerate(groups) for weight in group}
        self._rules: dict[tuple[int, int | None], Rule] = {}
        with popxl.in_sequence(), on_device(self._home):
            self._loss_scale = LossScale(values, self._variables, automatic)
            factor = self._loss_scale.factor()
            scale = _gradient_scale(values, squares, self._variables, factor)
            step: Factor = 0.0
            if values.kind in _COUNTS_STEPS:
                one = popxl.constant(1.0, popxl.float32)
                count = self._variables.shared_count(weights)
                step = ops.var_updates.accumulate_(count, one)
            for index, members in enumerate(groups):
                for device in dict.fromkeys(weight.device for weight in members):
                    group = Group(values, index, self._variables, scale, device)
                    moved_step = moved(step, device)
                    with on_device(device):
                        self._rules[index, device] = make_rule(group, moved_step)

    def update(self, weight: WeightGradient) -> None:
        """Update a weight in place.

        Args:
            weight: One of the weights, with its gradient.
        """
        with popxl.in_sequence(), on_device(weight.device):
            self._rules[self._index[weight.name], weight.device].update(weight)

    def finish(self) -> UpdateState:
        """End the update.

        Returns:
            The names of the variables that the rules made.
        """
        with popxl.in_sequence(), on_device(self._home):
            self._variables.finish()
            self._loss_scale.adapt()
        return self._variables.noted


def add_updates(
    values: OptimizerValues,
    groups: Sequence[Sequence[WeightGradient]],
    make_variable: MakeVariable,
    automatic: AutomaticLossScaling | None = None,
) -> UpdateState:
    """Update weights, once, in the current graph.

    With automatic loss scaling, `LossScale.observe` must have seen the gradients of the step, and
    its ops must be in sequence with these.

    Args:
        values: What the program takes of its optimizer.
        groups: The weights of each parameter group that have a gradient, with it.
        make_variable: Makes variables of the main graph.
        automatic: The settings of automatic loss scaling, if it is on.

    Returns:
        The names of the variables that the rule made.
    """
    weights = [weight for group in groups for weight in group]
    if not weights:
        return UpdateState()
    with popxl.in_sequence():
        squares = None
        if values.clips:
            with on_device(home_of(weights)):
                squares = functools.reduce(ops.add, [square_sum(weight) for weight in weights])
        updates = Updates(values, groups, make_variable, automatic, squares)
        for weight in weights:
            updates.update(weight)
        return updates.finish()
