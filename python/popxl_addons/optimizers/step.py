"""What the updates of one variable have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import popxl
from popxl import ops
from popxl_addons.module import Module

Number: TypeAlias = float | popxl.Tensor


def scaled_gradient(
    grad: popxl.Tensor,
    loss_scaling: Number,
    global_norm: popxl.Tensor | None,
    global_norm_max: Number | None,
) -> popxl.Tensor:
    """The gradient without loss scaling, made shorter where its global norm is too large.

    Args:
        grad: The gradient.
        loss_scaling: What it was multiplied by.
        global_norm: The norm of all gradients without the scaling; None means that none is cut.
        global_norm_max: Gradients are made shorter where `global_norm` exceeds it.

    Returns:
        A float32 tensor; the gradient itself where nothing is to be done.
    """
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


def update_where(
    finite: popxl.Tensor | None,
    update: Callable[..., None],
    changed: Mapping[str, popxl.Tensor | None],
    read: Mapping[str, Any],
) -> None:
    """Makes an update, or leaves everything as it is where the gradients are not finite.

    Args:
        finite: Whether the update is made, a bool scalar; None means always, in the current graph.
            Else it is made in a graph of its own, which runs only where this is true.
        update: Creates its ops; called with everything in `changed` and `read` by name.
        changed: The tensors that it writes.
        read: The tensors that it reads, and other values.
    """
    if finite is None:
        update(**changed, **read)
        return
    ir = popxl.gcg().ir
    again, body = ir.create_empty_graph("update_again"), ir.create_empty_graph("update")
    with again:
        popxl.graph_output(ops.identity(popxl.graph_input((), popxl.bool, "go_on")))
    given: list[popxl.Tensor] = [finite]
    values: dict[str, Any] = {}
    with body, popxl.in_sequence():
        go_on = popxl.graph_input((), popxl.bool, "go_on")
        for name, value in {**changed, **read}.items():
            values[name] = value
            if isinstance(value, popxl.Tensor):
                given.append(value)
                values[name] = popxl.graph_input(
                    value.shape, value.dtype, name, name in changed, value.meta_shape
                )
        update(**values)
        popxl.graph_output(ops.logical_not(go_on))
    ops.while_loop(again, body, *given)


def current_weight(var: popxl.Tensor, master: popxl.Tensor | None) -> popxl.Tensor:
    """What an update starts from: the variable, or its master weight.

    Args:
        var: The variable.
        master: Its master weight; None means that it has none.

    Returns:
        The variable itself; or a new tensor, the master weight, where the variable is that when it
        is rounded, and elsewhere the variable, which somebody has written since.
    """
    if master is None:
        return var
    is_followed = ops.equal(ops.cast(master, var.dtype), var)
    return ops.where(is_followed, master, ops.cast(var, master.dtype))


def set_weight(var: popxl.Tensor, master: popxl.Tensor, value: popxl.Tensor) -> None:
    """Writes a master weight and, rounded, its variable.

    Args:
        var: The variable.
        master: Its master weight.
        value: The new value, in the dtype of the master weight.
    """
    ops.var_updates.copy_var_update_(master, value)
    ops.var_updates.copy_var_update_(var, ops.cast(value, var.dtype))


def take_step(
    var: popxl.Tensor,
    master: popxl.Tensor | None,
    weight: popxl.Tensor,
    change: popxl.Tensor,
    lr: Number,
) -> None:
    """Subtracts a step: var = weight - lr change.

    Args:
        var: The variable.
        master: Its master weight, which becomes the same; None means that it has none.
        weight: What `current_weight` gave.
        change: The step.
        lr: The learning rate.
    """
    if master is None:
        ops.scaled_add_(var, change, b=-lr)
    else:
        set_weight(var, master, ops.scaled_add(weight, change, b=-lr))


class OptimizerStep(Module):
    """The update of one variable in place: what optimisers are made of."""

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

    def _master_weight(
        self,
        wanted: bool,
        var: popxl.Tensor,
        replica_grouping: popxl.ReplicaGrouping | None,
    ) -> popxl.Tensor | None:
        """Zeros, which `current_weight` takes for the variable; None where none is wanted."""
        if not wanted:
            return None
        if var.dtype not in (popxl.float16, popxl.bfloat16):
            raise ValueError(
                f"{type(self).__qualname__}: master_weight is for variables of float16 or "
                f"bfloat16; '{var.name}' has {var.dtype.name}: use master_weight=False"
            )
        return self._state("master_weight", var, popxl.float32, replica_grouping)

    def _moments(
        self,
        var: popxl.Tensor,
        first_order_dtype: popxl.dtype,
        bias_correction: bool,
        replica_grouping: popxl.ReplicaGrouping | None,
    ) -> dict[str, popxl.Tensor | None]:
        """The moving averages of the gradient and of its square, and the number of steps."""
        first = self._state("first_order", var, first_order_dtype, replica_grouping)
        second = self._state("second_order", var, popxl.float32, replica_grouping)
        step = None
        if bias_correction:
            zero = partial(np.zeros, ())
            step = self.add_variable_input("step", zero, popxl.float32, by_ref=True)
        return {"first": first, "second": second, "step": step}
