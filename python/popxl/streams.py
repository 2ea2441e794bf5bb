"""Streams between the host and the program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pando import _core
from popxl.context import _context, get_current_graph
from popxl.dtypes import DType

if TYPE_CHECKING:
    from popxl.ir import Ir
    from popxl.tensor_base import Tensor
    from popxl.tensor_spec import TensorSpec


class Stream:
    """A stream between the host and the program; `h2d_stream` and `d2h_stream` make one.

    Streams compare by their handle tensor, so those of `Session.expected_inputs` equal the ones
    that the program made.
    """

    _stream_tensor: Tensor
    _hash: int  # computed once: every run looks streams up

    def __init__(self) -> None:
        raise NotImplementedError("use popxl.h2d_stream or popxl.d2h_stream to make a stream")

    @classmethod
    def _from_tensor(cls, tensor: Tensor) -> Any:
        self = cls.__new__(cls)
        self._stream_tensor = tensor
        self._hash = hash(tensor)
        return self

    @property
    def tensor_id(self) -> str:
        """The id of the handle tensor in the main graph."""
        return self._stream_tensor.id

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._stream_tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one element of the stream, for one replica and one transfer."""
        return self._stream_tensor.shape

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype, as `graph_input(**stream.spec)` takes them."""
        return self._stream_tensor.spec

    @property
    def ir(self) -> Ir:
        """The Ir that the stream belongs to."""
        return self._stream_tensor.ir

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._stream_tensor == other._stream_tensor

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self._stream_tensor!r}"


class HostToDeviceStream(Stream):
    """A stream that the host writes and `ops.host_load` reads."""


class DeviceToHostStream(Stream):
    """A stream that `ops.host_store` writes and the host reads."""


def _make_handle(
    shape: Iterable[int], dtype: DType, name: str, direction: _core.StreamDirection
) -> Tensor:
    main = get_current_graph().ir.main_graph
    handle = main._pb.add_stream(
        main._pb.unique_tensor_id(_context.scoped(name)),
        _core.TensorInfo(dtype._pb, [int(size) for size in shape]),
    )
    main.ir._pb.add_stream(handle, direction)
    return main.ir._tensor(handle)


def h2d_stream(shape: Iterable[int], dtype: DType, name: str | None = None) -> HostToDeviceStream:
    """Make a stream from the host to the program, in the main graph of the current Ir.

    Args:
        shape: The shape of one element, for one replica and one transfer.
        dtype: The element type.
        name: The name of the handle; None: `h2d_stream`. Name scopes go before it.

    Returns:
        The stream.

    Raises:
        RuntimeError: There is no current graph.
        ValueError: The dtype is complex.
    """
    handle = _make_handle(shape, dtype, name or "h2d_stream", _core.StreamDirection.HostToDevice)
    stream: HostToDeviceStream = HostToDeviceStream._from_tensor(handle)
    return stream


def d2h_stream(shape: Iterable[int], dtype: DType, name: str | None = None) -> DeviceToHostStream:
    """Make a stream from the program to the host, in the main graph of the current Ir.

    Args:
        shape: The shape of one element, for one replica and one transfer.
        dtype: The element type.
        name: The name of the handle; None: `d2h_stream`. Name scopes go before it.

    Returns:
        The stream.

    Raises:
        RuntimeError: There is no current graph.
        ValueError: The dtype is complex.
    """
    handle = _make_handle(shape, dtype, name or "d2h_stream", _core.StreamDirection.DeviceToHost)
    stream: DeviceToHostStream = DeviceToHostStream._from_tensor(handle)
    return stream
