"""Random sequences of steps: what draws them, and the programs that run many of them."""

from __future__ import annotations

import argparse
import random
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable


class Differs(AssertionError):
    """The text says what."""


class RandomSequence(ABC):
    """Steps are methods without arguments, which raise `Differs`.

    Args:
        seed: Of everything.
        folder: For files.
    """

    actions: tuple[str, ...] = ()
    count = 0

    def __init__(self, seed: int, folder: str) -> None:
        self.draw = random.Random(seed)
        self.folder = folder
        self.done: list[str] = []

    @abstractmethod
    def check_all(self) -> None:
        """Compare what can be seen from outside."""

    @abstractmethod
    def close(self) -> None:
        """Give up what the sequence holds."""

    def take(self, step: str) -> None:
        """Take a step.

        Args:
            step: The name of its method.
        """
        getattr(self, step)()

    def outcome(self) -> str:
        """Take random steps.

        Returns:
            What differs, with the steps that were taken; empty if nothing does.
        """
        try:
            for _ in range(self.count):
                self.done.append(self.draw.choice(self.actions))
                self.take(self.done[-1])
            self.check_all()
            return ""
        except Exception as error:
            return f"{type(error).__name__}: {error}; after {', '.join(self.done)}"
        finally:
            self.close()


def outcome_of(kind: type[RandomSequence], seed: int) -> str:
    """Run a sequence in a folder of its own.

    Args:
        kind: Its class.
        seed: Of the sequence.

    Returns:
        As `RandomSequence.outcome`.
    """
    with tempfile.TemporaryDirectory() as folder:
        return kind(seed, folder).outcome()


def main(description: str | None, run: Callable[[int], str]) -> int:
    """Run sequences as a program, which prints those that differ.

    Args:
        description: What `--help` says.
        run: Gives the outcome of a seed.

    Returns:
        The status of the program.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    options = parser.parse_args()
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        if outcome := run(seed):
            failed += 1
            print(f"seed {seed}: {outcome}", flush=True)
    print(f"{options.count} sequences, {failed} differ")
    return int(failed > 0)
