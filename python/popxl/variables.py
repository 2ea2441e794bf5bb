"""Making variables, graph inputs and graph outputs.

All of them belong to the current graph: without one there is a RuntimeError.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from pando import _core
from popart.logging_ import getLogger
from popxl.constants import host_info, storage
from popxl.context import get_current_graph, get_main_graph
from popxl.dtypes import DType
from popxl.remote_buffer import RemoteBuffer
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor_base import HostTensor, Tensor, Variable
from popxl.utils import to_numpy
from popxl.variable_record import VariableRecord

if TYPE_CHECKING:
    from popxl.graph import Graph

_RETRIEVAL_MODES = ("one_per_group", "all_replicas")


def _main_graph(what: str) -> Graph:
    graph = get_current_graph()
    if graph is not graph.ir.main_graph:
        raise ValueError(
            f"{what} can only be made in the main graph; the current graph is {graph!r}: pass "
            "tensors to subgraphs as inputs"
        )
    return graph


def _check_retrieval_mode(mode: str | None) -> str:
    if mode is None:
        return "one_per_group"
    if mode not in _RETRIEVAL_MODES:
        raise ValueError(f"retrieval_mode: wanted {' or '.join(_RETRIEVAL_MODES)}; given {mode!r}")
    return mode


def variable(
    data: HostTensor,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: str | None = None,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """Make a variable of the main graph.

    A memory-mapped array is used as the storage itself, without a copy; other data are copied.

    Args:
        data: The first value. With a grouping of several groups its first axis is the group.
        dtype: The element type to convert to; None: that of the data.
        name: The name; None: `t`.
        downcast: Whether 64-bit data become 32-bit data when `dtype` is None.
        replica_grouping: The groups of replicas that share one value; None: one group of all.
        retrieval_mode: `one_per_group` (None too) reads one value a group back, `all_replicas` one
            a replica.
        log2_scale: For float8 types, the exponent of the scale of the conversion; None: 0.
        nan_on_overflow: For float8 types, whether values out of range become NaN; None: True.

    Returns:
        The variable.

    Raises:
        RuntimeError: A float8 setting is given for another type.
        TypeError: The data cannot become float8.
        ValueError: The current graph is not the main graph, or the mode is unknown.
        popart_exception: The first axis of the data is not the number of groups.
    """
    return _make_variable(
        data,
        dtype,
        name,
        downcast,
        replica_grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
    )


def _shape_of_one_group(
    shape: tuple[int, ...], grouping: ReplicaGrouping, name: str | None
) -> tuple[int, ...]:
    if grouping.num_groups == 1:
        return shape
    if not shape or shape[0] != grouping.num_groups:
        raise _core.popart_exception(
            f"variable '{name or 't'}': wanted data with first axis {grouping.num_groups}, one "
            f"entry per replica group; given shape {shape}"
        )
    return shape[1:]


def _make_variable(
    data: HostTensor,
    dtype: DType | None,
    name: str | None,
    downcast: bool,
    replica_grouping: ReplicaGrouping | None,
    retrieval_mode: str | None,
    log2_scale: int | None,
    nan_on_overflow: bool | None,
    remote: tuple[int, int] | None = None,
    shard_over: int | None = None,
) -> Variable:
    """A variable on the device or, with `remote`, in that slot of that buffer."""
    graph = _main_graph("variables")
    ir = graph.ir
    mode = _check_retrieval_mode(retrieval_mode)
    grouping = replica_grouping if replica_grouping is not None else ir.replica_grouping()
    # The host array has one entry per replica where the replicas of a group may differ.
    per_replica = mode == "all_replicas" and grouping.group_size > 1
    is_memmap = isinstance(data, np.memmap) and grouping.is_const and not per_replica
    if isinstance(data, np.memmap) and not is_memmap:
        getLogger("popxl").warn(
            f"variable '{name or 't'}': the memory-mapped array is copied, because {grouping!r} "
            f"with retrieval mode {mode} keeps its values in another layout"
        )
    array = to_numpy(data, dtype, downcast, not is_memmap, log2_scale, nan_on_overflow)
    host_shape = tuple(array.shape)
    shape = _shape_of_one_group(host_shape, grouping, name)
    if isinstance(data, np.memmap) and not array.flags.writeable:
        ir._has_read_only_memmap = True
    if per_replica:
        entries = array if grouping.num_groups > 1 else array[np.newaxis]
        array = entries[grouping.assignment]
    buffer, slot = remote or (0, 0)
    settings = _core.VariableSettings(
        grouping.assignment if grouping.num_groups > 1 else [],
        per_replica,
        buffer,
        slot,
        shard_over or 1,
    )
    core_tensor = graph._pb.add_variable(
        graph._create_tensor_id(name), host_info(array, shape), storage(array), settings
    )
    ir._variables[core_tensor.id] = VariableRecord(
        grouping.assignment,
        grouping._constant,
        mode,
        array,
        remote,
        shard_over is not None,
        shape_on_host=host_shape,
    )
    tensor = ir._tensor(core_tensor)
    assert isinstance(tensor, Variable)
    return tensor


def remote_variable(
    data: HostTensor,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: str | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """Make a variable whose value lives in a slot of a remote buffer.

    It is a handle for the host: ops reach the value by loads from the buffer. Shape and dtype are
    not compared with those of the buffer here.

    Args:
        data: The first value. With a grouping of several groups its first axis is the group.
        remote_buffer: The buffer.
        offset: The slot.
        dtype: The element type to convert to; None: that of the data.
        name: The name; None: `t`.
        downcast: Whether 64-bit data become 32-bit data when `dtype` is None.
        replica_grouping: The groups of replicas that share one value; None: one group of all.
        retrieval_mode: `one_per_group` reads one value a group back, `all_replicas` one a replica.
        log2_scale: For float8 types, the exponent of the scale of the conversion; None: 0.
        nan_on_overflow: For float8 types, whether values out of range become NaN; None: True.

    Returns:
        The variable.

    Raises:
        RuntimeError: A float8 setting is given for another type.
        ValueError: The current graph is not the main graph, the mode is unknown, or the slot is
            negative.
        popart_exception: The first axis of the data is not the number of groups.
    """
    return _make_variable(
        data,
        dtype,
        name,
        downcast,
        replica_grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
        _slot_of(remote_buffer, offset),
    )


def _slot_of(remote_buffer: RemoteBuffer, offset: int) -> tuple[int, int]:
    if offset < 0:
        raise ValueError(f"a slot of {remote_buffer!r} must be at least 0; given {offset}")
    return remote_buffer.remote_buffer_id, int(offset)


def remote_replica_sharded_variable(
    data: HostTensor,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: str | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """Make a remote variable of which every replica of a group holds one part.

    Args:
        data: The first value. With a grouping of several groups its first axis is the group.
        remote_buffer: The buffer, best of `replica_sharded_buffer`; it gets a meta shape.
        offset: The slot.
        dtype: The element type to convert to; None: that of the data.
        name: The name; None: `t`.
        downcast: Whether 64-bit data become 32-bit data when `dtype` is None.
        replica_grouping: The groups of replicas that share one value; None: one group of all.
        retrieval_mode: `one_per_group` reads one value a group back, `all_replicas` one a replica.
        log2_scale: For float8 types, the exponent of the scale of the conversion; None: 0.
        nan_on_overflow: For float8 types, whether values out of range become NaN; None: True.

    Returns:
        The variable, a handle for the host.

    Raises:
        ValueError: There is only one replica, or the buffer does not suit the value.
    """
    graph = _main_graph("variables")
    if graph.ir.replication_factor <= 1:
        raise ValueError(
            "remote_replica_sharded_variable: wanted an Ir of more than one replica; "
            f"replication_factor is {graph.ir.replication_factor}"
        )
    grouping = replica_grouping or graph.ir.replica_grouping()
    shape = np.shape(data)  # type: ignore[arg-type]
    per_group = shape[1:] if grouping.num_groups > 1 else shape
    if remote_buffer.meta_shape and remote_buffer.meta_shape != per_group:
        raise ValueError(
            f"remote_replica_sharded_variable: {remote_buffer!r} is for shards of a tensor of "
            f"shape {remote_buffer.meta_shape}; given shape {per_group}"
        )
    elements = int(np.prod(per_group, dtype=np.int64))
    group_size = grouping.const_rg.group_size
    shard_over = _shards_of(elements, remote_buffer, group_size)
    remote_buffer.meta_shape = per_group
    return _make_variable(
        data,
        dtype,
        name,
        downcast,
        grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
        _slot_of(remote_buffer, offset),
        shard_over,
    )


def _shards_of(elements: int, remote_buffer: RemoteBuffer, group_size: int) -> int:
    """How many parts the replicas of a group hold: as the buffer was made, as fills its slots, or
    else one each. Whether parts fit into the slots is seen when the program is compiled."""
    wanted = remote_buffer._shard_over
    if wanted is not None:
        if group_size % wanted:
            raise ValueError(
                f"remote_replica_sharded_variable: {remote_buffer!r} is for {wanted} shards, which "
                f"do not divide the group size {group_size}"
            )
        return wanted
    part = int(np.prod(remote_buffer.tensor_shape, dtype=np.int64))
    for shards in range(group_size, 0, -1):
        if group_size % shards == 0 and -(-elements // shards) == part:
            return shards
    return group_size


def replica_sharded_buffer(
    shape: Iterable[int],
    dtype: DType,
    replica_grouping: ReplicaGrouping | None = None,
    shard_over: int | None = None,
    entries: int = 1,
) -> RemoteBuffer:
    """Make a remote buffer for the shards of tensors.

    Args:
        shape: The shape of the tensors, with the groups as first axis when there are several.
        dtype: The element type.
        replica_grouping: The groups of replicas that share one value; None: one group of all.
        shard_over: The number of shards, which divides the group size; None: the group size.
        entries: The number of slots.

    Returns:
        A buffer with slots of shape (ceil(elements / shards),).

    Raises:
        ValueError: `shard_over` does not divide the group size, or there are no entries.
    """
    grouping = replica_grouping or get_main_graph().ir.replica_grouping()
    const = grouping.const_rg
    sizes = tuple(shape)
    per_group = sizes[1:] if const.num_groups > 1 else sizes
    shards = const.group_size if shard_over is None else shard_over
    if shards <= 0 or shards > const.group_size or const.group_size % shards != 0:
        raise ValueError(
            f"replica_sharded_buffer: shard_over must divide the group size {const.group_size}; "
            f"given {shards}"
        )
    elements = int(np.prod(per_group, dtype=np.int64))
    buffer = RemoteBuffer((-(-elements // shards),), dtype, entries)
    buffer.meta_shape = per_group
    buffer._shard_over = shards
    return buffer


def graph_input(
    shape: Iterable[int],
    dtype: DType,
    name: str | None = None,
    by_ref: bool = False,
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Append an input to the current graph.

    Args:
        shape: The shape.
        dtype: The element type.
        name: The name; None: `t`.
        by_ref: Whether what the graph writes to the input reaches the tensor that a call gives to
            it.
        meta_shape: For a shard, the shape of the whole tensor; None or empty: it is no shard.

    Returns:
        The input.

    Raises:
        ValueError: The dtype is complex.
    """
    graph = get_current_graph()
    info = _core.TensorInfo(
        dtype._pb, [int(size) for size in shape], [int(size) for size in meta_shape or ()]
    )
    core_tensor = graph._pb.add_input(graph._create_tensor_id(name), info, by_ref)
    return graph.ir._tensor(core_tensor)


def graph_output(t: Tensor) -> None:
    """Append a tensor to the outputs of the current graph.

    Args:
        t: A tensor of the graph; it may be an output already.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    if not isinstance(t, Tensor):
        raise TypeError(f"graph_output: wanted a tensor; given {type(t)}")
    graph = get_current_graph()
    if t not in graph:
        raise ValueError(f"graph_output: {t!r} is not in the current graph {graph!r}")
    graph._pb.mark_output(t._pb)
