"""Groups of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING

from popart._internal import ir as internal

if TYPE_CHECKING:
    from popxl.ir import Ir


def _assign(num_replicas: int, stride: int, group_size: int) -> list[int]:
    return [r % stride + stride * (r // (stride * group_size)) for r in range(num_replicas)]


def _members(assignment: Sequence[int]) -> list[list[int]]:
    members: list[list[int]] = [[] for _ in range(max(assignment) + 1)]
    for replica, group in enumerate(assignment):
        members[group].append(replica)
    return members


class ReplicaGrouping:
    """A division of the replicas of an Ir into groups of equal size.

    `Ir.replica_grouping` and `Ir.replica_grouping_from_assignments` make one. Groupings compare by
    their Ir and assignment and have no hash.
    """

    _ir: Ir
    _assignment: list[int]
    _constant: tuple[int, int] | None  # stride and group size

    def __init__(self) -> None:
        raise RuntimeError("replica groupings come from an Ir: use `ir.replica_grouping(...)`")

    @classmethod
    def _make(
        cls, ir: Ir, assignment: list[int], constant: tuple[int, int] | None
    ) -> ReplicaGrouping:
        self = cls.__new__(cls)
        self._ir = ir
        self._assignment = assignment
        self._constant = constant
        return self

    @classmethod
    def _from_stride(cls, ir: Ir, stride: int, group_size: int | None) -> ReplicaGrouping:
        replicas = ir.replication_factor
        if not 0 < stride <= replicas or replicas % stride != 0:
            raise ValueError(
                f"replica_grouping: the stride must be in [1, {replicas}] and divide the number "
                f"of replicas {replicas}; given {stride}"
            )
        size = replicas // stride if group_size is None else group_size
        if not 0 < size <= replicas:
            raise ValueError(
                f"replica_grouping: the group size must be in [1, {replicas}]; given {size}"
            )
        if size == 1:
            stride = 1
        return cls._make(ir, _assign(replicas, stride, size), (stride, size))

    @classmethod
    def _from_assignment(cls, ir: Ir, assignment: Sequence[int]) -> ReplicaGrouping:
        groups = [int(group) for group in assignment]
        replicas = ir.replication_factor
        if len(groups) != replicas:
            raise ValueError(
                f"replica_grouping_from_assignments: wanted one group per replica ({replicas}); "
                f"given {len(groups)}: {groups}"
            )
        first_seen = list(dict.fromkeys(groups))
        if first_seen != list(range(len(first_seen))):
            raise ValueError(
                "replica_grouping_from_assignments: groups must be numbered 0, 1, ... in order of "
                f"first appearance; given {groups}"
            )
        sizes = {len(members) for members in _members(groups)}
        if len(sizes) != 1:
            raise ValueError(
                "replica_grouping_from_assignments: all groups must have the same size; given "
                f"{groups}"
            )
        size = sizes.pop()
        for stride in range(1, replicas + 1):
            if replicas % (stride * size) == 0 and _assign(replicas, stride, size) == groups:
                return cls._make(ir, groups, (1 if size == 1 else stride, size))
        return cls._make(ir, groups, None)

    @property
    def is_const(self) -> bool:
        """Whether the members of every group lie one constant stride apart."""
        return self._constant is not None

    @property
    def stride(self) -> int:
        """The distance of the members of a group; NotImplementedError if it is not constant."""
        if self._constant is None:
            raise NotImplementedError(
                f"{self!r} has no constant stride between the members of a group"
            )
        return self._constant[0]

    @property
    def group_size(self) -> int:
        """The number of replicas in a group."""
        return self._assignment.count(self._assignment[0])

    @property
    def num_groups(self) -> int:
        """The number of groups."""
        return max(self._assignment) + 1

    @property
    def assignment(self) -> list[int]:
        """The group of each replica."""
        return list(self._assignment)

    @property
    def const_rg(self) -> ReplicaGrouping:
        """A finer grouping with a constant stride; itself when the stride is constant."""
        if self.is_const:
            return self
        members = _members(self._assignment)
        distances = [b - a for group in members for a, b in pairwise(group)]
        stride = min(distances)
        sizes: list[int] = []
        for group in members:
            size = 1
            for a, b in pairwise(group):
                if b - a > stride:
                    sizes.append(size)
                    size = 0
                size += 1
            sizes.append(size)
        common = reduce(gcd, sizes)
        # Groups of one have no distance, and the smallest need not divide the replicas.
        return self._ir.replica_grouping(stride if common > 1 else 1, common)

    @property
    def to_device_map(self) -> list[int] | None:
        """The group here of each group of `const_rg`; None when the stride is constant."""
        if self.is_const:
            return None
        return [self._assignment[group[0]] for group in _members(self.const_rg._assignment)]

    @property
    def to_host_map(self) -> list[int] | None:
        """The first group of `const_rg` of each group here; None when the stride is constant."""
        to_device = self.to_device_map
        if to_device is None:
            return None
        return [to_device.index(group) for group in range(self.num_groups)]

    def transpose(self) -> ReplicaGrouping:
        """Group the replicas the other way: group j holds the j-th member of every group here.

        Returns:
            A new grouping, which may have no constant stride.
        """
        position: dict[int, int] = {}
        transposed = []
        for group in self._assignment:
            index = position.get(group, 0)
            position[group] = index + 1
            transposed.append(index)
        # Renumber in order of first appearance.
        numbers = {group: i for i, group in enumerate(dict.fromkeys(transposed))}
        return self._from_assignment(self._ir, [numbers[group] for group in transposed])

    @property
    def _pb_replica_grouping(self) -> internal.ReplicaGrouping:
        if self._constant is None:
            raise NotImplementedError(
                f"{self!r}: only groupings with a constant stride can be used here"
            )
        return internal.ReplicaGrouping(len(self._assignment), *self._constant)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReplicaGrouping):
            raise TypeError(
                f"a replica grouping can only be compared with another; given {type(other)}"
            )
        return self._ir == other._ir and self._assignment == other._assignment

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self._constant is None:
            return f"ReplicaGrouping(assignment={self._assignment})"
        return (
            f"ReplicaGrouping(num_replicas={len(self._assignment)}, stride={self.stride}, "
            f"group_size={self.group_size}, num_groups={self.num_groups})"
        )
