"""Trees of replica groupings."""

from __future__ import annotations

from collections.abc import Iterable

import popxl
from popxl_addons.dot_tree import DotTree


class NamedReplicaGrouping(DotTree[popxl.ReplicaGrouping]):
    """A tree of replica groupings."""

    @classmethod
    def build_groups(
        cls, names: Iterable[str], value: popxl.ReplicaGrouping
    ) -> NamedReplicaGrouping:
        """A tree with `value` under every name."""
        return cls.from_dict(dict.fromkeys(names, value))


def fill_none_group(
    replica_grouping: popxl.ReplicaGrouping | None, none_value: popxl.ReplicaGrouping
) -> popxl.ReplicaGrouping:
    """`replica_grouping`, or `none_value` in place of None."""
    return none_value if replica_grouping is None else replica_grouping
