"""Collectives over groups of any stride."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import popxl
from popart import popart_exception
from popxl import ReplicaGrouping, Tensor, ops
from popxl.ops.collectives.collectives import CollectiveOps
from popxl_addons.graph import GraphWithNamedArgs, create_named_graph
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.replicated_all_reduce_TP import tensor_parallel_all_reduce

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
    """The reduction ("add" or "mean") of `t` over the group; the same for its gradient."""
    return tensor_parallel_all_reduce(
        t, op, group, reduce=True, reduce_gradient=True, allowed=_REDUCTIONS
    )


def replicated_all_reduce_strided_identical_inputs(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """`t`, the same on all members of the group; its gradient is reduced."""
    return tensor_parallel_all_reduce(
        t, op, group, reduce=False, reduce_gradient=True, allowed=_REDUCTIONS
    )


def replicated_all_reduce_strided_identical_grad_inputs(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """The reduction of `t`; the gradient, the same on all members, stays as it is."""
    return tensor_parallel_all_reduce(
        t, op, group, reduce=True, reduce_gradient=False, allowed=_REDUCTIONS
    )


def replicated_all_reduce_strided_graph(
    tensors: NamedTensors,
    op: str = "add",
    group: ReplicaGrouping | None = None,
    use_io_tiles: bool = False,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """A graph with one named input and one reduced output per tensor, sorted by flat key, and
    those keys."""
    by_key = dict(sorted(tensors.to_dict().items()))
    args: dict[str, Tensor] = {}
    tiles: AbstractContextManager[Any] = popxl.io_tiles() if use_io_tiles else nullcontext()

    def build() -> list[Tensor]:
        for key, tensor in by_key.items():
            args[key] = popxl.graph_input(**tensor.spec, name=tensor.name)
        with tiles:
            return [replicated_all_reduce_strided(t, op, group) for t in args.values()]

    graph = create_named_graph("replicated_all_reduce_strided", build)
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(args)), list(by_key)


def replicated_all_gather_strided(t: Tensor, group: ReplicaGrouping | None = None) -> Tensor:
    """The elements of `t` of all members in order, 1-D; in the whole shape if `t` is a shard."""
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
    """This member's part of the flattened reduction ("add" or "mean"), padded with zeros to equal
    parts. `t`'s shape becomes its meta shape where configured for sharding."""
    if op not in _REDUCTIONS:
        raise popart_exception(
            f"replicated_reduce_scatter_strided: wanted op 'add' or 'mean'; given {op!r}"
        )
    return ops.collectives.replicated_reduce_scatter(
        t, op, group, configure_output_for_replicated_tensor_sharding
    )
