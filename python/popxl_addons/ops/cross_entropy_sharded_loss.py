"""Cross entropy over classes that are split over replicas."""

from __future__ import annotations

import numpy as np

import popxl
from popart import popart_exception
from popxl import ops
from popxl_addons.ops.replicated_all_reduce_TP import replicated_all_reduce_identical_grad_inputs

__all__ = ["cross_entropy_sharded_loss"]


def picked_logit(logits: popxl.Tensor, indices: popxl.Tensor) -> popxl.Tensor:
    """The score of the true class.

    Args:
        logits: Scores (n, classes).
        indices: Classes (n,), integer.

    Returns:
        `logits[i, indices[i]]` (n,); zero where the index is out of range.
    """
    classes = popxl.constant(np.arange(logits.shape[1])[None], popxl.int32, "classes")
    column = ops.reshape(ops.cast(indices, popxl.int32), (indices.shape[0], 1))
    zero = popxl.constant(0, logits.dtype, "zero")
    return ops.sum(ops.where(ops.equal(column, classes), logits, zero), axis=1)


def check_logits(name: str, logits: popxl.Tensor, indices: popxl.Tensor) -> None:
    """Checks the shapes of scores and labels.

    Args:
        name: The op that the error names.
        logits: To be (n, classes).
        indices: To be (n,).

    Raises:
        popart_exception: They have other shapes.
    """
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
    """The negative log likelihood of class labels where the classes are split over replicas.

    Computed in float32. The gradient, for the logits only, is softmax - onehot of the member's own
    classes.

    Args:
        logits: Scores of this member's classes, (n, classes / members), float.
        indices: Classes (n,), integer, counted from the first class of this member; they may lie
            outside its range.
        ignore_index: A scalar tensor, counted likewise; labels equal to it count neither in the
            loss nor in the mean. None counts all.
        replica_grouping: The members of a group have the classes of the same samples; None means
            all replicas.
        reduction: "mean" or "sum" over the samples, or "none".
        available_memory_proportion: Has no effect.

    Returns:
        A scalar, or (n,) for "none", in the dtype of the logits and the same on all members.

    Raises:
        ValueError: The reduction is none of the three.
        popart_exception: The shapes are others.
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
