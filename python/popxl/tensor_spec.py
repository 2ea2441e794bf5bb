"""What describes a tensor without being one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pando import _core
from popxl.dtypes import DType


class TensorSpec(Mapping[str, Any]):
    """Shape and dtype of a tensor; `graph_input(**spec)` makes an input like it.

    It is a mapping of its three attributes, and hashes and compares by them.

    Args:
        shape: The shape.
        dtype: The element type.
        meta_shape: The shape before sharding; None or empty: it is no shard.
    """

    def __init__(
        self, shape: Iterable[int], dtype: DType, meta_shape: Iterable[int] | None = ()
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.meta_shape = tuple(meta_shape or ())

    def to_dict(self) -> dict[str, Any]:
        """Give the attributes by name.

        Returns:
            A new dictionary of shape, dtype and meta_shape.
        """
        return {"shape": self.shape, "dtype": self.dtype, "meta_shape": self.meta_shape}

    def to_tuple(self) -> tuple[tuple[int, ...], DType, tuple[int, ...]]:
        """Give the attributes in order.

        Returns:
            Shape, dtype and meta shape.
        """
        return self.shape, self.dtype, self.meta_shape

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self.to_tuple() == other.to_tuple()

    def __hash__(self) -> int:
        return hash(self.to_tuple())

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype}, meta_shape={self.meta_shape})"


class LocationInfo:
    """Where a variable lives.

    Args:
        remote: The id of the remote buffer and the slot; None: on the device.
        sharded: Whether every replica of a group holds one part.
    """

    def __init__(self, remote: tuple[int, int] | None, sharded: bool) -> None:
        self._remote = remote
        self._sharded = sharded

    def isRemote(self) -> bool:
        """Tell whether the variable is in a remote buffer.

        Returns:
            Whether it is.
        """
        return self._remote is not None

    def isSharded(self) -> bool:
        """Tell whether every replica of a group holds one part.

        Returns:
            Whether it does.
        """
        return self._sharded

    def getRemoteBufferInfo(self) -> tuple[int, int]:
        """Give the place in a remote buffer.

        Returns:
            The id of the remote buffer and the slot.

        Raises:
            popart_exception: The variable is not in one.
        """
        if self._remote is None:
            raise _core.popart_exception("the tensor is not in a remote buffer")
        return self._remote
