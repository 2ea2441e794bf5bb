"""How variables are shared between replicas."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from popart._internal.ir import ReplicaGrouping


class VariableRetrievalMode(enum.Enum):
    """Which replicas' values are read back; AllReduceReplicas is not supported."""

    OnePerGroup = 0
    AllReduceReplicas = 1
    AllReplicas = 2


class CommGroupType(enum.Enum):
    """How replicas are grouped."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    Ungrouped = 3


class CommGroup:
    """A kind of grouping of replicas and the size of its groups.

    Args:
        type: The kind, or a grouping, popxl's or an internal one, which the group is to describe.
        replicaGroupSize: The number of replicas in a group; of no effect for All, Ungrouped and
            groupings.

    Raises:
        TypeError: `type` is neither.
        ValueError: No kind describes the grouping.
    """

    def __init__(
        self,
        type: CommGroupType | ReplicaGrouping | Any = CommGroupType.All,
        replicaGroupSize: int = 0,
    ) -> None:
        if isinstance(type, CommGroupType):
            self.type = type
            self.replicaGroupSize = replicaGroupSize
            return
        grouping = getattr(type, "_pb_replica_grouping", type)
        if not isinstance(grouping, ReplicaGrouping):
            raise TypeError(f"CommGroup: wanted a CommGroupType or a grouping; given {type!r}")
        self.type, self.replicaGroupSize = _kind_of(grouping)

    def toReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        """Give the groups of a number of replicas.

        Args:
            numReplicas: The number of replicas.

        Returns:
            A new grouping.

        Raises:
            ValueError: The replicas cannot be split into groups of the size.
        """
        if self.type is CommGroupType.All:
            return ReplicaGrouping(numReplicas, 1, numReplicas)
        if self.type is CommGroupType.Ungrouped:
            return ReplicaGrouping(numReplicas, 1, 1)
        size = self.replicaGroupSize
        if size <= 0 or numReplicas % size != 0:
            raise ValueError(
                f"CommGroup: {numReplicas} replicas cannot be split into groups of {size}"
            )
        stride = 1 if self.type is CommGroupType.Consecutive else numReplicas // size
        return ReplicaGrouping(numReplicas, stride, size)


def _kind_of(grouping: ReplicaGrouping) -> tuple[CommGroupType, int]:
    size, stride = grouping.getGroupSize(), grouping.getStride()
    replicas = grouping.getNumReplicas()
    if size == replicas:
        return CommGroupType.All, 0
    if size == 1:
        return CommGroupType.Ungrouped, 0
    if stride == 1:
        return CommGroupType.Consecutive, size
    if stride * size == replicas:
        return CommGroupType.Orthogonal, size
    raise ValueError(
        f"CommGroup: no kind of group has a stride of {stride} and a size of {size} in {replicas} "
        "replicas"
    )


class VariableSettings:
    """Grouping and retrieval mode of a variable.

    Args:
        *args: Nothing, (CommGroup), (mode), (CommGroup, mode) or (stride, group size, mode). By
            default one group of all replicas and the mode OnePerGroup.

    Raises:
        TypeError: The arguments are others.
        ValueError: The mode is AllReduceReplicas.
    """

    def __init__(self, *args: Any) -> None:
        self._comm_group = CommGroup()
        self._mode = VariableRetrievalMode.OnePerGroup
        self._stride: int | None = None
        self._group_size: int | None = None
        if len(args) == 3:
            self._stride, self._group_size, self._mode = args
        elif len(args) <= 2:
            for arg in args:
                if isinstance(arg, CommGroup):
                    self._comm_group = arg
                elif isinstance(arg, VariableRetrievalMode):
                    self._mode = arg
                else:
                    raise TypeError(f"VariableSettings: cannot take {arg!r}")
        else:
            raise TypeError(f"VariableSettings: wanted 0 to 3 arguments; given {len(args)}")
        self.verify()

    def verify(self) -> None:
        """Check the settings.

        Raises:
            ValueError: The mode is AllReduceReplicas.
        """
        if self._mode is VariableRetrievalMode.AllReduceReplicas:
            raise ValueError("VariableSettings: AllReduceReplicas is not supported")

    def getSharedVariableDomain(self) -> CommGroup:
        """Give the kind of grouping.

        Returns:
            The CommGroup; the default one for a grouping by stride.
        """
        return self._comm_group

    def isUsingCommGroup(self) -> bool:
        """Tell whether the grouping is by a CommGroup, not by a stride.

        Returns:
            Whether it is.
        """
        return self._stride is None

    def getCommGroupType(self) -> CommGroupType:
        """Give the kind of the CommGroup.

        Returns:
            The kind.
        """
        return self._comm_group.type

    def getStride(self) -> int:
        """Give the distance of the members of a group.

        Returns:
            The stride; 0 for a grouping by a CommGroup.
        """
        return self._stride or 0

    def getGroupSize(self) -> int:
        """Give the size of the groups as it was set.

        Returns:
            The size; 0 if none was set.
        """
        return self._group_size or self._comm_group.replicaGroupSize

    def getRetrievalMode(self) -> VariableRetrievalMode:
        """Give the retrieval mode.

        Returns:
            The mode.
        """
        return self._mode

    def getReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        """Give the groups of a number of replicas.

        Args:
            numReplicas: The number of replicas.

        Returns:
            A new grouping.

        Raises:
            ValueError: The replicas cannot be split into such groups.
        """
        if self._stride is not None:
            return ReplicaGrouping(numReplicas, self._stride, self._group_size)
        return self._comm_group.toReplicaGrouping(numReplicas)

    def getRealGroupSize(self, numReplicas: int) -> int:
        """Give the size of the groups of a number of replicas.

        Args:
            numReplicas: The number of replicas.

        Returns:
            The size.
        """
        return self.getReplicaGrouping(numReplicas).getGroupSize()

    def getGroupCount(self, numReplicas: int) -> int:
        """Count the groups of a number of replicas.

        Args:
            numReplicas: The number of replicas.

        Returns:
            The number of groups.
        """
        return self.getReplicaGrouping(numReplicas).getNumGroups()

    def groups(self, numReplicas: int) -> list[list[int]]:
        """List the replicas of each group.

        Args:
            numReplicas: The number of replicas.

        Returns:
            One list for each group.
        """
        grouping = self.getReplicaGrouping(numReplicas)
        stride, size = grouping.getStride(), grouping.getGroupSize()
        result: list[list[int]] = [[] for _ in range(grouping.getNumGroups())]
        for replica in range(numReplicas):
            group = replica % stride + stride * (replica // (stride * size))
            result[group].append(replica)
        return result

    def getGroupRepresentative(self, group: int) -> int:
        """Find the lowest replica of a group.

        Args:
            group: The number of the group.

        Returns:
            The number of the replica.
        """
        if self._stride is not None:
            size = self._group_size or 1
            return group % self._stride + self._stride * size * (group // self._stride)
        if self._comm_group.type is CommGroupType.Consecutive:
            return group * self._comm_group.replicaGroupSize
        return group

    def numReplicasReturningVariable(self, numReplicas: int) -> int:
        """Count the replicas whose values are read back.

        Args:
            numReplicas: The number of replicas.

        Returns:
            All of them, or one for each group.
        """
        if self._mode is VariableRetrievalMode.AllReplicas:
            return numReplicas
        return self.getGroupCount(numReplicas)

    def shapeOnReplica(
        self, shape: Sequence[int], numReplicas: int, name: str = ""
    ) -> tuple[int, ...]:
        """Remove the axis of groups from a shape.

        Args:
            shape: The shape on the host.
            numReplicas: The number of replicas.
            name: The name of the variable, for the message.

        Returns:
            The shape on a replica.

        Raises:
            ValueError: The first axis is not the number of groups.
        """
        groups = self.getGroupCount(numReplicas)
        if groups == 1:
            return tuple(shape)
        if not shape or shape[0] != groups:
            raise ValueError(
                f"variable '{name}': wanted a first axis of {groups} groups; given shape {shape}"
            )
        return tuple(shape[1:])

    def shapeOnHost(self, shape: Sequence[int], numReplicas: int) -> tuple[int, ...]:
        """Add the axis of groups to a shape.

        Args:
            shape: The shape on a replica.
            numReplicas: The number of replicas.

        Returns:
            The shape on the host; the same one if there is one group.
        """
        groups = self.getGroupCount(numReplicas)
        return tuple(shape) if groups == 1 else (groups, *shape)
