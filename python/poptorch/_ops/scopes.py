"""Contexts around ops: names, hints, and convolutions that belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TypeVar

import torch

from poptorch._impl import createPoptorchError
from poptorch._ops.trace_state import TraceState, current_trace
from poptorch.enums import MultiConvPlanType

_Value = TypeVar("_Value")


class NameScope:
    """A context that puts one component before the names of the ops in it."""

    def __init__(self, name: str) -> None:
        """Describe a scope.

        Args:
            name: The component.
        """
        assert isinstance(name, str), f"name must be a string; given {name!r}"
        self._name = name

    def __enter__(self) -> NameScope:
        if current_trace() is not None:
            torch.ops.poptorch.push_name_scope(self._name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if current_trace() is not None:
            torch.ops.poptorch.pop_name_scope()


class Attribute:
    """A context that gives the ops in it hints, such as `__outline={"layer": "embedding"}`.

    Hints have no effect on results.
    """

    def __init__(self, **attributes: Mapping[str, str]) -> None:
        """Describe hints.

        Args:
            **attributes: For each group of hints its keys and values, all strings.

        Raises:
            TypeError: A group is no dictionary of strings.
        """
        for group, values in attributes.items():
            is_mapping = isinstance(values, Mapping)
            if not is_mapping or any(
                not isinstance(text, str) for item in values.items() for text in item
            ):
                raise TypeError(
                    f"Attribute: wanted a dictionary from str to str for {group}; given {values!r}"
                )
        self._values = {
            (group, key): value
            for group, values in attributes.items()
            for key, value in values.items()
        }
        self._outer: list[dict[tuple[str, str], str | None]] = []

    def __enter__(self) -> Attribute:
        trace = current_trace()
        if trace is not None:
            self._outer.append({name: trace.attributes.get(name) for name in self._values})
            for name, value in self._values.items():
                _set_attribute(trace, name, value)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        trace = current_trace()
        if trace is not None:
            for name, value in self._outer.pop().items():
                _set_attribute(trace, name, value)


def _set_attribute(trace: TraceState, name: tuple[str, str], value: str | None) -> None:
    if value is None:
        trace.attributes.pop(name, None)
        torch.ops.poptorch.clear_attribute(*name)
    else:
        trace.attributes[name] = value
        torch.ops.poptorch.set_attribute(*name, value)


def _as_list(value: _Value | Sequence[_Value]) -> list[_Value]:
    return list(value) if isinstance(value, (list, tuple)) else [value]  # type: ignore[list-item]


def _is_proportion(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0.0 <= value <= 1.0  # type: ignore[operator]


class MultiConv:
    """A context whose convolutions may be computed together; none may need another's result.

    The setters are hints for how that is done, for all convolutions or for each in order. They have
    no effect on results and return the context, so that they can be chained.
    """

    def __init__(self) -> None:
        self._proportions: list[float] | None = None
        self._partials: list[int] | None = None
        self._dithering: list[int] | None = None
        self._plan: int | None = None
        self._reserved_tiles: int | None = None
        self._back_off: float | None = None

    def availableMemoryProportions(self, value: float | Sequence[float]) -> MultiConv:
        """Set the part of the memory that convolutions may use for intermediate results.

        Args:
            value: A number from 0 to 1, or one for each convolution.

        Returns:
            The context itself.

        Raises:
            AssertionError: It is neither.
        """
        proportions = _as_list(value)
        assert all(map(_is_proportion, proportions)), "Invalid available memory proportion!"
        self._proportions = [float(one) for one in proportions]
        return self

    def partialsTypes(self, value: torch.dtype | Sequence[torch.dtype]) -> MultiConv:
        """Set the dtype in which products are added up.

        Args:
            value: `torch.float` or `torch.half`, or one of them for each convolution.

        Returns:
            The context itself.

        Raises:
            ValueError: It is neither.
        """
        codes = {torch.float: 0, torch.half: 1}
        partials = _as_list(value)
        if any(not isinstance(one, torch.dtype) or one not in codes for one in partials):
            raise ValueError("Invalid partials types. Expecting torch.float or torch.half")
        self._partials = [codes[one] for one in partials]
        return self

    def enableConvDithering(self, value: bool | Sequence[bool]) -> MultiConv:
        """Set whether convolutions may begin on different tiles.

        Args:
            value: A bool, or one for each convolution.

        Returns:
            The context itself.

        Raises:
            ValueError: It is neither.
        """
        flags = _as_list(value)
        if any(not isinstance(flag, bool) for flag in flags):
            raise ValueError("value must be bool or list of bools")
        self._dithering = [int(flag) for flag in flags]
        return self

    def planType(self, value: MultiConvPlanType) -> MultiConv:
        """Set whether convolutions run at the same time or one after the other.

        Args:
            value: The plan.

        Returns:
            The context itself.

        Raises:
            AssertionError: It is no `MultiConvPlanType`.
        """
        assert isinstance(value, MultiConvPlanType), "Invalid plan type!"
        self._plan = int(value)
        return self

    def perConvReservedTiles(self, value: int) -> MultiConv:
        """Set how many tiles each convolution is sure to have.

        Args:
            value: The number.

        Returns:
            The context itself.

        Raises:
            AssertionError: It is no int.
        """
        is_int = isinstance(value, int) and not isinstance(value, bool)
        assert is_int, f"Invalid number of reserved tiles! Wanted an int; given {value!r}"
        self._reserved_tiles = value
        return self

    def cycleBackOff(self, value: float) -> MultiConv:
        """Set how much longer than the best one a plan may take.

        Args:
            value: The part of the time of the best one.

        Returns:
            The context itself.

        Raises:
            AssertionError: It is no float.
        """
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        assert is_number, f"Invalid cycle back off! Wanted a float; given {value!r}"
        self._back_off = float(value)
        return self

    def __enter__(self) -> MultiConv:
        trace = current_trace()
        if trace is not None:
            if trace.in_multi_conv:
                raise createPoptorchError("Nested poptorch.MultiConv is not supported")
            trace.in_multi_conv = True
            torch.ops.poptorch.begin_multi_conv()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        trace = current_trace()
        if trace is not None:
            trace.in_multi_conv = False
            torch.ops.poptorch.end_multi_conv(
                self._proportions,
                self._partials,
                self._plan,
                self._reserved_tiles,
                self._back_off,
                self._dithering,
            )
