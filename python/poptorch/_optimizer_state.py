"""State of optimizers that lies on the device: where the host keeps it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import torch

from poptorch import optim
from poptorch._optimizer_base import NamedTensors


class TorchOptimizerState:
    """The state of an optimizer of torch, which has no place for it itself.

    Attributes:
        ipu_state_is_dirty: Whether the device has newer state.
        host_state_is_dirty: Whether there is state that the device has yet to get.
    """

    def __init__(self) -> None:
        self.ipu_state_is_dirty = False
        self.host_state_is_dirty = False
        self._state: dict[str, NamedTensors] = {}

    def set_state_dict(self, state: Mapping[str, NamedTensors]) -> None:
        """Take device state.

        Args:
            state: `ipu_state` and `ipu_param`, tensors by name.
        """
        self._state = dict(state)

    def get_state_dict(self) -> dict[str, NamedTensors]:
        """Give the state that was taken last.

        Returns:
            `ipu_state` and `ipu_param`, tensors by name; empty if there is none.
        """
        return self._state

    def has_state(self) -> bool:
        """Tell whether state was taken.

        Returns:
            Whether it was.
        """
        return bool(self._state)


_states: weakref.WeakKeyDictionary[torch.optim.Optimizer, TorchOptimizerState] = (
    weakref.WeakKeyDictionary()
)


def state_of(optimizer: torch.optim.Optimizer) -> optim.Optimizer | TorchOptimizerState:
    """Find what keeps the device state of an optimizer on the host.

    Args:
        optimizer: The optimizer.

    Returns:
        The optimizer itself if it is poptorch's; else an object that lives as long as it.
    """
    if isinstance(optimizer, optim.Optimizer):
        return optimizer
    return _states.setdefault(optimizer, TorchOptimizerState())
