"""The factor of the loss that keeps gradients of 16 bits in range."""

from __future__ import annotations

from functools import partial

import numpy as np

import popxl
from popxl import ops
from popxl_addons.module import Module


def _check(
    initial_scale: float, growth_factor: float, backoff_factor: float, growth_interval: int
) -> None:
    wanted = {
        "initial_scale": (initial_scale, 0 < initial_scale < np.inf, "a finite number above 0"),
        "growth_factor": (growth_factor, 1 < growth_factor < np.inf, "a finite number above 1"),
        "backoff_factor": (backoff_factor, 0 < backoff_factor < 1, "a number between 0 and 1"),
        "growth_interval": (
            growth_interval,
            isinstance(growth_interval, int) and growth_interval >= 1,
            "an int of 1 or more",
        ),
    }
    for name, (given, fits, what) in wanted.items():
        if not fits:
            raise ValueError(f"DynamicLossScaling: wanted {what} for {name}; given {given!r}")


class DynamicLossScaling(Module):
    """A loss scale that grows while gradients are finite, and shrinks when they are not.

    State: `scale`, a float32 scalar by which the loss, or its gradient, is multiplied, and
    `good_steps`, the number of steps with finite gradients since it changed, an int32 scalar. The
    rules are those of `torch.amp.GradScaler`.
    """

    @popxl.in_sequence()
    def build(
        self,
        finite: popxl.Tensor,
        *,
        initial_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        """Updates the scale; to be called once a step, behind all that reads it.

        Args:
            finite: Whether all gradients of the step are finite, a bool scalar.
            initial_scale: The scale of the first step.
            growth_factor: The scale is multiplied by it after `growth_interval` steps with finite
                gradients, unless it would overflow.
            backoff_factor: The scale is multiplied by it after a step with others.
            growth_interval: The number of those steps.

        Raises:
            ValueError: A number is out of its range.
        """
        _check(initial_scale, growth_factor, backoff_factor, growth_interval)
        start = partial(np.full, (), initial_scale)
        scale = self.add_variable_input("scale", start, popxl.float32, by_ref=True)
        zero = partial(np.zeros, ())
        good_steps = self.add_variable_input("good_steps", zero, popxl.int32, by_ref=True)

        count = good_steps + 1
        grows = ops.equal(count, popxl.constant(growth_interval, popxl.int32))
        larger = scale * growth_factor
        stays = ops.logical_not(ops.logical_and(grows, ops.isfinite(larger)))
        next_scale = ops.where(finite, ops.where(stays, scale, larger), scale * backoff_factor)
        goes_on = ops.logical_and(finite, ops.logical_not(grows))
        next_count = ops.where(goes_on, count, popxl.constant(0, popxl.int32))
        ops.var_updates.copy_var_update_(scale, next_scale)
        ops.var_updates.copy_var_update_(good_steps, next_count)
