"""Types of the arguments of custom ops."""

from __future__ import annotations

import enum
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class _Optional(Generic[_T]):
    """A value or nothing."""

    def __init__(self, *value: _T) -> None:
        if len(value) > 1:
            raise TypeError(f"{type(self).__name__}: wanted one value or none; given {value}")
        self._value = value

    def has_value(self) -> bool:
        return bool(self._value)

    def value(self) -> _T:
        """The value; ValueError when there is none."""
        if not self._value:
            raise ValueError(f"this {type(self).__name__} has no value")
        return self._value[0]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(v) for v in self._value)})"


class OptionalFloat(_Optional[float]):
    """A float or nothing."""


class OptionalInt(_Optional[int]):
    """An int or nothing."""


class OptionalDataType(_Optional[Any]):
    """A DataType or nothing."""


class CollectiveOperator(enum.Enum):
    """How a collective combines values."""

    Add = "Add"
    Mean = "Mean"
    Mul = "Mul"
    Min = "Min"
    Max = "Max"
    LogicalAnd = "LogicalAnd"
    LogicalOr = "LogicalOr"
    SquareAdd = "SquareAdd"
    Local = "Local"


class AccumulationType(enum.Enum):
    """How an accumulator takes a value in."""

    Add = "Add"
    DampenedAdd = "DampenedAdd"
    DampenedAddSquare = "DampenedAddSquare"
    DecayAdd = "DecayAdd"
    DecayAddSquare = "DecayAddSquare"
    MovingAverage = "MovingAverage"
    MovingAverageSquare = "MovingAverageSquare"
    Infinity = "Infinity"
    Mean = "Mean"


class AdamMode(enum.Enum):
    """Variants of Adam."""

    Adam = "Adam"
    AdamNoBias = "AdamNoBias"
    AdaMax = "AdaMax"
    Lamb = "Lamb"
    LambNoBias = "LambNoBias"


class InitType(enum.Enum):
    """Contents of a new tensor."""

    NoInit = "NoInit"
    Zero = "Zero"
