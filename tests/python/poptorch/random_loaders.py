"""Random sequences of what programs do with an asynchronous loader, some of which Ctrl-C ends.

Batches are those of the dataset in order, whatever was left or ended before. As a program
(`python -m tests.python.poptorch.random_loaders COUNT SEED`) it prints the sequences that differ.
"""

from __future__ import annotations

import faulthandler
import sys
from functools import partial
from typing import Any

import torch

import poptorch
from poptorch import DataLoaderMode, SharingStrategy
from tests.python import random_sequences
from tests.python.interrupted_sequences import InterruptedSequence
from tests.python.poptorch.loader_data import Samples, as_row
from tests.python.random_sequences import Differs

# More than any step takes; what waits for ever ends the process and says where.
MOST_SECONDS = 120


class Loading(InterruptedSequence):
    """One sequence. What is expected is the number of the next batch; None: no epoch has begun.

    Args:
        seed: Of everything.
        folder: For files.
    """

    count = 12
    actions = (
        *["take_one"] * 5, *["begin"] * 3, "finish", "finish", "leave", "count_batches",
        "make_another",
    )  # fmt: skip
    most_events = 150
    whole_steps = ("count_batches", "leave")

    def __init__(self, seed: int, folder: str) -> None:
        super().__init__(seed, folder)
        faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
        self.iterator: Any = None
        self.expected: int | None = None
        self.loader = self._make()

    def _make(self) -> poptorch.DataLoader:
        draw = self.draw
        options = poptorch.Options().deviceIterations(draw.choice([1, 2]))
        size, iterations = draw.choice([1, 2, 3]), options.device_iterations
        drop_last = draw.random() < 0.5
        samples = draw.randrange(size * iterations, 20)
        mode = draw.choice([DataLoaderMode.Async, DataLoaderMode.AsyncRebatched])
        workers = draw.choice([0, 0, 1, 2])
        arguments: dict[str, Any] = {}
        if workers and draw.random() < 0.5:
            arguments["persistent_workers"] = draw.random() < 0.5
        if mode == DataLoaderMode.AsyncRebatched and draw.random() < 0.5:
            arguments["rebatched_worker_size"] = draw.randrange(1, size * iterations + 1)
        rows = torch.stack([as_row(index) for index in range(samples)])
        self.batches = list(rows.split(size * iterations))
        if drop_last and len(self.batches[-1]) < size * iterations:
            self.batches.pop()
        return poptorch.DataLoader(
            options,
            Samples(samples, as_row),
            batch_size=size,
            num_workers=workers,
            drop_last=drop_last,
            mode=mode,
            async_options={
                "buffer_size": draw.choice([1, 2, 3]),
                "early_preload": draw.random() < 0.5,
                "load_indefinitely": draw.random() < 0.5,
                "sharing_strategy": SharingStrategy.Fork,
            },
            **arguments,
        )

    def check_all(self) -> None:
        self.begin()
        self.finish()

    def close(self) -> None:
        self.loader.terminate()
        faulthandler.cancel_dump_traceback_later()

    def begin(self) -> None:
        self.expected = 0
        self.iterator = iter(self.loader)

    def leave(self) -> None:
        self.expected = self.iterator = None

    def _next_batch(self) -> bool:
        """Whether there was one more batch."""
        assert self.expected is not None
        number, self.expected = self.expected, self.expected + 1
        batch = next(self.iterator, None)
        if number == len(self.batches):
            self.leave()
            if batch is None:
                return False
            raise Differs(f"after the last batch comes {batch}")
        if batch is None or not torch.equal(batch, self.batches[number]):
            raise Differs(f"batch {number} is {batch}, wanted {self.batches[number]}")
        return True

    def take_one(self) -> None:
        if self.expected is not None:
            self._next_batch()

    def finish(self) -> None:
        while self.expected is not None and self._next_batch():
            pass

    def count_batches(self) -> None:
        if len(self.loader) != len(self.batches):
            raise Differs(f"the length is {len(self.loader)}, wanted {len(self.batches)}")

    def make_another(self) -> None:
        self.leave()
        self.loader.terminate()
        self.loader = self._make()

    def go_on(self, step: str, before: int | None) -> None:
        """As `InterruptedSequence.go_on`: programs begin again."""
        if step == "make_another":
            self.make_another()
        self.leave()


if __name__ == "__main__":
    sys.exit(random_sequences.main(__doc__, partial(random_sequences.outcome_of, Loading)))
