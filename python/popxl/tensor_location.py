"""Settings that say in which memory tensors are kept."""

from __future__ import annotations

from enum import Enum


class TensorStorage(Enum):
    """Where a tensor is stored: on the device (`OnChip`) or in a remote buffer (`OffChip`)."""

    OnChip = "OnChip"
    OffChip = "OffChip"


class ReplicatedTensorSharding(Enum):
    """Whether a tensor is sharded over replicas."""

    On = "On"
    Off = "Off"


class TensorLocation:
    """Storage and sharding of a tensor.

    Args:
        storage: Where the tensor is stored.
        replicated_tensor_sharding: Whether it is sharded over replicas.
    """

    def __init__(
        self,
        storage: TensorStorage = TensorStorage.OnChip,
        replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off,
    ) -> None:
        self._storage = storage
        self._sharding = replicated_tensor_sharding

    @property
    def storage(self) -> TensorStorage:
        """Where the tensor is stored."""
        return self._storage

    @property
    def replicated_tensor_sharding(self) -> ReplicatedTensorSharding:
        """Whether the tensor is sharded over replicas."""
        return self._sharding

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorLocation)
            and self._storage == other._storage
            and self._sharding == other._sharding
        )

    def __hash__(self) -> int:
        return hash((self._storage, self._sharding))

    def __repr__(self) -> str:
        return (
            f"TensorLocation(storage={self._storage}, replicated_tensor_sharding={self._sharding})"
        )
