"""Groups of replicas, as ops have them."""

from __future__ import annotations


class ReplicaGrouping:
    """A number of replicas in groups whose members lie a stride apart.

    Args:
        numReplicas: The number of replicas.
        stride: The distance of the members of a group.
        groupSize: The number of members; None: as many as there are.

    Raises:
        ValueError: Stride times group size does not divide the number of replicas.
    """

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
        """Count the replicas.

        Returns:
            The number of replicas.
        """
        return self._num_replicas

    def getStride(self) -> int:
        """Give the distance of the members of a group.

        Returns:
            The stride; 1 for groups of one.
        """
        return self._stride

    def getGroupSize(self) -> int:
        """Give the number of members of a group.

        Returns:
            The size.
        """
        return self._group_size

    def getNumGroups(self) -> int:
        """Count the groups.

        Returns:
            The number of groups.
        """
        return self._num_replicas // self._group_size
