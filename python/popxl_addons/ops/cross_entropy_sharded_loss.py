"""Cross entropy over classes that are split over replicas."""

from __future__ import annotations

import numpy as np

import popxl
from popart import popart_exception
from popxl import ops
from popxl_addons.ops.replicated_all_reduce_TP import replicated_all_reduce_identical_grad_inputs

__all__ = ["cross_entropy_sharded_loss"]


def picked_logit(logits: popxl.Tensor, indices: popxl.Tensor) -> popxl.Tensor:
    """logits[i, indices[i]] (n,); zero where the index is out of range."""
    classes = popxl.constant(np.arange(logits.shape[1])[None], popxl.int32, "classes")
    column = ops.reshape(ops.cast(indices, popxl.int32), (indices.shape[0], 1))
    zero = popxl.constant(0, logits.dtype, "zero")
    return ops.sum(ops.where(ops.equal(column, classes), logits, zero), axis=1)


def check_logits(name: str, logits: popxl.Tensor, indices: popxl.Tensor) -> None:
    """popart_exception unless logits are (n, classes) and indices (n,)."""
    if logits.rank != 2 or indices.shape != logits.shape[:1]:
        raise popart_exception(
            f"{name}: wanted logits (n, classes) and indices (n,); given {logits} and {indices}"
        )


def _reduced(loss: popxl.Tensor, counted: popxl.Tensor | None, reduction: str) -> popxl.Tensor:
    """`loss` (n,) reduced over the samples; `counted` (n,) is 0 for those that do not count."""
    if counted is not None:
        zero = popxl.constant(0, loss.dtype, "zero")
        loss = ops.where(counted, loss, zero)
    if reduction == "none":
        return loss
    total = ops.sum(loss)
    if reduction == "sum":
        return total
    if counted is None:
        return total * (1.0 / loss.shape[0])
    return total / ops.sum(ops.cast(counted, loss.dtype))


def cross_entropy_sharded_loss(
    logits: popxl.Tensor,
    indices: popxl.Tensor,
    ignore_index: popxl.Tensor | None = None,
    replica_grouping: popxl.ReplicaGrouping | None = None,
    reduction: str = "mean",
    available_memory_proportion: float = 0.4,
) -> popxl.Tensor:
    """-log softmax of the true class over the classes of all members of the group.

    `logits` (n, classes of this member), `indices` (n,) and the tensor `ignore_index` count from
    the first class of this member and may lie outside its range. Computed in float32; the result,
    the same on all members, has the dtype of the logits: a scalar for the reductions "mean" and
    "sum", (n,) for "none" (else ValueError). The gradient, for the logits only, is
    softmax - onehot of the member's own classes. popart_exception for other shapes.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(
            f"cross_entropy_sharded_loss: wanted a reduction 'mean', 'sum' or 'none'; given "
            f"{reduction!r}"
        )
    check_logits("cross_entropy_sharded_loss", logits, indices)
    x = ops.cast(logits, popxl.float32)
    largest = ops.max(ops.detach(x), axis=1, keepdims=True)
    x = x - ops.collectives.replicated_all_reduce(largest, "max", replica_grouping)
    total = replicated_all_reduce_identical_grad_inputs(
        ops.sum(ops.exp(x), axis=1), group=replica_grouping
    )
    picked = replicated_all_reduce_identical_grad_inputs(
        picked_logit(x, indices), group=replica_grouping
    )
    counted = None
    if ignore_index is not None:
        counted = ops.logical_not(ops.equal(indices, ops.cast(ignore_index, indices.dtype)))
    return ops.cast(_reduced(ops.log(total) - picked, counted, reduction), logits.dtype)
