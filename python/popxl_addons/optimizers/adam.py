"""Adam, one graph per kind of variable.

No `from __future__ import annotations` here: popxl recognises TensorByRef as an object only.
"""

from functools import partial
from typing import TypeAlias

import numpy as np

import popxl
from popxl import ops
from popxl_addons.module import Module

Number: TypeAlias = float | popxl.Tensor


def _scaled_gradient(
    grad: popxl.Tensor,
    loss_scaling: Number,
    global_norm: popxl.Tensor | None,
    global_norm_max: Number | None,
) -> popxl.Tensor:
    """The gradient without loss scaling, made shorter where its global norm is too large."""
    scaled = isinstance(loss_scaling, popxl.Tensor) or loss_scaling != 1
    if not scaled and global_norm is None:
        return grad
    scale: popxl.Tensor = popxl.constant(1.0, popxl.float32)
    if scaled:
        scale = scale / loss_scaling
    if global_norm is not None:
        assert global_norm_max is not None, "global_norm needs global_norm_max"
        limit = (
            global_norm_max
            if isinstance(global_norm_max, popxl.Tensor)
            else popxl.constant(global_norm_max, popxl.float32)
        )
        scale = scale * (limit / ops.maximum(global_norm, limit))
    return ops.cast(grad, popxl.float32) * scale


class AdamOptimizerStep(Module):
    """An Adam update of one variable in place.

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        var = var - lr (m' / (sqrt(v') + eps) + weight_decay var)

    m' and v' are m / (1 - beta1^t) and v / (1 - beta2^t) with bias correction, else m and v. State:
    `first_order`, `second_order` and, with bias correction, `step`.
    """

    @popxl.in_sequence()
    def build(
        self,
        var: popxl.TensorByRef,
        grad: popxl.Tensor,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        *,
        lr: Number,
        beta1: Number = 0.9,
        beta2: Number = 0.999,
        eps: float = 1e-5,
        weight_decay: Number = 1e-2,
        first_order_dtype: popxl.dtype = popxl.float16,
        bias_correction: bool = True,
        loss_scaling: Number = 1,
        global_norm: popxl.Tensor | None = None,
        global_norm_max: Number | None = None,
    ) -> None:
        """Updates the variable.

        Numbers given as TensorSpec become inputs of the graph, others are fixed in it.

        Args:
            var: The variable, changed in place; whole or a shard.
            grad: Its gradient, of the same shape.
            replica_grouping: The grouping of the state; None means all replicas.
            lr: The learning rate.
            beta1: The decay of the first moment.
            beta2: The decay of the second moment.
            eps: Added to the root of the second moment.
            weight_decay: The share of the variable that is added to the step.
            first_order_dtype: The dtype of the first moment; the second one is float32.
            bias_correction: Whether the moments are corrected for having begun at zero.
            loss_scaling: The gradient is divided by it.
            global_norm: The norm of all gradients, a scalar; None means that none is cut.
            global_norm_max: Gradients are made shorter where `global_norm` exceeds it.
        """
        grad = _scaled_gradient(grad, loss_scaling, global_norm, global_norm_max)
        first = self._state("first_order", var, first_order_dtype, replica_grouping)
        ops.var_updates.accumulate_moving_average_(first, grad, f=beta1)
        second = self._state("second_order", var, popxl.float32, replica_grouping)
        ops.var_updates.accumulate_moving_average_square_(second, grad, f=beta2)
        step = None
        if bias_correction:
            zero = partial(np.zeros, ())
            step = self.add_variable_input("step", zero, popxl.float32, by_ref=True)
        update = ops.var_updates.adam_updater(
            first,
            second,
            weight=var,
            weight_decay=weight_decay,
            time_step=step,
            beta1=beta1,
            beta2=beta2,
            epsilon=eps,
        )
        ops.scaled_add_(var, update, b=-lr)

    def _state(
        self,
        name: str,
        var: popxl.Tensor,
        dtype: popxl.dtype,
        replica_grouping: popxl.ReplicaGrouping | None,
    ) -> popxl.Tensor:
        """Zeros as the variable is: whole, or one shard of it."""
        if not var.meta_shape:
            zeros = partial(np.zeros, var.shape)
            return self.add_variable_input(name, zeros, dtype, True, replica_grouping)
        shard_over = int(np.prod(var.meta_shape)) // int(np.prod(var.shape))
        zeros = partial(np.zeros, var.meta_shape)
        return self.add_replica_sharded_variable_input(
            name, zeros, dtype, True, replica_grouping, shard_over
        )
