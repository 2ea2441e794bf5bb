"""Warnings about what a training program does not take of an optimizer."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping

import torch

from poptorch import optim
from poptorch._logging import logger
from poptorch._optimizer_values import base_type, is_exact, read
from poptorch._private_torch import mark_as_stepped


@functools.cache
def _base_attributes() -> frozenset[str]:
    """What every optimizer of torch has, or may be given."""
    plain = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    mark_as_stepped(plain)
    fused = {"_step_supports_amp_scaling", "_need_device_dtype_check_for_fused"}
    return frozenset({*vars(plain), *fused, "loss_scaling", "max_grad_norm"})


@functools.cache
def _own_attributes() -> frozenset[str]:
    """What optimizers of poptorch have besides."""
    parameter = torch.zeros(1)
    kinds = (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.LAMB)
    return frozenset(name for kind in kinds for name in vars(kind([parameter], lr=0.1)))


@functools.cache
def _group_names() -> dict[type, frozenset[str]]:
    """The settings of groups, which are arguments of constructors, by class of the optimizer."""
    arguments: dict[type, set[str]] = {
        kind: set(inspect.signature(kind.__init__).parameters)
        for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, optim.LAMB)
    }
    arguments[torch.optim.AdamW] = arguments[torch.optim.Adam]
    others = {"params", "param_names", "velocity_scaling", "decoupled_weight_decay"}
    return {kind: frozenset(names | others) for kind, names in arguments.items()}


def _unexpected(optimizer: torch.optim.Optimizer) -> dict[str, list[str]]:
    """Names that a program knows nothing of, by what has them."""
    base = base_type(optimizer)
    known = _base_attributes()
    if isinstance(optimizer, optim.Optimizer):
        known |= _own_attributes()

    def others(names: Iterable[str], expected: frozenset[str]) -> list[str]:
        return sorted(set(names) - expected)

    found = {"optimizer attribute": others(vars(optimizer), known)}
    for index, group in enumerate(optimizer.param_groups):
        found[f"group {index} attribute"] = others(group, _group_names()[base])
    found["default group variable"] = others(optimizer.defaults, _group_names()[base])
    return found


def _maximizes(groups: Iterable[Mapping[str, object]]) -> bool:
    return any(group.get("maximize") for group in groups)


class AttributeWatch:
    """Warns of attributes of optimizers that have no effect on a device.

    Those that the first optimizer has are taken for intended. Of others there is one warning for
    each kind: attributes of the optimizer, of a group, and of the defaults of groups.

    Args:
        relaxed: Whether to log at level debug instead.
    """

    def __init__(self, relaxed: bool = False) -> None:
        self._log = logger.debug if relaxed else logger.warning
        self._seen: dict[str, set[str]] | None = None
        self._warned: set[str] = set()
        self._classes: set[type] = set()
        self._told_maximize = False

    def see(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at an optimizer that was set.

        Args:
            optimizer: The optimizer.
        """
        found = _unexpected(optimizer)
        self._see_kind(optimizer)
        if self._seen is None:
            self._seen = {kind: set(names) for kind, names in found.items()}
            return
        for kind, names in found.items():
            new = [name for name in names if name not in self._seen.get(kind, set())]
            if new and kind not in self._warned:
                self._warned.add(kind)
                label = read(optimizer).kind.value
                self._log(f"Ignoring unexpected {kind} in {label} optimizer: {new}")

    def _see_kind(self, optimizer: torch.optim.Optimizer) -> None:
        if not is_exact(optimizer) and type(optimizer) not in self._classes:
            self._classes.add(type(optimizer))
            logger.warning(
                f"Optimizer `{type(optimizer).__name__}` subclassed from classes in poptorch.optim "
                "or torch.optim are unlikely to behave as intended. It is treated as "
                f"{base_type(optimizer).__name__}: its own `step` is not called"
            )
        if _maximizes(optimizer.param_groups) and not self._told_maximize:
            self._told_maximize = True
            logger.warning(
                f"{type(optimizer).__name__}: maximize=True has no effect on a device: negate "
                "the loss"
            )
