"""Losses of a training run, and the first that is not a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class LossWatch:
    """Keeps the losses of a training run and reports the first one that is NaN or infinite.

    It is reported once, with its step, counted from 1; training goes on.

    Args:
        report: Called with the text of the report.

    Attributes:
        first_bad_step: The step of that loss; None while all are finite.
    """

    def __init__(self, report: Callable[[str], None] = print) -> None:
        self._report = report
        self._losses: list[float] = []
        self.first_bad_step: int | None = None

    def add(self, loss: Any) -> None:
        """Takes the loss of the next step.

        Args:
            loss: One number.
        """
        value = float(loss)
        self._losses.append(value)
        if self.first_bad_step is None and not np.isfinite(value):
            self.first_bad_step = self.num_steps
            self._report(f"The loss is {value} at step {self.num_steps}; training goes on.")

    @property
    def num_steps(self) -> int:
        """How many losses were added."""
        return len(self._losses)

    @property
    def losses(self) -> np.ndarray:
        """All losses, float32 (steps,)."""
        return np.array(self._losses, np.float32)

    def recent(self, count: int = 500) -> float:
        """The mean of the latest losses.

        Args:
            count: How many of them at most.

        Returns:
            The mean; NaN when there are none.
        """
        latest = self._losses[-count:]
        return float(np.mean(latest)) if latest else float("nan")
