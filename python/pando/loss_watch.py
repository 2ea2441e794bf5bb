"""Losses of a training run, and the first that is not a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class LossWatch:
    """Keeps the losses of the steps, counted from 1, and reports the first one that is NaN or
    infinite: once, with its step. Training goes on."""

    def __init__(self, report: Callable[[str], None] = print) -> None:
        self._report = report
        self._losses: list[float] = []
        self.first_bad_step: int | None = None

    def add(self, loss: Any) -> None:
        """The loss of the next step: one number."""
        value = float(loss)
        self._losses.append(value)
        if self.first_bad_step is None and not np.isfinite(value):
            self.first_bad_step = self.num_steps
            self._report(f"The loss is {value} at step {self.num_steps}; training goes on.")

    @property
    def num_steps(self) -> int:
        return len(self._losses)

    @property
    def losses(self) -> np.ndarray:
        """One float32 for each step."""
        return np.array(self._losses, np.float32)

    def recent(self, count: int = 500) -> float:
        """The mean of the latest losses; NaN when there are none."""
        latest = self._losses[-count:]
        return float(np.mean(latest)) if latest else float("nan")
