"""Streams of a program by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import popxl

StreamT = TypeVar("StreamT", popxl.HostToDeviceStream, popxl.DeviceToHostStream)
Streams = TypeVar("Streams", bound="_Streams[Any]")
ShapeAndType = tuple[Sequence[int], popxl.dtype]


class _Streams(Generic[StreamT]):
    """An ordered collection of streams: by name as attribute or key, by position, by slice.

    Iterating gives the streams; `keys`, `items`, `len` and `in` go by name.

    Args:
        **streams: Name -> shape of one transfer and dtype.
    """

    def __init__(self, **streams: ShapeAndType) -> None:
        self._streams: dict[str, StreamT] = {
            name: self._make(shape, dtype, name) for name, (shape, dtype) in streams.items()
        }

    @staticmethod
    def _make(shape: Sequence[int], dtype: popxl.dtype, name: str) -> StreamT:
        raise NotImplementedError

    @classmethod
    def from_streams(cls: type[Streams], streams: Iterable[Any]) -> Streams:
        """A collection of streams that exist.

        Args:
            streams: The streams; each gets its `tensor_id` as its name.

        Returns:
            The collection, in the same order.
        """
        result = cls()
        result._streams = {stream.tensor_id: stream for stream in streams}
        return result

    def __getattr__(self, name: str) -> StreamT:
        if name.startswith("_") or name not in self._streams:
            raise AttributeError(
                f"{type(self).__name__} has no stream '{name}'. "
                f"Streams: {list(self.__dict__.get('_streams', {}))}"
            )
        return self._streams[name]

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, int | slice):
            return list(self._streams.values())[key]
        if key not in self._streams:
            raise KeyError(f"'{key}' is not among the streams {self.keys()}")
        return self._streams[key]

    def __iter__(self) -> Iterator[StreamT]:
        return iter(self._streams.values())

    def __len__(self) -> int:
        return len(self._streams)

    def __contains__(self, name: str) -> bool:
        return name in self._streams

    def __repr__(self) -> str:
        streams = ", ".join(f"{key}={s.dtype.name} {s.shape}" for key, s in self._streams.items())
        return f"{type(self).__name__}[{streams}]"

    def keys(self) -> list[str]:
        """The names.

        Returns:
            A new list, in order.
        """
        return list(self._streams)

    def values(self) -> list[StreamT]:
        """The streams.

        Returns:
            A new list, in order.
        """
        return list(self._streams.values())

    def items(self) -> list[tuple[str, StreamT]]:
        """Names and streams.

        Returns:
            A new list of pairs, in order.
        """
        return list(self._streams.items())


class InputStreams(_Streams[popxl.HostToDeviceStream]):
    """Host-to-device streams by name, such as `InputStreams(images=((8, 28, 28), popxl.float32))`.

    They are attributes and items by name, and items by position or slice. Iterating gives the
    streams; `keys`, `items`, `len` and `in` go by name.

    Args:
        **streams: Name -> shape of one transfer and dtype.
    """

    _make = staticmethod(popxl.h2d_stream)


class OutputStreams(_Streams[popxl.DeviceToHostStream]):
    """Device-to-host streams by name, such as `OutputStreams(loss=((), popxl.float32))`.

    They are read as those of `InputStreams`.

    Args:
        **streams: Name -> shape of one transfer and dtype.
    """

    _make = staticmethod(popxl.d2h_stream)
