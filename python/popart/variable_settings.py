"""How variables are shared between replicas."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from popart._internal.ir import ReplicaGrouping


class VariableRetrievalMode(enum.Enum):
    """Which replicas' values are read back."""

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
    """A kind of grouping and the size of its groups, also of a ReplicaGrouping."""

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
        """The groups of `numReplicas` replicas. ValueError unless they have equal sizes."""
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

    `()`, `(CommGroup)`, `(mode)`, `(CommGroup, mode)` or `(stride, group size, mode)`.
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
        """ValueError for settings that do not work."""
        if self._mode is VariableRetrievalMode.AllReduceReplicas:
            raise ValueError("VariableSettings: AllReduceReplicas is not supported")

    def getSharedVariableDomain(self) -> CommGroup:
        return self._comm_group

    def isUsingCommGroup(self) -> bool:
        return self._stride is None

    def getCommGroupType(self) -> CommGroupType:
        return self._comm_group.type

    def getStride(self) -> int:
        return self._stride or 0

    def getGroupSize(self) -> int:
        return self._group_size or self._comm_group.replicaGroupSize

    def getRetrievalMode(self) -> VariableRetrievalMode:
        return self._mode

    def getReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        if self._stride is not None:
            return ReplicaGrouping(numReplicas, self._stride, self._group_size)
        return self._comm_group.toReplicaGrouping(numReplicas)

    def getRealGroupSize(self, numReplicas: int) -> int:
        return self.getReplicaGrouping(numReplicas).getGroupSize()

    def getGroupCount(self, numReplicas: int) -> int:
        return self.getReplicaGrouping(numReplicas).getNumGroups()

    def groups(self, numReplicas: int) -> list[list[int]]:
        """The replicas of each group."""
        grouping = self.getReplicaGrouping(numReplicas)
        stride, size = grouping.getStride(), grouping.getGroupSize()
        result: list[list[int]] = [[] for _ in range(grouping.getNumGroups())]
        for replica in range(numReplicas):
            group = replica % stride + stride * (replica // (stride * size))
            result[group].append(replica)
        return result

    def getGroupRepresentative(self, group: int) -> int:
        """The lowest replica of a group."""
        if self._stride is not None:
            size = self._group_size or 1
            return group % self._stride + self._stride * size * (group // self._stride)
        if self._comm_group.type is CommGroupType.Consecutive:
            return group * self._comm_group.replicaGroupSize
        return group

    def numReplicasReturningVariable(self, numReplicas: int) -> int:
        if self._mode is VariableRetrievalMode.AllReplicas:
            return numReplicas
        return self.getGroupCount(numReplicas)

    def shapeOnReplica(
        self, shape: Sequence[int], numReplicas: int, name: str = ""
    ) -> tuple[int, ...]:
        """The shape without the group axis."""
        groups = self.getGroupCount(numReplicas)
        if groups == 1:
            return tuple(shape)
        if not shape or shape[0] != groups:
            raise ValueError(
                f"variable '{name}': wanted a first axis of {groups} groups; given shape {shape}"
            )
        return tuple(shape[1:])

    def shapeOnHost(self, shape: Sequence[int], numReplicas: int) -> tuple[int, ...]:
        """The shape with the group axis."""
        groups = self.getGroupCount(numReplicas)
        return tuple(shape) if groups == 1 else (groups, *shape)
