"""Trees of remote buffers, and graphs that load and store all of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl_addons.dot_tree import DotTree
from popxl_addons.graph import GraphWithNamedArgs, create_named_graph
from popxl_addons.named_replica_grouping import fill_none_group, get_instance_replica_grouping
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory

__all__ = [
    "create_remote_buffer",
    "load_remote_graph",
    "named_buffers",
    "named_variable_buffers",
    "store_remote_graph",
]

Spec = popxl.Tensor | popxl.TensorSpec
ShardOver = Mapping[str, int] | DotTree[Any] | bool | int


class NamedRemoteBuffers(DotTree[popxl.RemoteBuffer]):
    """A tree of remote buffers."""


def _elements(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _plain_buffer(spec: Any, entries: int) -> popxl.RemoteBuffer:
    buffer = popxl.remote_buffer(spec.shape, spec.dtype, entries)
    if spec.meta_shape:
        buffer.meta_shape = spec.meta_shape
    return buffer


def _sharded_buffer(
    spec: Any, entries: int, group: popxl.ReplicaGrouping, shard_over: int
) -> popxl.RemoteBuffer:
    shape = tuple(spec.shape)
    # popxl takes the shape of the host data, which is led by the groups when there are several.
    host_shape = (group.num_groups, *shape) if group.const_rg.num_groups > 1 else shape
    return popxl.replica_sharded_buffer(host_shape, spec.dtype, group, shard_over, entries)


def create_remote_buffer(
    spec: Spec,
    entries: int = 1,
    replica_group: popxl.ReplicaGrouping | None = None,
    shard_over: int | None = None,
    *,
    sharded_threshold: int | None = None,
    shard_group: popxl.ReplicaGrouping | None = None,
) -> popxl.RemoteBuffer:
    """Makes a remote buffer for tensors of one shape and dtype.

    A shard (a spec with a meta shape) goes into a buffer of such shards, whatever else is given.

    Args:
        spec: A tensor or TensorSpec: shape, dtype and meta shape.
        entries: The number of slots.
        replica_group: The replicas over which a whole tensor is sharded; None means all.
        shard_over: Over how many replicas of the group; None means all of it, 1 keeps it whole.
        sharded_threshold: Only tensors of at least so many elements that divide evenly are sharded;
            None sets no threshold.
        shard_group: An older form of `shard_over`: the size of this group.

    Returns:
        The buffer.

    Raises:
        ValueError: The elements cannot be shared out evenly.
    """
    if spec.meta_shape:
        return _plain_buffer(spec, entries)
    group = fill_none_group(replica_group, popxl.gcg().ir.replica_grouping())
    shards = group.group_size if shard_over is None else shard_over
    if shard_group is not None:
        shards = shard_group.group_size
    elements = _elements(tuple(spec.shape))
    if sharded_threshold is not None and (elements < sharded_threshold or elements % shards):
        shards = 1
    if shards <= 1:
        return _plain_buffer(spec, entries)
    if elements % shards:
        raise ValueError(
            f"create_remote_buffer: {elements} elements of shape {tuple(spec.shape)} cannot be "
            f"sharded evenly over {shards} replicas; give shard_over=1 or another shape"
        )
    return _sharded_buffer(spec, entries, group, shards)


def _shards_of(key: str, factory: VariableFactory, shard_over: ShardOver) -> int | None:
    """Over how many replicas a variable is sharded; None: its whole group."""
    size = factory.replica_grouping.group_size
    if isinstance(shard_over, bool):
        return None if shard_over else 1
    if isinstance(shard_over, int):
        shards: int | None = shard_over
    elif isinstance(shard_over, (Mapping, DotTree)):
        mapping = shard_over.to_dict() if isinstance(shard_over, DotTree) else shard_over
        shards = mapping.get(key)
    else:
        raise ValueError(
            "named_variable_buffers: wanted shard_over_dict to be a bool, an int or a mapping; "
            f"given {type(shard_over).__name__}: {shard_over!r}"
        )
    if shards is not None and not 1 <= shards <= size:
        raise ValueError(
            f"named_variable_buffers: '{key}' cannot be sharded over {shards} replicas; its "
            f"replica group has {size}"
        )
    return shards


def named_variable_buffers(
    named_variables: NamedVariableFactories,
    entries: int = 1,
    shard_over_dict: ShardOver = True,
    *,
    sharded_threshold: int | None = None,
    shard_groups: Mapping[str, popxl.ReplicaGrouping] | DotTree[Any] | None = None,
) -> NamedRemoteBuffers:
    """Makes a remote buffer for each variable.

    Args:
        named_variables: The variables.
        entries: The number of slots of each buffer.
        shard_over_dict: Flat key -> over how many replicas (missing: the whole group), or one
            number for all, True (the whole group) or False (not at all). Factories of shards keep
            their shards.
        sharded_threshold: The rule of older releases, in place of `shard_over_dict`: sharded is
            what has at least so many elements and divides evenly over the replicas of an instance.
        shard_groups: With that rule: flat key -> group over which it is sharded.

    Returns:
        The buffers under the same keys.

    Raises:
        ValueError: `shard_over_dict` is of another kind, a number is not between 1 and the size of
            the group, or elements cannot be shared out evenly.
    """
    if sharded_threshold is None:
        return _buffers_by_rule(named_variables, entries, shard_over_dict)
    result = {}
    for key, factory in named_variables.to_dict().items():
        group = get_instance_replica_grouping(factory.replica_grouping)
        if shard_groups is not None and key in shard_groups:
            group = get_instance_replica_grouping(shard_groups[key])
        result[key] = create_remote_buffer(
            _whole_spec(factory), entries, group, sharded_threshold=sharded_threshold
        )
    return NamedRemoteBuffers.from_dict(result)


def _buffers_by_rule(
    factories: NamedVariableFactories, entries: int, shard_over: ShardOver
) -> NamedRemoteBuffers:
    result = {}
    for key, factory in factories.to_dict().items():
        shards = _shards_of(key, factory, shard_over)
        result[key] = create_remote_buffer(
            _whole_spec(factory), entries, factory.replica_grouping, shards
        )
    return NamedRemoteBuffers.from_dict(result)


def _whole_spec(factory: VariableFactory) -> popxl.TensorSpec:
    return popxl.TensorSpec(factory.shape, factory.dtype, factory.meta_shape or ())


def named_buffers(
    named_tensors: NamedTensors | DotTree[Any],
    entries: int = 1,
    *,
    sharded_threshold: int | None = None,
) -> NamedRemoteBuffers:
    """Makes a remote buffer for each tensor.

    Args:
        named_tensors: The tensors.
        entries: The number of slots of each buffer.
        sharded_threshold: Tensors of at least so many elements that divide evenly are sharded over
            all replicas; None shards nothing but what is a shard already.

    Returns:
        The buffers under the same keys.
    """
    return NamedRemoteBuffers.from_dict(
        {
            key: (
                _plain_buffer(tensor, entries)
                if sharded_threshold is None
                else create_remote_buffer(tensor, entries, sharded_threshold=sharded_threshold)
            )
            for key, tensor in named_tensors.to_dict().items()
        }
    )


def _sorted_buffers(buffers: DotTree[popxl.RemoteBuffer]) -> dict[str, popxl.RemoteBuffer]:
    return dict(sorted(buffers.to_dict().items()))


def _grow(buffers: DotTree[popxl.RemoteBuffer], entries: int) -> None:
    for buffer in buffers.values_flat():
        buffer.entries = max(buffer.entries, entries)


def _load(buffer: popxl.RemoteBuffer, entry: int | popxl.Tensor, key: str) -> popxl.Tensor:
    # popxl adds `_remote_loaded` to the name.
    return ops.remote_load(buffer, entry, key.rpartition(".")[2])


def load_remote_graph(
    buffers: DotTree[popxl.RemoteBuffer], entries: int = 1, use_io_tiles: bool = False
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that loads one entry of every buffer.

    Its only input is the index of the entry, an int32 scalar; its outputs are sorted by flat key.

    Args:
        buffers: The buffers; those with fewer than `entries` slots get so many.
        entries: The number of slots needed.
        use_io_tiles: Whether the loads are marked for IO tiles, which has no effect on results.

    Returns:
        The graph, and the flat keys of its outputs in order.
    """
    _grow(buffers, entries)
    by_key = _sorted_buffers(buffers)

    def load(load_index: popxl.Tensor) -> list[popxl.Tensor]:
        with _tiles(use_io_tiles):
            return [_load(buffer, load_index, key) for key, buffer in by_key.items()]

    graph = create_named_graph("load_remote", load, popxl.TensorSpec((), popxl.int32))
    return GraphWithNamedArgs(graph), list(by_key)


def store_remote_graph(
    buffers: DotTree[popxl.RemoteBuffer], entries: int = 1, use_io_tiles: bool = False
) -> GraphWithNamedArgs:
    """Makes a graph that stores a tensor in one entry of every buffer.

    Its first input is the index of the entry, an int32 scalar; the tensors are named arguments
    under the keys of the buffers.

    Args:
        buffers: The buffers; those with fewer than `entries` slots get so many.
        entries: The number of slots needed.
        use_io_tiles: Whether the stores are marked for IO tiles, which has no effect on results.

    Returns:
        The graph, which has no outputs.
    """
    _grow(buffers, entries)
    args: dict[str, popxl.Tensor] = {}

    def store(store_index: popxl.Tensor) -> None:
        for key, buffer in _sorted_buffers(buffers).items():
            args[key] = popxl.graph_input(
                buffer.tensor_shape, buffer.tensor_dtype, key, meta_shape=buffer.meta_shape
            )
        with _tiles(use_io_tiles):
            for key, tensor in args.items():
                ops.remote_store(buffers[key], store_index, tensor)

    graph = create_named_graph("store_remote", store, popxl.TensorSpec((), popxl.int32))
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(args))


def load_remote(
    buffers: DotTree[popxl.RemoteBuffer],
    entry: int | popxl.Tensor = 0,
    use_io_tiles: bool = False,
) -> NamedTensors:
    """Loads an entry of every buffer in the current graph.

    Args:
        buffers: The buffers.
        entry: The slot, a number or an integer scalar tensor.
        use_io_tiles: Whether the loads are marked for IO tiles, which has no effect on results.

    Returns:
        The loaded tensors under the same keys.
    """
    with _tiles(use_io_tiles):
        return NamedTensors.from_dict(
            {key: _load(buffer, entry, key) for key, buffer in buffers.to_dict().items()}
        )


def store_remote(
    buffers: DotTree[popxl.RemoteBuffer],
    tensors: NamedTensors,
    entry: int | popxl.Tensor = 0,
    use_io_tiles: bool = False,
) -> None:
    """Stores tensors in the current graph.

    Args:
        buffers: The buffers.
        tensors: What is stored under the same keys; keys that only one side has are left out.
        entry: The slot, a number or an integer scalar tensor.
        use_io_tiles: Whether the stores are marked for IO tiles, which has no effect on results.
    """
    with _tiles(use_io_tiles):
        for buffer, tensor in buffers.to_mapping(tensors).items():
            ops.remote_store(buffer, entry, tensor)


def _tiles(use_io_tiles: bool) -> AbstractContextManager[Any]:
    return popxl.io_tiles() if use_io_tiles else nullcontext()
