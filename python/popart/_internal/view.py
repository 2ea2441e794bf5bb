"""Regions of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Region:
    """A box `[lower, upper)` of a tensor."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    empty: bool = False

    @staticmethod
    def getFull(shape: Sequence[int]) -> Region:
        return Region((0,) * len(shape), tuple(shape))

    @staticmethod
    def getEmpty(rank: int) -> Region:
        return Region((0,) * rank, (0,) * rank, empty=True)

    def isEmpty(self) -> bool:
        return self.empty or any(lo >= up for lo, up in zip(self.lower, self.upper, strict=True))
