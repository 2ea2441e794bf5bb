"""Replicated tensor sharding: every replica of a group keeps one part of a tensor.

A shard is a 1-D tensor whose `meta_shape` is the shape of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import popxl
from popxl import ops
from popxl_addons.dot_tree import DotTree
from popxl_addons.graph import GraphWithNamedArgs, create_named_graph
from popxl_addons.named_replica_grouping import fill_none_group, get_instance_replica_grouping
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories

__all__ = [
    "all_gather_replica_sharded_graph",
    "gather_replica_sharded_tensor",
    "reduce_replica_sharded_graph",
    "reduce_replica_sharded_tensor",
    "replica_sharded_slice_graph",
    "replica_sharded_spec",
]

Groups = Mapping[str, popxl.ReplicaGrouping] | DotTree[popxl.ReplicaGrouping]

_DEFAULT_THRESHOLD = 1024
_REDUCTIONS = ("add", "mean")


def _all_replicas() -> popxl.ReplicaGrouping:
    return popxl.gcg().ir.replica_grouping()


def _is_threshold(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def tiles(use_io_tiles: bool) -> AbstractContextManager[Any]:
    return popxl.io_tiles() if use_io_tiles else nullcontext()


def replica_sharded_spec(
    t: popxl.Tensor,
    shard_over: popxl.ReplicaGrouping | int | None = None,
    *,
    threshold: int | None = None,
    replica_grouping: popxl.ReplicaGrouping | None = None,
) -> popxl.TensorSpec:
    """What a shard of a tensor looks like.

    Args:
        t: The whole tensor, of any graph.
        shard_over: The grouping over whose groups it is sharded if the elements divide evenly. A
            number is a `threshold`; None means the rule of older releases.
        threshold: For the rule of older releases: the least number of elements that is sharded,
            over `instance replicas / number of groups` replicas. None means 1024.
        replica_grouping: For that rule: the grouping; None means all replicas.

    Returns:
        A 1-D spec with the shape of `t` as its meta shape, or the spec of `t` where it is not
        sharded.

    Raises:
        TypeError: `shard_over` is neither a grouping nor a number.
    """
    if isinstance(shard_over, popxl.ReplicaGrouping):
        return _shard_spec(t, shard_over.group_size, 0)
    if _is_threshold(shard_over):
        threshold = shard_over
    elif shard_over is not None:
        raise TypeError(
            "replica_sharded_spec: wanted a ReplicaGrouping or a threshold as second argument; "
            f"given {type(shard_over).__name__}"
        )
    group = fill_none_group(replica_grouping, t.ir.replica_grouping())
    shards = t.ir.instance_replication_factor // group.num_groups
    return _shard_spec(t, shards, _DEFAULT_THRESHOLD if threshold is None else threshold)


def _shard_spec(t: popxl.Tensor, shards: int, threshold: int) -> popxl.TensorSpec:
    whole = t.meta_shape or shards <= 1 or t.nelms < threshold or t.nelms % shards
    if whole:
        return t.spec
    return popxl.TensorSpec((t.nelms // shards,), t.dtype, t.shape)


def gather_replica_sharded_tensor(
    t: popxl.Tensor,
    use_io_tiles: bool = False,
    replica_group: popxl.ReplicaGrouping | None = None,
) -> popxl.Tensor:
    """Makes a shard whole.

    Args:
        t: A tensor; one without a meta shape is given back as it is.
        use_io_tiles: Whether the op is marked for IO tiles, which has no effect on results.
        replica_group: The replicas that have the shards; None means all.

    Returns:
        A tensor of the shape that was the meta shape, or `t`.
    """
    if not t.meta_shape:
        return t
    with tiles(use_io_tiles):
        return ops.collectives.replicated_all_gather(
            t, group=replica_group, output_shape="meta_shape"
        )


def graph_of_named(
    name: str, tensors: DotTree[Any], change: Callable[[str, popxl.Tensor], popxl.Tensor]
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that changes every tensor of a tree.

    Args:
        name: The name of the graph.
        tensors: A tree of tensors or of variable factories.
        change: Called with the flat key and the graph's input; returns the output.

    Returns:
        The graph, with one named argument and one output per leaf, sorted by flat key; and the
        keys.
    """
    by_key = dict(sorted(tensors.to_dict().items()))
    args: dict[str, popxl.Tensor] = {}

    def build() -> list[popxl.Tensor]:
        for key, leaf in by_key.items():
            args[key] = popxl.graph_input(
                leaf.shape, leaf.dtype, leaf.name, meta_shape=leaf.meta_shape
            )
        return [change(key, tensor) for key, tensor in args.items()]

    graph = create_named_graph(name, build)
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(args)), list(by_key)


def all_gather_replica_sharded_graph(
    tensors: NamedTensors | NamedVariableFactories,
    use_io_tiles: bool = False,
    replica_groups: Groups | None = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that makes every tensor whole.

    Args:
        tensors: Those that are shards are gathered; the others are given back as they are.
        use_io_tiles: Whether the ops are marked for IO tiles, which has no effect on results.
        replica_groups: Flat key -> replicas that have the shards, for every key; None means all.

    Returns:
        The graph, with one named argument and one output per tensor, sorted by flat key; and the
        keys.
    """

    def gather(key: str, tensor: popxl.Tensor) -> popxl.Tensor:
        group = _all_replicas() if replica_groups is None else replica_groups[key]
        return gather_replica_sharded_tensor(tensor, use_io_tiles, group.const_rg)

    return graph_of_named("all_gather", tensors, gather)


def _check_reduction(op: str) -> None:
    if op not in _REDUCTIONS:
        raise ValueError(f"wanted a reduction {' or '.join(map(repr, _REDUCTIONS))}; given {op!r}")


def reduce_replica_sharded_tensor(
    t: popxl.Tensor,
    op: str = "add",
    replica_group: popxl.ReplicaGrouping | int | None = None,
    shard_group: popxl.ReplicaGrouping | None = None,
    *,
    threshold: int | None = None,
) -> popxl.Tensor:
    """Reduces a tensor over replicas and keeps one shard of the result on each.

    Args:
        t: A whole tensor.
        op: "add" or "mean".
        replica_group: The replicas whose values are reduced; None means all. A number is a
            `threshold`.
        shard_group: The replicas over which the result is sharded if the elements divide evenly;
            None means `replica_group`.
        threshold: The rule of older releases: only tensors of at least so many elements are
            sharded, and the default of `shard_group` are the replicas of an instance.

    Returns:
        The reduced shard, 1-D with the shape of `t` as its meta shape, or the whole reduced tensor.

    Raises:
        ValueError: `op` is another one.
    """
    _check_reduction(op)
    if _is_threshold(replica_group):
        threshold, replica_group = replica_group, None  # type: ignore[assignment]
    assert not isinstance(replica_group, int)
    group = fill_none_group(replica_group, _all_replicas())
    if threshold is not None:
        return _reduce_with_threshold(t, op, group, shard_group, threshold)
    shards = fill_none_group(shard_group, group)
    return _reduce(t, op, group, shards, shards.group_size > 1)


def _reduce(
    t: popxl.Tensor,
    op: Any,
    group: popxl.ReplicaGrouping,
    shard_group: popxl.ReplicaGrouping,
    shard: bool,
) -> popxl.Tensor:
    if not shard or t.nelms % shard_group.group_size:
        return ops.collectives.replicated_all_reduce(t, op, group)
    if group == shard_group:
        return ops.collectives.replicated_reduce_scatter(
            t, op, group, configure_output_for_replicated_tensor_sharding=True
        )
    reduced = ops.collectives.replicated_all_reduce(t, op, group)
    return ops.collectives.replica_sharded_slice(reduced, shard_group)


def _reduce_with_threshold(
    t: popxl.Tensor,
    op: str,
    group: popxl.ReplicaGrouping,
    shard_group: popxl.ReplicaGrouping | None,
    threshold: int,
) -> popxl.Tensor:
    if group.group_size == 1:
        return t
    shards = fill_none_group(shard_group, get_instance_replica_grouping(group))
    return _reduce(t, op, group, shards, shards.group_size > 1 and t.nelms >= threshold)


def reduce_replica_sharded_graph(
    tensors: NamedTensors | NamedVariableFactories,
    op: str = "add",
    use_io_tiles: bool = False,
    shard_groups: Groups | None = None,
    replica_group: popxl.ReplicaGrouping | None = None,
    *,
    threshold: int | None = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that applies `reduce_replica_sharded_tensor` to every tensor.

    Args:
        tensors: Tensors, or anything with their shape, dtype, meta shape and name.
        op: "add" or "mean".
        use_io_tiles: Whether the ops are marked for IO tiles, which has no effect on results. A
            number is a `threshold`.
        shard_groups: Flat key -> replicas over which the result is sharded; for other keys and with
            None it is `replica_group`.
        replica_group: The replicas whose values are reduced; None means all.
        threshold: As for `reduce_replica_sharded_tensor`.

    Returns:
        The graph, with one named argument and one output per tensor, sorted by flat key; and the
        keys.

    Raises:
        ValueError: `op` is another one.
    """
    if _is_threshold(use_io_tiles):
        threshold, use_io_tiles = int(use_io_tiles), False

    def reduce(key: str, tensor: popxl.Tensor) -> popxl.Tensor:
        shard_group = None
        if shard_groups is not None and key in shard_groups:
            shard_group = shard_groups[key]
        with tiles(use_io_tiles):
            return reduce_replica_sharded_tensor(
                tensor, op, replica_group, shard_group, threshold=threshold
            )

    return graph_of_named("replica_reduce", tensors, reduce)


def replica_sharded_slice_graph(
    tensors: NamedTensors | NamedVariableFactories,
    threshold: int = _DEFAULT_THRESHOLD,
    use_io_tiles: bool = False,
    shard_groups: Groups | None = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that cuts this replica's shard out of every tensor.

    Args:
        tensors: Whole tensors, which are the same on all replicas of a group.
        threshold: Tensors of fewer elements stay whole, and so do those that do not divide evenly.
        use_io_tiles: Whether the ops are marked for IO tiles, which has no effect on results.
        shard_groups: Flat key -> replicas over which it is sharded; other keys: all replicas.

    Returns:
        The graph, with one named argument and one output per tensor, sorted by flat key; and the
        keys.
    """

    def cut(key: str, tensor: popxl.Tensor) -> popxl.Tensor:
        group = _all_replicas()
        if shard_groups is not None and key in shard_groups:
            group = shard_groups[key]
        size = group.group_size
        if size <= 1 or tensor.nelms < threshold or tensor.nelms % size:
            return tensor
        with tiles(use_io_tiles):
            return ops.collectives.replica_sharded_slice(tensor, group)

    return graph_of_named("replica_sharded_slice", tensors, cut)
