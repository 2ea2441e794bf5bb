"""Remote buffers: arrays of tensor slots in host memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pando import _core
from popart._internal import ir as _ir
from popxl.context import get_current_graph
from popxl.dtypes import DType

if TYPE_CHECKING:
    from popxl.tensor_base import Tensor


class RemoteBuffer:
    """An array of slots outside the device, each for one tensor of a fixed shape and dtype.

    Every replica has slots of its own. They keep their contents from one run of a session to the
    next.

    Args:
        tensor_shape: The shape of a slot.
        tensor_dtype: The element type.
        entries: The number of slots, at least 1.

    Raises:
        RuntimeError: There is no current graph.
        ValueError: There are no entries, or the dtype is complex.
    """

    def __init__(self, tensor_shape: Iterable[int], tensor_dtype: DType, entries: int) -> None:
        self._ir = get_current_graph().ir
        _check_entries(entries)
        info = _core.TensorInfo(tensor_dtype._pb, [int(size) for size in tensor_shape])
        self._pb = self._ir._pb.add_remote_buffer(info, entries)
        # Known when the buffer was made for shards.
        self._shard_over: int | None = None

    @classmethod
    def _from_pb(cls, core_buffer: _core.RemoteBuffer) -> RemoteBuffer:
        """A buffer of the current Ir that exists already."""
        self = cls.__new__(cls)
        self._ir = get_current_graph().ir
        self._pb = core_buffer
        self._shard_over = None
        return self

    @property
    def _current_ir(self) -> _ir.Ir:
        return self._ir._pb_ir

    @property
    def remote_buffer_id(self) -> int:
        """The number of the buffer in its Ir, from 1 on."""
        return int(self._pb.id)

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The shape of a slot."""
        return tuple(self._pb.info.shape)

    @property
    def tensor_dtype(self) -> DType:
        """The element type."""
        return DType._from_pb(self._pb.info.dtype)

    @property
    def entries(self) -> int:
        """The number of slots; setting one below 1 is a ValueError."""
        return int(self._pb.entries)

    @entries.setter
    def entries(self, value: int) -> None:
        _check_entries(value)
        self._pb.replace(self._pb.info, value)

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape before sharding; empty when the slots hold no shards."""
        return tuple(self._pb.info.meta_shape)

    @meta_shape.setter
    def meta_shape(self, shape: Iterable[int]) -> None:
        info = self._pb.info
        described = _core.TensorInfo(info.dtype, info.shape, [int(size) for size in shape])
        self._pb.replace(described, self._pb.entries)

    def set_remote_buffer_info(
        self, tensor_dtype: DType, tensor_shape: Iterable[int], entries: int
    ) -> None:
        """Replace the description of the slots.

        Args:
            tensor_dtype: The element type.
            tensor_shape: The shape of a slot.
            entries: The number of slots, at least 1.

        Raises:
            ValueError: There are no entries, or the dtype is complex.
        """
        _check_entries(entries)
        info = _core.TensorInfo(tensor_dtype._pb, [int(size) for size in tensor_shape])
        self._pb.replace(info, entries)

    def validate_tensor_matches_buffer(self, t: Tensor, num_shards: int = 1) -> None:
        """Check that a tensor has the shape and dtype of a slot.

        Args:
            t: The tensor.
            num_shards: With another number than 1 the meta shapes are compared.

        Raises:
            ValueError: It has not.
        """
        shape = t.shape if num_shards == 1 else t.meta_shape
        wanted = self.tensor_shape if num_shards == 1 else self.meta_shape
        if shape != wanted or t.dtype != self.tensor_dtype:
            raise ValueError(
                f"Tensor {t.id} does not match buffer. Tensor: shape {shape}, dtype {t.dtype}; "
                f"remote buffer {self.remote_buffer_id}: shape {wanted}, dtype "
                f"{self.tensor_dtype}"
            )

    def __hash__(self) -> int:
        return hash((self._ir, self.remote_buffer_id))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return (
            f"RemoteBuffer[id={self.remote_buffer_id} {self.tensor_dtype} {self.tensor_shape} "
            f"entries={self.entries}]"
        )


def _check_entries(entries: int) -> None:
    if entries < 1:
        raise ValueError(f"Entries must be a non-zero, positive integer; given {entries}")


def remote_buffer(
    tensor_shape: Iterable[int], tensor_dtype: DType, entries: int = 1
) -> RemoteBuffer:
    """Make a remote buffer in the current Ir.

    Args:
        tensor_shape: The shape of a slot.
        tensor_dtype: The element type.
        entries: The number of slots, at least 1.

    Returns:
        The buffer.

    Raises:
        RuntimeError: There is no current graph.
        ValueError: There are no entries, or the dtype is complex.
    """
    return RemoteBuffer(tensor_shape, tensor_dtype, entries)
