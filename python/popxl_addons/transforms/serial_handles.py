"""Where batch serialised graphs load and store tensors, and the core's form of it."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import popxl
from pando import _core
from popxl import ops
from popxl_addons.graph import create_named_graph
from popxl_addons.rts import gather_replica_sharded_tensor

RowOffset = int | None | Callable[[popxl.Tensor], popxl.Tensor]
_ROW_SPEC = popxl.TensorSpec((), popxl.int32)


@dataclass
class RemoteHandle:
    """Where the values of a tensor lie: entry (row, step) of a buffer seen as a matrix.

    Attributes:
        buffer: The remote buffer.
        row_offset: Rows from the row that the graph is called with; None means always row 0; a
            function takes the row, an int32 scalar, and returns another one.
        shard_group: The entries are shards over this group; None means that they are whole.
    """

    buffer: popxl.RemoteBuffer
    row_offset: RowOffset = 0
    shard_group: popxl.ReplicaGrouping | None = None


Handle = popxl.HostToDeviceStream | popxl.DeviceToHostStream | RemoteHandle
Handles = MutableMapping[popxl.Tensor, Any]


def _is_sharded(handle: RemoteHandle) -> bool:
    return handle.shard_group is not None and handle.shard_group.group_size > 1


class CoreHandles:
    """Handles as the core transform takes them; graphs for rows and shards are made once."""

    def __init__(self) -> None:
        self._graphs: dict[Any, popxl.Graph] = {}
        self._buffers: dict[int, popxl.RemoteBuffer] = {}

    def make(self, handle: Any) -> _core.SerialHandle:
        """One handle.

        Args:
            handle: A stream or RemoteHandle.

        Returns:
            What the core transform takes.

        Raises:
            TypeError: It is of another kind.
        """
        if isinstance(handle, (popxl.HostToDeviceStream, popxl.DeviceToHostStream)):
            ir = popxl.gcg().ir._pb
            return _core.SerialHandle(stream=ir.find_stream(handle.tensor_id))
        if not isinstance(handle, RemoteHandle):
            raise TypeError(
                "wanted a stream, a RemoteHandle or a tuple of a buffer and a row offset; given "
                f"{type(handle).__name__}: {handle!r}"
            )
        self._buffers[handle.buffer.remote_buffer_id] = handle.buffer
        graphs: dict[str, Any] = {}
        if _is_sharded(handle):
            graphs["gather"], graphs["shard"] = self._conversions(handle)
        offset = handle.row_offset
        if offset is None:
            return _core.SerialHandle(buffer=handle.buffer._pb, row=_core.SerialRow.First, **graphs)
        if callable(offset):
            graphs["row_graph"] = self._graph(offset, "row", offset, _ROW_SPEC)
            row = _core.SerialRow.Computed
            return _core.SerialHandle(buffer=handle.buffer._pb, row=row, **graphs)
        return _core.SerialHandle(buffer=handle.buffer._pb, row_offset=offset, **graphs)

    def _conversions(self, handle: RemoteHandle) -> tuple[_core.Graph, _core.Graph]:
        """The graphs that gather a loaded shard and cut the shard to be stored."""
        group = handle.shard_group
        buffer = handle.buffer
        shard = popxl.TensorSpec(buffer.tensor_shape, buffer.tensor_dtype, buffer.meta_shape)
        whole = popxl.TensorSpec(buffer.meta_shape, buffer.tensor_dtype)

        def gather(t: popxl.Tensor) -> popxl.Tensor:
            return gather_replica_sharded_tensor(t, replica_group=group)

        def cut(t: popxl.Tensor) -> popxl.Tensor:
            return ops.collectives.replica_sharded_slice(t, group)

        key = buffer.remote_buffer_id
        return (
            self._graph((key, "gather"), "batch_serial_gather", gather, shard),
            self._graph((key, "slice"), "batch_serial_slice", cut, whole),
        )

    def _graph(self, key: Any, name: str, function: Any, spec: popxl.TensorSpec) -> _core.Graph:
        if key not in self._graphs:
            self._graphs[key] = create_named_graph(name, lambda t: function(t), spec)
        return self._graphs[key]._pb

    def all_of(self, handles: Handles, *graphs: popxl.Graph) -> list[Any]:
        """The handles of tensors of some graphs.

        Args:
            handles: Tensor -> handle; tensors of other graphs are passed over.
            *graphs: The graphs.

        Returns:
            Pairs of tensor and handle.
        """
        return [
            (tensor._pb, self.make(handle))
            for tensor, handle in handles.items()
            if any(tensor in graph for graph in graphs)
        ]

    def buffer(self, core_buffer: _core.RemoteBuffer) -> popxl.RemoteBuffer:
        """The buffer of a core buffer, which may be new.

        Args:
            core_buffer: The core's.

        Returns:
            The popxl buffer.
        """
        known = self._buffers.get(core_buffer.id)
        if known is None:
            known = popxl.RemoteBuffer._from_pb(core_buffer)
            self._buffers[core_buffer.id] = known
        return known
