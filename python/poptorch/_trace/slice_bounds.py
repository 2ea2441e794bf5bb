"""Slices of traced tensors whose bounds only a run knows, with a constant distance of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch._trace.recorder import memory_of
from poptorch._trace.recording import Node, Recording, tensors_in

# Of one element, they change neither the element nor what it is called.
_SAME_VALUE = frozenset(
    f"aten::{name}"
    for name in (
        "alias",
        "clone",
        "detach",
        "reshape",
        "squeeze",
        "to",
        "_to_copy",
        "unsqueeze",
        "view",
    )
)


def has_traced_bounds(index: Any) -> bool:
    """Whether an index has a slice with a bound that is a traced tensor.

    Args:
        index: What stands between the brackets.

    Returns:
        Whether it has.
    """
    return any(_is_traced_slice(one) for one in _parts(index))


def take_slices(
    recording: Recording, tensor: torch.Tensor, index: Any
) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """Take the slices with traced bounds. Behind the end they go on at the beginning.

    Args:
        recording: The trace so far.
        tensor: The tensor that is indexed.
        index: What stands between the brackets.

    Returns:
        A tensor and an index that have the same elements together; the index has no traced bounds.

    Raises:
        Error: The distance of the bounds is not constant, or larger than the dimension.
    """
    parts = _parts(index)
    axis = 0
    rest: list[Any] = []
    for number, part in enumerate(parts):
        if part is Ellipsis:
            axis = tensor.dim() - sum(map(_dimensions_of, parts[number + 1 :]))
        elif _is_traced_slice(part):
            tensor = _taken(recording, tensor, axis, part)
            part = slice(None, None, part.step)
        axis += _dimensions_of(part)
        rest.append(part)
    return tensor, tuple(rest)


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_traced_slice(part: Any) -> bool:
    return isinstance(part, slice) and any(t.is_meta for t in tensors_in([part.start, part.stop]))


def _dimensions_of(part: Any) -> int:
    """How many dimensions of the tensor a part of an index is for."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    is_mask = isinstance(part, torch.Tensor) and part.dtype is torch.bool
    return part.dim() if is_mask else 1


def _taken(recording: Recording, tensor: torch.Tensor, axis: int, part: slice) -> torch.Tensor:
    start = 0 if part.start is None else part.start
    distance = None
    if part.stop is not None:
        bounds = _Bounds(recording)
        distance = bounds.constant(bounds.terms(part.stop), bounds.terms(start))
    if distance is None:
        raise createPoptorchError(
            "A slice needs constant bounds, or bounds with a constant distance, as x[i : i + 5]: "
            "else the shape of the result is not known while the model is traced"
        )
    extent = tensor.shape[axis]
    if not 0 <= distance <= extent:
        raise createPoptorchError(
            f"Wanted a slice of 0 to {extent} elements, which dimension {axis} has; given one of "
            f"{distance}"
        )
    offsets = torch.arange(distance, device=tensor.device)
    first = start.reshape(1) if isinstance(start, torch.Tensor) else start
    return tensor.index_select(axis, (offsets + first).remainder(extent))


_Terms = Counter[Any]  # factors of values that only a run knows by what names them; None: the rest


class _Bounds:
    """Takes bounds of slices apart.

    Args:
        recording: The trace so far.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._written = {
            memory_of(tensor)
            for node in recording.nodes
            for name in node.written
            for tensor in tensors_in(node.arguments[name])
        }

    def constant(self, terms: _Terms, others: _Terms) -> int | None:
        """The difference of two sums.

        Args:
            terms: What is subtracted from.
            others: What is subtracted.

        Returns:
            The difference; None where it is not constant.
        """
        difference = terms.copy()
        difference.subtract(others)
        rest = difference.pop(None, 0)
        return None if any(difference.values()) else rest

    def terms(self, value: Any) -> _Terms:
        """Take a number apart.

        Args:
            value: The number, or a traced tensor of one element.

        Returns:
            It as a sum.
        """
        if not isinstance(value, torch.Tensor):
            return Counter({None: int(value)})
        if (data := self._recording.data_of(value)) is not None and data.numel() == 1:
            return Counter({None: int(data)})
        node = None if memory_of(value) in self._written else self._maker(value)
        if node is None or value.is_floating_point():
            return Counter({self._name(value): 1})
        given = node.arguments
        if node.name in _SAME_VALUE:
            return self.terms(given["self"])
        if node.name in ("aten::add", "aten::sub"):
            sign = given.get("alpha", 1) * (1 if node.name == "aten::add" else -1)
            return _sum(self.terms(given["self"]), self.terms(given["other"]), sign)
        if node.name == "aten::rsub":
            return _sum(self.terms(given["other"]), self.terms(given["self"]), -given["alpha"])
        if node.name == "aten::mul":
            one, other = self.terms(given["self"]), self.terms(given["other"])
            if set(one) <= {None}:
                one, other = other, one
            if set(other) <= {None}:
                return _sum(Counter(), one, other[None])
        return Counter({self._name(value): 1})

    def _maker(self, tensor: torch.Tensor) -> Node | None:
        """The call that made a tensor; a cast to the dtype that it has returns it as it is."""
        makers = self._recording.makers_of(tensor)
        return next((node for node in makers if node.arguments.get("self") is not tensor), None)

    def _name(self, tensor: torch.Tensor) -> Any:
        """What equal values have in common."""
        if memory_of(tensor) in self._written:
            return object()
        node = self._maker(tensor)
        if node is not None and node.name == "aten::select":
            place = node.arguments["dim"], node.arguments["index"]
            return self._name(node.arguments["self"]), *place
        return id(tensor)


def _sum(one: _Terms, other: _Terms, factor: int) -> _Terms:
    total = one.copy()
    for name, count in other.items():
        total[name] += factor * count
    return total
