"""LAMB, one graph per kind of variable.

No `from __future__ import annotations` here: popxl recognises TensorByRef as an object only.
"""

import popxl
from popxl import ops
from popxl_addons.optimizers.step import (
    Number,
    OptimizerStep,
    current_weight,
    scaled_gradient,
    set_weight,
    update_where,
)


def _update(
    *,
    var: popxl.Tensor,
    first: popxl.Tensor,
    second: popxl.Tensor,
    step: popxl.Tensor | None,
    master: popxl.Tensor | None,
    grad: popxl.Tensor,
    loss_scaling: Number,
    global_norm: popxl.Tensor | None,
    global_norm_max: Number | None,
    lr: Number,
    max_weight_norm: Number | None,
    **factors: Number,
) -> None:
    grad = scaled_gradient(grad, loss_scaling, global_norm, global_norm_max)
    updates = ops.var_updates
    updates.accumulate_moving_average_(first, grad, f=factors["beta1"])
    updates.accumulate_moving_average_square_(second, grad, f=factors["beta2"])
    weight = current_weight(var, master)
    change = updates.lamb_updater(first, second, weight=weight, time_step=step, **factors)
    norms = ops.lamb_square(weight), ops.lamb_square(change)
    if master is None:
        updates.adam_var_update(var, change, *norms, lr, max_weight_norm)
    else:
        set_weight(
            var, master, updates.adam_var_update(weight, change, *norms, lr, max_weight_norm)
        )


class LAMBOptimizerStep(OptimizerStep):
    """A LAMB update of one variable in place (https://arxiv.org/abs/1904.00962).

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        r = m' / (sqrt(v') + eps) + weight_decay var
        var = var - lr min(|var|, max_weight_norm) / |r| r

    m' and v' are m / (1 - beta1^t) and v / (1 - beta2^t) with bias correction, else m and v; the
    ratio is 1 where a norm is 0. State: `first_order`, `second_order`, with bias correction `step`,
    and with a master weight `master_weight`.
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
        eps: float = 1e-6,
        weight_decay: Number = 1e-2,
        max_weight_norm: Number | None = None,
        first_order_dtype: popxl.dtype = popxl.float16,
        bias_correction: bool = True,
        loss_scaling: Number = 1,
        global_norm: popxl.Tensor | None = None,
        global_norm_max: Number | None = None,
        master_weight: bool = False,
        finite: popxl.Tensor | None = None,
    ) -> None:
        """Updates the variable.

        Numbers given as TensorSpec become inputs of the graph, others are fixed in it.

        Args:
            var: The variable, changed in place; whole, or a shard of which all replicas hold one
                each.
            grad: Its gradient, of the same shape.
            replica_grouping: The grouping of the state; None means all replicas.
            lr: The learning rate.
            beta1: The decay of the first moment.
            beta2: The decay of the second moment.
            eps: Added to the root of the second moment.
            weight_decay: The share of the variable that is added to the step.
            max_weight_norm: The limit of the norm of the variable in the ratio; None: no limit.
            first_order_dtype: The dtype of the first moment; the second one is float32.
            bias_correction: Whether the moments are corrected for having begun at zero.
            loss_scaling: The gradient is divided by it.
            global_norm: The norm of all gradients, a scalar; None means that none is cut.
            global_norm_max: Gradients are made shorter where `global_norm` exceeds it.
            master_weight: As for `AdamOptimizerStep`.
            finite: As for `AdamOptimizerStep`.

        Raises:
            ValueError: The master weight of a variable of a dtype that is not float16 or bfloat16.
        """
        changed = {
            "var": var,
            **self._moments(var, first_order_dtype, bias_correction, replica_grouping),
            "master": self._master_weight(master_weight, var, replica_grouping),
        }
        norms = {"global_norm": global_norm, "global_norm_max": global_norm_max}
        factors = {"weight_decay": weight_decay, "beta1": beta1, "beta2": beta2, "epsilon": eps}
        read = {"grad": grad, "loss_scaling": loss_scaling, **norms, "lr": lr, **factors}
        update_where(finite, _update, changed, {**read, "max_weight_norm": max_weight_norm})
