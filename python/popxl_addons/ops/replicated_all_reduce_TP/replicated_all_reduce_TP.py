"""Reductions over replicas that can be differentiated, for tensor parallel layers."""

# ruff: noqa: N999

from __future__ import annotations

from popart import popart_exception
from popxl import ReplicaGrouping, Tensor
from popxl.context import get_current_graph
from popxl.ops.utils import check_inputs, make

__all__ = [
    "replicated_all_reduce",
    "replicated_all_reduce_identical_grad_inputs",
    "replicated_all_reduce_identical_inputs",
]


def tensor_parallel_all_reduce(
    t: Tensor,
    op: str,
    group: ReplicaGrouping | None,
    *,
    reduce: bool,
    reduce_gradient: bool,
    allowed: tuple[str, ...] = ("add",),
) -> Tensor:
    """A reduction over replicas whose gradient is or is not reduced.

    Args:
        t: A tensor of any shape, float.
        op: The reduction, one of `allowed`.
        group: The replicas; None means all.
        reduce: Whether `t` is reduced.
        reduce_gradient: Whether its gradient is reduced.
        allowed: What `op` may be.

    Returns:
        The reduced values, of the shape and dtype of `t`.

    Raises:
        popart_exception: `op` is not allowed.
        NotImplementedError: The grouping has no stride.
    """
    check_inputs(t=t)
    if op not in allowed:
        raise popart_exception(
            f"a differentiable all-reduce has op {' or '.join(map(repr, allowed))}; given {op!r}"
        )
    grouping = get_current_graph().ir.replica_grouping() if group is None else group
    if not grouping.is_const:
        raise NotImplementedError(f"a differentiable all-reduce: {grouping!r} has no stride")
    attributes: dict[str, object] = {
        "op": op,
        "reduce": reduce,
        "reduce_gradient": reduce_gradient,
        "stride": grouping.stride,
        "group_size": grouping.group_size,
    }
    return make(
        "TensorParallelAllReduce",
        [t],
        attributes,
        name=f"{t.name}_all_reduce",
        settings="replicated_all_reduce",
    )


def replicated_all_reduce(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """The sum over replicas; its gradient is the sum of the gradients.

    Args:
        t: A tensor of any shape, float.
        op: "add".
        group: The replicas; None means all.

    Returns:
        The sum, of the shape and dtype of `t`.

    Raises:
        popart_exception: `op` is another one.
        NotImplementedError: The grouping has no stride.
    """
    return tensor_parallel_all_reduce(t, op, group, reduce=True, reduce_gradient=True)


def replicated_all_reduce_identical_inputs(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """A tensor that is the same on all members of a group; its gradients are summed over them.

    Args:
        t: A tensor of any shape, float.
        op: "add".
        group: The replicas; None means all.

    Returns:
        The values of `t`.

    Raises:
        popart_exception: `op` is another one.
        NotImplementedError: The grouping has no stride.
    """
    return tensor_parallel_all_reduce(t, op, group, reduce=False, reduce_gradient=True)


def replicated_all_reduce_identical_grad_inputs(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """The sum over replicas; its gradient, the same on all members, stays as it is.

    Args:
        t: A tensor of any shape, float.
        op: "add".
        group: The replicas; None means all.

    Returns:
        The sum, of the shape and dtype of `t`.

    Raises:
        popart_exception: `op` is another one.
        NotImplementedError: The grouping has no stride.
    """
    return tensor_parallel_all_reduce(t, op, group, reduce=True, reduce_gradient=False)
