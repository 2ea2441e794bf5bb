"""Which graph simplifications to apply; stored for programs that set them."""

from __future__ import annotations

import enum


class PatternsLevel(enum.Enum):
    """How many patterns are on by default."""

    NoPatterns = 0
    Minimal = 1
    Default = 2
    All = 3


class Patterns:
    """A level and single patterns switched on or off."""

    def __init__(self, level: PatternsLevel = PatternsLevel.Default) -> None:
        self.level = level
        self.enabled: dict[str, bool] = {}
        self.runtime_asserts = False

    def enablePattern(self, name: str, value: bool = True) -> Patterns:
        self.enabled[name] = value
        return self

    def enableRuntimeAsserts(self, value: bool = True) -> Patterns:
        self.runtime_asserts = value
        return self
