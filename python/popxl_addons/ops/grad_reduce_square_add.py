"""The squared norm of a gradient."""

from __future__ import annotations

import popxl
from popxl import ops

__all__ = ["grad_reduce_square_add"]


def grad_reduce_square_add(t: popxl.Tensor, loss_scaling: float | popxl.Tensor) -> popxl.Tensor:
    """The squared norm of a gradient: the sum of (t / loss_scaling)^2.

    Args:
        t: A tensor of any shape, float.
        loss_scaling: What the gradient is divided by, a number or a scalar tensor.

    Returns:
        A float32 scalar without a gradient.
    """
    unscaled = ops.cast(ops.detach(t), popxl.float32)
    if not isinstance(loss_scaling, popxl.Tensor):
        loss_scaling = popxl.constant(loss_scaling, popxl.float32, "loss_scaling")
    return ops.sumsquare(unscaled / ops.cast(loss_scaling, popxl.float32))
