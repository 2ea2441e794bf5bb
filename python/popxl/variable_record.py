"""What the front end knows about a variable beyond the core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from popxl import host_pages


@dataclass
class VariableRecord:
    """What the front end knows about a variable beyond the core.

    Attributes:
        assignment: The group of each replica.
        constant_grouping: Stride and size of the groups, if constant.
        retrieval_mode: `one_per_group` or `all_replicas`.
        data: The memory of the host value, in `shape_on_host`.
        remote: The id of the remote buffer and the slot; None: on the device.
        sharded: Whether every replica of a group holds one part.
        shape_on_host: The shape of the host value.
        is_shown: Whether the user has been given `data`.
        only_on_device: Whether `data` was given up: a session's device has the value.
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
    is_shown: bool = False
    only_on_device: bool = False

    def host_value(self, name: str) -> np.ndarray[Any, Any]:
        """Give the host value.

        Args:
            name: What errors call the variable.

        Returns:
            The value itself, not a copy.

        Raises:
            ValueError: The host does not have it.
        """
        if self.only_on_device:
            raise ValueError(
                f"the host has no value of the variable {name!r}, which a session with "
                "keep_host_values=False has brought to its device: leave that session first, or "
                "ask it for the value"
            )
        return self.data

    def write(self, value: Any) -> None:
        """Set the host value.

        Args:
            value: An array that broadcasts to `shape_on_host`; it is cast.
        """
        np.copyto(self.data, value, casting="unsafe")
        self.only_on_device = False

    def give_up(self) -> bool:
        """Leave the value, which a device has, to that alone, if nobody else has the memory.

        Returns:
            Whether it is only there now.
        """
        if not self.is_shown:
            # Before its memory goes: Ctrl-C may come in between.
            self.only_on_device = True
            self.only_on_device = host_pages.give_up(self.data)
        return self.only_on_device
