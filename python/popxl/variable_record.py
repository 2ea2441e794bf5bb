"""What the front end knows about a variable beyond the core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class VariableRecord:
    """What the front end knows about a variable beyond the core.

    Attributes:
        assignment: The group of each replica.
        constant_grouping: Stride and size of the groups, if constant.
        retrieval_mode: `one_per_group` or `all_replicas`.
        data: The host value in `shape_on_host`.
        remote: The id of the remote buffer and the slot; None: on the device.
        sharded: Whether every replica of a group holds one part.
        shape_on_host: The shape of the host value.
    """

    # Group of each replica, and stride and group size if constant (a grouping would hold the Ir).
    assignment: list[int]
    constant_grouping: tuple[int, int] | None
    retrieval_mode: str
    # The host value in `shape_on_host`; the core shares its memory.
    data: np.ndarray[Any, Any]
    # Slot of a remote buffer: (buffer id, offset).
    remote: tuple[int, int] | None = None
    sharded: bool = False
    shape_on_host: tuple[int, ...] = ()
