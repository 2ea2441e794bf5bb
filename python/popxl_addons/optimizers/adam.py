"""Adam, one graph per kind of variable.

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


def _check_lazy(var: popxl.Tensor, master_weight: bool) -> None:
    if not (var.meta_shape or master_weight):
        return
    shard = f"is a shard {var.shape} of {var.meta_shape}"
    raise ValueError(
        "AdamOptimizerStep: lazy updates rows of a whole variable without a master weight; "
        f"'{var.name}' {shard if var.meta_shape else 'was to have one'}: use lazy=False"
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
    lazy: bool,
    weight_decay: Number,
    beta1: Number,
    beta2: Number,
    epsilon: float,
) -> None:
    grad = scaled_gradient(grad, loss_scaling, global_norm, global_norm_max)
    updates = ops.var_updates
    if lazy:
        updates.sparse_adam_(
            var,
            first,
            second,
            grad,
            learning_rate=lr,
            time_step=step,
            weight_decay=weight_decay,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
        )
        return
    updates.accumulate_moving_average_(first, grad, f=beta1)
    updates.accumulate_moving_average_square_(second, grad, f=beta2)
    weight = current_weight(var, master)
    factors = (weight_decay, beta1, beta2, epsilon)
    change = updates.adam_updater(first, second, weight, step, *factors)
    take_step(var, master, weight, change, lr)


class AdamOptimizerStep(OptimizerStep):
    """An Adam update of one variable in place.

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        var = var - lr (m' / (sqrt(v') + eps) + weight_decay var)

    m' and v' are m / (1 - beta1^t) and v / (1 - beta2^t) with bias correction, else m and v: with
    it, this is AdamW. State: `first_order`, `second_order`, with bias correction `step`, and with
    a master weight `master_weight`. A lazy update leaves the rows of the variable, and of its
    moments, whose gradient is all 0.

    A master weight is the variable in float32, which is what is updated: the variable, of float16
    or bfloat16, becomes that, rounded. What is written to the variable between steps becomes its
    master weight.
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
                their moments, as in PyTorch's `SparseAdam`. Where each step looks up few rows of a
                table, no gradient of its size is made unless something else reads it.
            master_weight: Whether the variable has a master weight.
            finite: Whether the update is made, a bool scalar, as `popxl_addons.ops.all_finite`
                gives it; else the variable and its state stay as they are. None means always.

        Raises:
            ValueError: `lazy`, and the variable is a shard, which has no rows, or has a master
                weight; `master_weight` for a variable of another dtype.
        """
        if lazy:
            _check_lazy(var, master_weight)
        changed = {
            "var": var,
            **self._moments(var, first_order_dtype, bias_correction, replica_grouping),
            "master": self._master_weight(master_weight, var, replica_grouping),
        }
        norms = {"global_norm": global_norm, "global_norm_max": global_norm_max}
        factors = {"weight_decay": weight_decay, "beta1": beta1, "beta2": beta2, "epsilon": eps}
        read = {"grad": grad, "loss_scaling": loss_scaling, **norms, "lr": lr, **factors}
        update_where(finite, _update, changed, {**read, "lazy": lazy})
