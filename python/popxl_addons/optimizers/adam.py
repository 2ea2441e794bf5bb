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


Moments: TypeAlias = tuple[popxl.Tensor, popxl.Tensor, popxl.Tensor | None]


def _update(
    var: popxl.Tensor,
    grad: popxl.Tensor,
    moments: Moments,
    lr: Number,
    lazy: bool,
    **factors: Number,
) -> None:
    first, second, step = moments
    updates = ops.var_updates
    if lazy:
        updates.sparse_adam_(
            var,
            first,
            second,
            grad,
            learning_rate=lr,
            time_step=step,
            weight_decay=factors["weight_decay"],
            beta1=factors["beta1"],
            beta2=factors["beta2"],
            epsilon=factors["epsilon"],
        )
        return
    updates.accumulate_moving_average_(first, grad, f=factors["beta1"])
    updates.accumulate_moving_average_square_(second, grad, f=factors["beta2"])
    update = updates.adam_updater(first, second, weight=var, time_step=step, **factors)
    ops.scaled_add_(var, update, b=-lr)


class AdamOptimizerStep(Module):
    """An Adam update of one variable in place.

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        var = var - lr (m' / (sqrt(v') + eps) + weight_decay var)

    m' and v' are m / (1 - beta1^t) and v / (1 - beta2^t) with bias correction, else m and v. State:
    `first_order`, `second_order` and, with bias correction, `step`. A lazy update leaves the rows
    of the variable, and of its moments, whose gradient is all 0.
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
        lazy: bool = False,
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
            lazy: Whether rows (along axis 0) in which the gradient is all 0 stay as they are, with
                their moments, as in PyTorch's `SparseAdam`. For tables of which each step looks up
                few rows: no gradient of the size of the table is made, unless something else reads
                it.

        Raises:
            ValueError: `lazy`, and the variable is a shard, which has no rows.
        """
        if lazy and var.meta_shape:
            raise ValueError(
                f"AdamOptimizerStep: lazy updates rows of a whole variable; '{var.name}' is a "
                f"shard {var.shape} of {var.meta_shape}: use lazy=False or a whole variable"
            )
        grad = _scaled_gradient(grad, loss_scaling, global_norm, global_norm_max)
        first = self._state("first_order", var, first_order_dtype, replica_grouping)
        second = self._state("second_order", var, popxl.float32, replica_grouping)
        step = None
        if bias_correction:
            zero = partial(np.zeros, ())
            step = self.add_variable_input("step", zero, popxl.float32, by_ref=True)
        factors = {"weight_decay": weight_decay, "beta1": beta1, "beta2": beta2, "epsilon": eps}
        _update(var, grad, (first, second, step), lr, lazy, **factors)

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
