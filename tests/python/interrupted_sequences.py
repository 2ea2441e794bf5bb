"""Sequences of steps, some of which Ctrl-C ends in the middle of what the packages do."""

from __future__ import annotations

import copy
import signal
import sys
from abc import abstractmethod
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pando import interrupts
from tests.python.random_sequences import Differs, RandomSequence

PACKAGES = str(Path(interrupts.__file__).parents[1])


class Interrupter:
    """A context in which Ctrl-C comes once: as a function of the packages is called, or has called.

    Args:
        at: The number of these events before it.
    """

    def __init__(self, at: int) -> None:
        self._left = at
        # Where it came.
        self.place = ""

    def __enter__(self) -> Interrupter:
        # A parent that ignores the signal, as `nohup` and background jobs do, passes that on.
        self._before = signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)
        now = signal.signal(signal.SIGINT, self._before)
        if now is not signal.default_int_handler:
            raise Differs("Ctrl-C is held back for ever")

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "c_return") or not _is_interrupted(frame.f_code):
            return
        if self._left > 0:
            self._left -= 1
            return
        sys.setprofile(None)
        self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        signal.raise_signal(signal.SIGINT)


def _is_interrupted(code: CodeType) -> bool:
    # What holds Ctrl-C back cannot hold back what comes before it begins.
    return code.co_filename.startswith(PACKAGES) and code.co_filename != interrupts.__file__


class InterruptedSequence(RandomSequence):
    """A sequence whose steps Ctrl-C may end, all but `whole_steps`.

    A step brings `expected` up to date before it calls the packages. Ctrl-C comes within the first
    `most_events` events of a step, more often within the first of these.
    """

    expected: Any
    most_events = 0
    whole_steps: tuple[str, ...] = ()

    def take(self, step: str) -> None:
        """Take a step, or the beginning of it.

        Args:
            step: The name of its method.
        """
        if step in self.whole_steps:
            super().take(step)
            return
        before = copy.deepcopy(self.expected)
        interrupter = Interrupter(int(self.most_events ** self.draw.random()))
        try:
            with interrupter:
                super().take(step)
        except KeyboardInterrupt:
            self.done[-1] += f" (Ctrl-C at {interrupter.place})"
            self.go_on(step, before)

    @abstractmethod
    def go_on(self, step: str, before: Any) -> None:
        """Find out whether a step is whole, or was not begun.

        Args:
            step: The step, which Ctrl-C has ended.
            before: What was expected before it.

        Raises:
            Differs: It was left half done.
        """
