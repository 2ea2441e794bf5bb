"""Groups of replicas, as ops have them."""

from __future__ import annotations


class ReplicaGrouping:
    """`numReplicas` replicas in groups of `groupSize`, members `stride` apart."""

    def __init__(self, numReplicas: int, stride: int = 1, groupSize: int | None = None) -> None:
        size = numReplicas // stride if groupSize is None else groupSize
        if numReplicas <= 0 or stride <= 0 or size <= 0 or numReplicas % (stride * size) != 0:
            raise ValueError(
                f"replica grouping: {numReplicas} replicas cannot be split into groups of {size} "
                f"with stride {stride}; stride * group size must divide the number of replicas"
            )
        self._num_replicas = numReplicas
        self._stride = 1 if size == 1 else stride
        self._group_size = size

    def getNumReplicas(self) -> int:
        return self._num_replicas

    def getStride(self) -> int:
        return self._stride

    def getGroupSize(self) -> int:
        return self._group_size

    def getNumGroups(self) -> int:
        return self._num_replicas // self._group_size
