"""Gradient descent, one graph per kind of variable.

No `from __future__ import annotations` here: popxl recognises TensorByRef as an object only.
"""

import popxl
from popxl import ops
from popxl_addons.optimizers.step import (
    Number,
    OptimizerStep,
    current_weight,
    scaled_gradient,
    take_step,
    update_where,
)


def _is_used(factor: Number) -> bool:
    return isinstance(factor, popxl.Tensor) or factor != 0


def _update(
    *,
    var: popxl.Tensor,
    velocity: popxl.Tensor | None,
    master: popxl.Tensor | None,
    grad: popxl.Tensor,
    loss_scaling: Number,
    global_norm: popxl.Tensor | None,
    global_norm_max: Number | None,
    lr: Number,
    momentum: Number,
    nesterov: bool,
    weight_decay: Number,
) -> None:
    grad = scaled_gradient(grad, loss_scaling, global_norm, global_norm_max)
    weight = current_weight(var, master)
    if _is_used(weight_decay):
        grad = ops.scaled_add(ops.cast(grad, popxl.float32), weight, b=weight_decay)
    if velocity is not None:
        ops.var_updates.accumulator_scale_(velocity, momentum)
        ops.var_updates.accumulate_(velocity, grad)
        if nesterov:
            grad = ops.scaled_add(ops.cast(grad, popxl.float32), velocity, b=momentum)
        else:
            grad = velocity
    take_step(var, master, weight, grad, lr)


class SGDOptimizerStep(OptimizerStep):
    """A step of gradient descent of one variable in place, as `torch.optim.SGD` makes it.

        g = g + weight_decay var
        u = momentum u + g
        var = var - lr u

    With Nesterov's momentum g + momentum u takes the place of u in the last line. State: with
    momentum `velocity`, and with a master weight `master_weight`.
    """

    @popxl.in_sequence()
    def build(
        self,
        var: popxl.TensorByRef,
        grad: popxl.Tensor,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        *,
        lr: Number,
        momentum: Number = 0.0,
        nesterov: bool = False,
        weight_decay: Number = 0.0,
        velocity_dtype: popxl.dtype = popxl.float32,
        loss_scaling: Number = 1,
        global_norm: popxl.Tensor | None = None,
        global_norm_max: Number | None = None,
        master_weight: bool = False,
        finite: popxl.Tensor | None = None,
    ) -> None:
        """Updates the variable.

        Numbers given as TensorSpec become inputs of the graph, others are fixed in it.

        Args:
            var: The variable, changed in place; whole or a shard.
            grad: Its gradient, of the same shape.
            replica_grouping: The grouping of the state; None means all replicas.
            lr: The learning rate.
            momentum: The share of the velocity that stays; the number 0 means that there is none.
            nesterov: Whether the step looks ahead by one more share of the velocity.
            weight_decay: The share of the variable that is added to the gradient.
            velocity_dtype: The dtype of the velocity.
            loss_scaling: The gradient is divided by it.
            global_norm: The norm of all gradients, a scalar; None means that none is cut.
            global_norm_max: Gradients are made shorter where `global_norm` exceeds it.
            master_weight: As for `AdamOptimizerStep`.
            finite: As for `AdamOptimizerStep`.

        Raises:
            ValueError: `nesterov` without momentum, or the master weight of a variable of a dtype
                that is not float16 or bfloat16.
        """
        if nesterov and not _is_used(momentum):
            raise ValueError(
                f"SGDOptimizerStep: nesterov needs momentum; given momentum={momentum!r}"
            )
        velocity = None
        if _is_used(momentum):
            velocity = self._state("velocity", var, velocity_dtype, replica_grouping)
        changed = {
            "var": var,
            "velocity": velocity,
            "master": self._master_weight(master_weight, var, replica_grouping),
        }
        norms = {"global_norm": global_norm, "global_norm_max": global_norm_max}
        factors = {"momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay}
        read = {"grad": grad, "loss_scaling": loss_scaling, **norms, "lr": lr, **factors}
        update_where(finite, _update, changed, read)
