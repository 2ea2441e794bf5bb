"""Trees of replica groupings, and groupings limited to parts of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterable

import popxl
from pando.given_files import parse_json
from popxl_addons.dot_tree import DotTree

_LINKED_DEVICES = 64


class NamedReplicaGrouping(DotTree[popxl.ReplicaGrouping]):
    """A tree of replica groupings."""

    @classmethod
    def build_groups(
        cls, names: Iterable[str], value: popxl.ReplicaGrouping
    ) -> NamedReplicaGrouping:
        """A tree with the same grouping everywhere.

        Args:
            names: The flat keys.
            value: The grouping that each of them gets.

        Returns:
            The new tree.
        """
        return cls.from_dict(dict.fromkeys(names, value))


def fill_none_group(
    replica_grouping: popxl.ReplicaGrouping | None, none_value: popxl.ReplicaGrouping
) -> popxl.ReplicaGrouping:
    """A grouping, or a default.

    Args:
        replica_grouping: A grouping or None.
        none_value: What None stands for.

    Returns:
        `replica_grouping`, or `none_value` in place of None.
    """
    return none_value if replica_grouping is None else replica_grouping


def _limited(
    replica_grouping: popxl.ReplicaGrouping | None, size: int, part: str
) -> popxl.ReplicaGrouping:
    """The grouping within parts of `size` replicas each."""
    ir = popxl.gcg().ir
    group = fill_none_group(replica_grouping, ir.replica_grouping())
    if size >= ir.replication_factor:
        return group
    if group.stride > size:
        raise ValueError(
            f"the members of {group!r} lie {group.stride} replicas apart, further than the {size} "
            f"replicas of {part}: wanted a stride of at most {size}"
        )
    if group.group_size * group.stride <= size:
        return group
    return ir.replica_grouping(stride=group.stride, group_size=size // group.stride)


def get_instance_replica_grouping(
    replica_grouping: popxl.ReplicaGrouping | None = None,
) -> popxl.ReplicaGrouping:
    """A grouping limited to the replicas of one process.

    Args:
        replica_grouping: The grouping; None means all replicas.

    Returns:
        The grouping itself where its groups are within one process, else one of smaller groups.

    Raises:
        ValueError: Members lie further apart than a process has replicas.
    """
    size = popxl.gcg().ir.instance_replication_factor
    return _limited(replica_grouping, size, "one instance")


def is_cross_instance(replica_grouping: popxl.ReplicaGrouping) -> bool:
    """Whether groups span several processes.

    Args:
        replica_grouping: The grouping.

    Returns:
        True if the members of a group lie further apart than one process has replicas.
    """
    span = replica_grouping.group_size * replica_grouping.stride
    return span > popxl.gcg().ir.instance_replication_factor


def get_ild_size_from_popdist() -> int:
    """How many replicas have devices that are linked directly.

    Returns:
        `ipuLinkDomainSize` of the JSON text in the environment variable POPLAR_TARGET_OPTIONS, else
        the number of replicas, 64 at most.

    Raises:
        ValueError: The text is something else.
    """
    variable = "POPLAR_TARGET_OPTIONS"
    options = parse_json(os.environ.get(variable) or "{}", f"the environment variable {variable}")
    replicas = popxl.gcg().ir.replication_factor
    all_linked = min(replicas, _LINKED_DEVICES)
    size = options.get("ipuLinkDomainSize", all_linked) if isinstance(options, dict) else None
    if not isinstance(size, int | str) or not str(size).isdecimal() or int(size) < 1:
        raise ValueError(
            f"{variable}: wanted an object with a number ipuLinkDomainSize; given {options!r}"
        )
    return int(size)


def get_ild_replica_grouping(
    replica_grouping: popxl.ReplicaGrouping | None = None,
) -> popxl.ReplicaGrouping:
    """A grouping limited to devices that are linked directly.

    Args:
        replica_grouping: The grouping; None means all replicas.

    Returns:
        The grouping itself where its groups are within one set of linked devices, else one of
        smaller groups.

    Raises:
        ValueError: Members lie further apart than a set has replicas.
    """
    return _limited(replica_grouping, get_ild_size_from_popdist(), "one link domain")


def is_cross_ild(replica_grouping: popxl.ReplicaGrouping) -> bool:
    """Whether groups span several sets of directly linked devices.

    Args:
        replica_grouping: The grouping.

    Returns:
        True if the members of a group lie further apart than a set has replicas.
    """
    return replica_grouping.group_size * replica_grouping.stride > get_ild_size_from_popdist()
