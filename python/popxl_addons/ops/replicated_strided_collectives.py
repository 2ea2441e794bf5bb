"""Collectives over groups of any stride."""

from __future__ import annotations

from popart import popart_exception
from popxl import ReplicaGrouping, Tensor, ops
from popxl.ops.collectives.collectives import CollectiveOps
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.replicated_all_reduce_TP import tensor_parallel_all_reduce
from popxl_addons.rts import graph_of_named, tiles
from popxl_addons.variable_factory import NamedVariableFactories

__all__ = [
    "replicated_all_gather_strided",
    "replicated_all_reduce_strided",
    "replicated_all_reduce_strided_graph",
    "replicated_all_reduce_strided_identical_grad_inputs",
    "replicated_all_reduce_strided_identical_inputs",
    "replicated_reduce_scatter_strided",
]

_REDUCTIONS = ("add", "mean")


def replicated_all_reduce_strided(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """The reduction over replicas; its gradient is reduced in the same way.

    Args:
        t: A tensor of any shape, float.
        op: "add" or "mean".
        group: The replicas, at any stride; None means all.

    Returns:
        The reduced values, of the shape and dtype of `t`.

    Raises:
        popart_exception: `op` is another one.
        NotImplementedError: The grouping has no stride.
    """
    return tensor_parallel_all_reduce(
        t, op, group, reduce=True, reduce_gradient=True, allowed=_REDUCTIONS
    )


def replicated_all_reduce_strided_identical_inputs(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """A tensor that is the same on all members of the group; its gradient is reduced.

    Args:
        t: A tensor of any shape, float.
        op: "add" or "mean", for the gradient.
        group: The replicas, at any stride; None means all.

    Returns:
        The values of `t`.

    Raises:
        popart_exception: `op` is another one.
        NotImplementedError: The grouping has no stride.
    """
    return tensor_parallel_all_reduce(
        t, op, group, reduce=False, reduce_gradient=True, allowed=_REDUCTIONS
    )


def replicated_all_reduce_strided_identical_grad_inputs(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """The reduction over replicas; its gradient, the same on all members, stays as it is.

    Args:
        t: A tensor of any shape, float.
        op: "add" or "mean".
        group: The replicas, at any stride; None means all.

    Returns:
        The reduced values, of the shape and dtype of `t`.

    Raises:
        popart_exception: `op` is another one.
        NotImplementedError: The grouping has no stride.
    """
    return tensor_parallel_all_reduce(
        t, op, group, reduce=True, reduce_gradient=False, allowed=_REDUCTIONS
    )


def replicated_all_reduce_strided_graph(
    tensors: NamedTensors | NamedVariableFactories,
    op: str = "add",
    group: ReplicaGrouping | None = None,
    use_io_tiles: bool = False,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that reduces every tensor over replicas.

    Args:
        tensors: The tensors, or factories of them.
        op: "add" or "mean".
        group: The replicas, at any stride; None means all.
        use_io_tiles: Whether the ops are marked for IO tiles, which has no effect on results.

    Returns:
        The graph, with one named argument and one output per tensor, sorted by flat key; and the
        keys.

    Raises:
        popart_exception: `op` is another one.
        NotImplementedError: The grouping has no stride.
    """

    def reduce(_: str, tensor: Tensor) -> Tensor:
        with tiles(use_io_tiles):
            return replicated_all_reduce_strided(tensor, op, group)

    return graph_of_named("replicated_all_reduce_strided", tensors, reduce)


def replicated_all_gather_strided(t: Tensor, group: ReplicaGrouping | None = None) -> Tensor:
    """The elements that all members of a group have.

    Args:
        t: A tensor of any shape; each member has its own.
        group: The replicas, at any stride; None means all.

    Returns:
        The elements of all members in order, 1-D; in the meta shape of `t` if it is a shard.
    """
    if t.meta_shape:
        return ops.collectives.replicated_all_gather(t, group=group, output_shape="meta_shape")
    flat = ops.reshape(t, (t.nelms,))
    return ops.collectives.replicated_all_gather(flat, group=group, output_shape="concat")


def replicated_reduce_scatter_strided(
    t: Tensor,
    op: CollectiveOps = "add",
    group: ReplicaGrouping | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """This member's part of the reduction over replicas.

    Args:
        t: A tensor of any shape.
        op: "add" or "mean".
        group: The replicas, at any stride; None means all.
        configure_output_for_replicated_tensor_sharding: Whether the result is a shard, with the
            shape of `t` as its meta shape.

    Returns:
        The part, 1-D; the flattened reduction is padded with zeros to equal parts.

    Raises:
        popart_exception: `op` is another one.
    """
    if op not in _REDUCTIONS:
        raise popart_exception(
            f"replicated_reduce_scatter_strided: wanted op 'add' or 'mean'; given {op!r}"
        )
    return ops.collectives.replicated_reduce_scatter(
        t, op, group, configure_output_for_replicated_tensor_sharding
    )
