"""The loss scale of a training program, fixed or found by watching half precision gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import popxl
from poptorch._lower.update_variables import (
    Factor,
    UpdateVariables,
    WeightGradient,
    as_tensor,
    brought_home,
    home_of,
    on_device,
    product,
)
from poptorch._optimizer_scalars import global_scalars
from poptorch._optimizer_values import OptimizerValues, Value
from popxl import ops

_SETTINGS = "automaticLossScalingSettings."
_LARGEST_HALF = 65504.0
_SMALLEST_NORMAL_HALF = 2.0**-14


@dataclass(frozen=True)
class AutomaticLossScaling:
    """Settings of automatic loss scaling.

    Attributes:
        update_period: How many weight updates there are from one change of the scale to the next.
        bin_edge: The share of the largest half precision value above which a gradient is large.
        threshold: The share of large elements above which the scale is halved; else it is doubled.
    """

    update_period: int = 1
    bin_edge: float = 0.125
    threshold: float = 1e-7


def automatic_loss_scaling(settings: Mapping[str, Any]) -> AutomaticLossScaling | None:
    """Read the settings of automatic loss scaling.

    Args:
        settings: The options `automaticLossScalingSettings.` of `Options._Popart`.

    Returns:
        The settings; None if it is off.

    Raises:
        ValueError: A setting is out of range.
    """
    if not settings.get(f"{_SETTINGS}enabled", False):
        return None
    chosen = AutomaticLossScaling()
    for field, name in (
        ("update_period", "updatePeriod"),
        ("bin_edge", "binEdgeLocation"),
        ("threshold", "thresholdUpperCountProportion"),
    ):
        if f"{_SETTINGS}{name}" in settings:
            chosen = replace(chosen, **{field: settings[f"{_SETTINGS}{name}"]})
    in_range = {
        "updatePeriod >= 1": chosen.update_period >= 1,
        "binEdgeLocation in (0, 1)": 0 < chosen.bin_edge < 1,
        "thresholdUpperCountProportion in [0, 1]": 0 <= chosen.threshold <= 1,
    }
    for wanted, is_right in in_range.items():
        if not is_right:
            raise ValueError(f"{_SETTINGS}: wanted {wanted}; given {chosen}")
    return chosen


def with_variable_loss_scaling(values: OptimizerValues) -> OptimizerValues:
    """Make the loss scale variable, as automatic loss scaling needs it.

    Args:
        values: What the program takes of its optimizer.

    Returns:
        The same with a variable loss scale.
    """
    return replace(values, loss_scaling=Value(values.loss_scaling.number, False))


class LossScale:
    """The loss scale in one graph.

    Args:
        values: What the program takes of its optimizer.
        variables: Makes variables of the current graph.
        automatic: The settings of automatic loss scaling; None: the scale is that of the optimizer.
    """

    def __init__(
        self,
        values: OptimizerValues,
        variables: UpdateVariables,
        automatic: AutomaticLossScaling | None,
    ) -> None:
        self._variables = variables
        self._automatic = automatic
        self._chosen = variables.scalar(global_scalars(values)["loss_scaling"])

    def _state(self, name: str, value: float = 0.0) -> popxl.Tensor:
        return self._variables.scalar_state(name, value)

    def factor(self) -> Factor:
        """Give what the seed of the gradient is multiplied by.

        Returns:
            The scale, a number if it is compiled in.
        """
        if self._automatic is None:
            return self._chosen
        return product(self._chosen, self._state("lossScaleUpdateFactor", 1.0))

    def counters(self) -> list[popxl.Tensor]:
        """Give what `observe` writes to.

        Returns:
            How many elements were large, and how many there were; nothing if the scale is fixed.
        """
        if self._automatic is None:
            return []
        return [self._state("lossScaleLargeCount"), self._state("lossScaleSeenCount")]

    def observe(
        self, gradients: Sequence[WeightGradient], counters: Sequence[popxl.Tensor]
    ) -> None:
        """Count the elements of half precision gradients, and the large ones among them.

        Args:
            gradients: Gradients as the backward pass makes them; those in float32 do not count.
            counters: The counters, in the current graph.
        """
        half = [one for one in gradients if one.gradient.dtype == popxl.float16]
        if not counters or not half:
            return
        elements = float(sum(one.gradient.nelms for one in half))
        with on_device(home_of(half)):
            large = self._large(half[0])
            for one in half[1:]:
                large = large + self._large(one)
            seen = popxl.constant(elements, popxl.float32)
            for counter, count in zip(counters, (large, seen), strict=True):
                ops.var_updates.accumulate_(counter, count)

    def _large(self, one: WeightGradient) -> popxl.Tensor:
        """The number of elements that are large, or NaN."""
        assert self._automatic is not None
        with on_device(one.device):
            edge = popxl.constant(self._automatic.bin_edge * _LARGEST_HALF, popxl.float16)
            is_large = ops.greater(ops.abs(one.gradient), edge)
            is_large = ops.logical_or(is_large, ops.isnan(one.gradient))
            count = ops.sum(ops.cast(is_large, popxl.float32))
        return brought_home(count, one.device)

    def adapt(self) -> None:
        """Choose the next scale, after an update of the weights. `finalLossScale` is the last one.

        A scale that half precision cannot represent, or only as a denormal, is not taken.
        """
        if self._automatic is None:
            return
        self._variables.shown("finalLossScale", as_tensor(self.factor()))
        counters = self.counters()
        large, seen = self._over_replicas(counters)
        factor = self._state("lossScaleUpdateFactor", 1.0)
        zero = popxl.constant(0.0, popxl.float32)
        is_due = ops.greater(seen, zero)
        if self._automatic.update_period > 1:
            is_due = ops.logical_and(is_due, self._period_ends())
        too_large = ops.greater(large, seen * self._automatic.threshold)
        new = ops.where(too_large, factor * 0.5, factor * 2.0)
        scale = as_tensor(product(self._chosen, new))
        too_far = ops.logical_or(
            ops.greater(scale, popxl.constant(_LARGEST_HALF, popxl.float32)),
            ops.greater(popxl.constant(_SMALLEST_NORMAL_HALF, popxl.float32), scale),
        )
        changes = ops.logical_and(is_due, ops.logical_not(too_far))
        copy = ops.var_updates.copy_var_update_
        copy(factor, ops.where(changes, new, factor))
        for counter in counters:
            copy(counter, ops.where(is_due, zero, counter))

    def _over_replicas(self, counts: Sequence[popxl.Tensor]) -> list[popxl.Tensor]:
        """What all replicas have counted, which choose one scale together."""
        if popxl.gcg().ir.replication_factor == 1:
            return list(counts)
        return [ops.collectives.replicated_all_reduce(count, "add") for count in counts]

    def _period_ends(self) -> popxl.Tensor:
        """Counts an update; whether it is the last one of a period."""
        assert self._automatic is not None
        period = popxl.constant(float(self._automatic.update_period), popxl.float32)
        updates = self._state("lossScaleUpdateCount")
        count = ops.var_updates.accumulate_(updates, popxl.constant(1.0, popxl.float32))
        ends = ops.logical_not(ops.greater(period, count))
        zero = popxl.constant(0.0, popxl.float32)
        ops.var_updates.copy_var_update_(updates, ops.where(ends, zero, count))
        return ends
