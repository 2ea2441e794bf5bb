"""Values of traced tensors that no input, weight or random number has a part in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from poptorch._trace.recording import tensors_in

_CPU = torch.device("cpu")
_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], int]


class KnownValues:
    """Finds such values when a program asks for them while it is traced.

    Args:
        constant: Gives the data of the host that a traced tensor stands for, if it does.
        memory_of: Identifies the memory of a tensor.
    """

    def __init__(
        self,
        constant: Callable[[torch.Tensor], torch.Tensor | None],
        memory_of: Callable[[torch.Tensor], int],
    ) -> None:
        self._constant = constant
        self._memory_of = memory_of
        self._calls: dict[int, _Call] = {}
        self._owners: dict[int, torch.Tensor] = {}
        self._written: set[int] = set()

    def note(
        self,
        call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
        outputs: list[torch.Tensor],
        written: list[torch.Tensor],
        is_random: bool,
    ) -> None:
        """Remember how tensors are made.

        Args:
            call: The operator with its arguments.
            outputs: Its results.
            written: The tensors that it writes in place.
            is_random: Whether its results are random.
        """
        self._written.update(self._memory_of(tensor) for tensor in written)
        if is_random or written:
            return
        for index, tensor in enumerate(outputs):
            self._calls[id(tensor)] = (*call, index)
            self._owners.setdefault(self._memory_of(tensor), tensor)

    def replace(self, tensor: torch.Tensor, by: torch.Tensor) -> None:
        """Know another tensor in place of one that becomes a view of it.

        Args:
            tensor: The tensor that changes its shape in place.
            by: A tensor of the same memory with the shape until now.
        """
        if id(tensor) in self._calls:
            self._calls[id(by)] = self._calls.pop(id(tensor))
        memory = self._memory_of(tensor)
        if self._owners.get(memory) is tensor:
            self._owners[memory] = by

    def value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Find the value of a traced tensor.

        Args:
            tensor: The traced tensor.

        Returns:
            A tensor on the CPU; None where the value depends on what only a run knows.
        """
        return self._value(tensor, {})

    def _value(
        self, tensor: torch.Tensor, found: dict[int, torch.Tensor | None]
    ) -> torch.Tensor | None:
        if id(tensor) not in found:
            # None meanwhile: what is made of itself is not known.
            found[id(tensor)] = None
            found[id(tensor)] = self._computed(tensor, found)
        return found[id(tensor)]

    def _computed(
        self, tensor: torch.Tensor, found: dict[int, torch.Tensor | None]
    ) -> torch.Tensor | None:
        if tensor.device == _CPU:
            return tensor
        if (data := self._constant(tensor)) is not None:
            return data
        memory = self._memory_of(tensor)
        call = self._calls.get(id(tensor))
        if call is None:
            # Factories return another object than the operator did, of the same memory.
            owner = self._owners.get(memory)
            same = owner is not None and owner.shape == tensor.shape
            call = self._calls.get(id(owner)) if same else None
        if call is None or memory in self._written:
            return None
        function, args, kwargs, index = call
        values = [self._value(one, found) for one in tensors_in((args, kwargs))]
        if any(value is None for value in values):
            return None
        source = iter(values)
        result = function(*_filled(args, source), **_filled(kwargs, source))
        return list(tensors_in(result))[index]


def _filled(value: Any, tensors: Any) -> Any:
    """Arguments with other tensors in place of their own, on the CPU."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, torch.device):
        return _CPU
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(item, tensors) for item in value)
    if isinstance(value, dict):
        return {key: _filled(item, tensors) for key, item in value.items()}
    return value
