"""What training a torch module in phases costs: `python -m benchmarks.phased_torch`.

A step of the GPT-2 of `./dev demo torch` with all state in files, over the larger of

- its computation alone: what the phases of the same program compute with two and with four layers,
  without what loads and stores take, and from both what all layers compute, and
- its bytes over the bandwidth of the folder's disk, measured past the page cache with two threads.

Both are measured before and after the steps, in the same process, and the mean is taken.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import poptorch
from benchmarks.phased_rows import Bounds, Row, make_parser, make_row, run
from pando.disk_bandwidth import disk_bandwidth
from pando.process_memory import limit_private_memory, parse_bytes, peak_resident_bytes
from pando.session_info import phase_times
from pando.settings import use_session_settings
from pando_demo.gpt_network import GptShape, shape_of
from pando_demo.gpt_training import io_counts
from pando_demo.torch_gpt_model import NextToken, make_model
from poptorch import _compilation


@dataclass(frozen=True)
class Work:
    """What is measured."""

    folder: Path
    memory_bytes: int
    micro_batch: int
    micro_batches: int
    steps: int

    @property
    def sequences(self) -> int:
        return self.micro_batch * self.micro_batches


@contextmanager
def trainer_of(shape: GptShape, work: Work) -> Iterator[Any]:
    """A compiled trainer that runs in phases also where it would fit."""
    model = make_model(shape, work.folder, seed=1)
    options = poptorch.Options().showCompilationProgressBar(False)
    options.fit_in(work.memory_bytes, work.folder)
    options.Training.gradientAccumulation(work.micro_batches)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    trainer = poptorch.trainingModel(NextToken(model), options, optimizer)
    may_be_whole = _compilation.may_be_whole
    _compilation.may_be_whole = lambda *_: False
    try:
        with use_session_settings(profile=True):
            trainer.compile(*batch_of(shape, work))
    finally:
        _compilation.may_be_whole = may_be_whole
    yield trainer
    trainer.destroy()


def batch_of(shape: GptShape, work: Work) -> list[torch.Tensor]:
    size = (work.sequences, shape.sequence)
    return [torch.randint(shape.vocabulary, size) for _ in range(2)]


def phase_seconds(shape: GptShape, work: Work) -> float:
    """What the phases of one step compute."""
    with trainer_of(shape, work) as trainer:
        for _ in range(work.steps):
            trainer(*batch_of(shape, work))
        phases = phase_times(trainer._compiled().session)
    return sum(phase.compute_seconds for phase in phases) / work.steps


def compute_seconds(shape: GptShape, work: Work) -> float:
    """How long one step takes without transfers."""
    two, four = (phase_seconds(shape.with_changes(layers=n), work) for n in (2, 4))
    return two + (shape.layers - 2) * (four - two) / 2


def measure(name: str, shape: GptShape, work: Work) -> Row:
    bounds = Bounds(lambda: (compute_seconds(shape, work), disk_bandwidth(work.folder)))
    bounds.measure()
    with trainer_of(shape, work) as trainer:
        session = trainer._compiled().session
        trainer(*batch_of(shape, work))
        before, seconds = io_counts(session), []
        for _ in range(work.steps):
            start = time.perf_counter()
            trainer(*batch_of(shape, work))
            seconds.append(time.perf_counter() - start)
        io = io_counts(session) - before
        plan = trainer.fitPlan()
    resident = peak_resident_bytes()
    bounds.measure()
    return {
        **make_row(name, shape.sequence * work.sequences, seconds, io, bounds),
        "planned_mebibytes": plan.total_bytes / 2**20,
        "resident_mebibytes": resident / 2**20,
    }


def main() -> None:
    given = make_parser(
        "python -m benchmarks.phased_torch", __doc__, memory=parse_bytes("4GiB")
    ).parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    limit_private_memory(given.memory)
    work = Work(given.folder, given.memory, given.micro_batch, given.micro_batches, given.steps)
    more_columns = (
        "  planned  resident",
        " {planned_mebibytes:8.0f} {resident_mebibytes:9.0f}",
    )
    run(
        given,
        "phased_torch",
        "MiB of the process at most",
        more_columns,
        lambda size: measure(*shape_of(size), work),
    )


if __name__ == "__main__":
    main()
