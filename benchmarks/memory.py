"""What saving memory costs and saves: `python -m benchmarks.memory`.

- `phased time`: one step of the tutorial network in phases, with remote buffers in RAM and
  `io_overlapped` (phased_tutorial.py), over the same step all in memory: one replica, 4
  micro-batches of 64 images, Adam. Both steps have the same samples, so this is the ratio per
  sample, too.
- `sharded optimizer state`: the bytes that the compiled phased program plans for the remote buffers
  of Adam's moments, all rows and their padding included, of each of two replicas that share them
  out, over those of a replica that keeps them whole.
- `recomputation memory`, `recomputation time`: a training step (Adam) of the transformer encoder of
  the `transformer/...` rows with 24 layers, one graph for all layers, whose gradient graph is
  `addons.recompute_graph`'s, over the same step with the gradient graph of `addons.autodiff`.
  Memory is the planned peak of the frame of the program: all but variables and constants, which
  are the same weights and moments in both. So it counts the gradients and the scratch memory that
  both must hold, too.

Times are medians over rounds that take the two programs in turns, in this process. Rounds during
which other processes used more than 5 % of the machine are taken again, up to twice as many more.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

import popxl
from benchmarks import data, phased_tutorial
from benchmarks.cases import Case
from benchmarks.figures import save_section
from benchmarks.frameworks.popxl_programs import BuiltProgram, transformer_training
from benchmarks.phased_tutorial import NEVER_SHARDED, Options
from benchmarks.quiet import QUIET_SHARE, NeighbourWatch
from benchmarks.table import align
from pando import _core
from pando.session_info import memory_plan, open_session

FEEDS = 4


@dataclass(frozen=True)
class Timing:
    rounds: int = 9
    block_seconds: float = 1.0
    retry_disturbed: bool = True


@dataclass(frozen=True)
class Row:
    """``measured`` is the ratio of the two ``values``, or the median ratio of the rounds."""

    name: str
    measured: float
    wanted: float  # at most
    unit: str  # of the values
    values: dict[str, float]
    # Rows of times have (largest - smallest) / median ratio, and the share of the machine that
    # other processes took in the worst round kept.
    spread: float | None = None
    disturbed: float | None = None

    @property
    def cells(self) -> list[str]:
        detail = ", ".join(f"{name} {value:,.2f}" for name, value in self.values.items())
        return [self.name, f"{self.measured:.3f}x", f"<= {self.wanted}x", f"{detail} {self.unit}"]


@dataclass
class Round:
    seconds: tuple[float, float]
    disturbed: float

    @property
    def ratio(self) -> float:
        return self.seconds[0] / self.seconds[1]


@dataclass
class Contest:
    """Two programs whose steps take turns; the first is measured against the second."""

    steps: tuple[Callable[[], None], Callable[[], None]]
    rounds: list[Round] = field(default_factory=list)

    def run(self, timing: Timing) -> None:
        for step in self.steps:
            step()
        quiet = 0
        for number in range(3 * timing.rounds):
            if quiet == timing.rounds or (number >= timing.rounds and not timing.retry_disturbed):
                break
            watch = NeighbourWatch(os.getpid())
            first, second = (self._block(step, timing.block_seconds) for step in self.steps)
            self.rounds.append(Round((first, second), watch.share()))
            quiet += self.rounds[-1].disturbed <= QUIET_SHARE
        self.rounds.sort(key=lambda taken: taken.disturbed)
        del self.rounds[timing.rounds :]

    @staticmethod
    def _block(step: Callable[[], None], seconds: float) -> float:
        """Times one step, after an untimed one: the other program had the caches."""
        step()
        start = time.perf_counter()
        steps, elapsed = 0, 0.0
        while elapsed < seconds or steps == 0:
            step()
            steps += 1
            elapsed = time.perf_counter() - start
        return elapsed / steps

    def row(self, name: str, wanted: float, names: tuple[str, str], samples: int) -> Row:
        """In microseconds per sample."""
        ratios = [taken.ratio for taken in self.rounds]
        medians = [statistics.median(taken.seconds[i] for taken in self.rounds) for i in (0, 1)]
        middle = statistics.median(ratios)
        return Row(
            name,
            middle,
            wanted,
            "us per sample",
            {who: 1e6 * s / samples for who, s in zip(names, medians, strict=True)},
            (max(ratios) - min(ratios)) / middle,
            max(taken.disturbed for taken in self.rounds),
        )


def _steps(
    session: popxl.Session, inputs: list[dict[popxl.HostToDeviceStream, np.ndarray]]
) -> Callable[[], None]:
    feeds = itertools.cycle(inputs)

    def step() -> None:
        session.run(next(feeds))

    return step


def image_batches(options: Options) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random images and labels of the steps of one replica."""
    rng = np.random.default_rng(7)
    shape = (options.micro_batches, options.micro_batch)
    while True:
        images = rng.standard_normal((*shape, phased_tutorial.IMAGE), dtype=np.float32)
        yield images, rng.integers(0, phased_tutorial.CLASSES, shape, dtype=np.int32)


def phased_rows(options: Options, timing: Timing) -> list[Row]:
    batches = list(itertools.islice(image_batches(options), FEEDS))
    steps = []
    with ExitStack() as stack:
        for program in (phased_tutorial.phased(options), phased_tutorial.in_memory(options)):
            session = stack.enter_context(open_session(program.ir))
            feeds = [{program.images: x, program.labels: y} for x, y in batches]
            steps.append(_steps(session, feeds))
        contest = Contest((steps[0], steps[1]))
        contest.run(timing)
    samples = options.micro_batch * options.micro_batches
    return [contest.row("phased time", 1.15, ("phased", "in memory"), samples)]


def state_bytes(options: Options) -> int:
    """What the compiled program plans for the moments of one replica."""
    program = phased_tutorial.phased(options)
    moments = {buffer.remote_buffer_id for buffer in program.state}
    session = open_session(program.ir, threads=options.replicas)
    planned = [b for b in session._pb_session.program.remote_buffers if b.id in moments]
    assert len(planned) == len(moments)
    return sum(b.entries * math.prod(b.shape) * _core.dtype_bytes(b.dtype) for b in planned)


def sharding_rows(options: Options) -> list[Row]:
    options = replace(options, replicas=2)
    sharded = state_bytes(options)
    whole = state_bytes(replace(options, sharded_threshold=NEVER_SHARDED))
    values = {"sharded": sharded / 1024, "whole": whole / 1024}
    return [Row("sharded optimizer state", sharded / whole, 0.51, "KiB per replica", values)]


def recomputation_rows(case: Case, timing: Timing) -> list[Row]:
    def program(recompute: bool) -> BuiltProgram:
        return transformer_training(case, recompute)

    batches = data.batches(case)[:FEEDS]
    steps, peaks = [], []
    with ExitStack() as stack:
        for built in (program(recompute=True), program(recompute=False)):
            session = stack.enter_context(open_session(built.ir))
            peaks.append(memory_plan(session).peak_frame_bytes)
            feeds = [dict(zip(built.inputs, (b.x, b.labels), strict=True)) for b in batches]
            steps.append(_steps(session, feeds))
        contest = Contest((steps[0], steps[1]))
        contest.run(timing)
    names = ("recomputed", "kept")
    peaks_mib = dict(zip(names, (peak / 2**20 for peak in peaks), strict=True))
    return [
        Row("recomputation memory", peaks[0] / peaks[1], 0.25, "MiB", peaks_mib),
        contest.row("recomputation time", 1.4, names, case.batch),
    ]


def all_rows(only: list[str], timing: Timing, quick: bool) -> list[Row]:
    options = Options(micro_batch=8, micro_batches=2) if quick else Options()
    layers, batch = (3, 1) if quick else (24, 4)
    case = Case("", "transformer", "us", "train", "tutorial_adam", batch, layers=layers)
    parts: dict[str, Callable[[], list[Row]]] = {
        "phased": lambda: phased_rows(options, timing),
        "sharding": lambda: sharding_rows(options),
        "recomputation": lambda: recomputation_rows(case, timing),
    }
    return [row for name in only for row in parts[name]()]


def main() -> int:
    names = ["phased", "sharding", "recomputation"]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows there")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PART")
    parser.add_argument("--rounds", type=int, default=Timing.rounds, help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: a check, not a result")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: must be at least 1")
    timing = Timing(arguments.rounds)
    if arguments.quick:
        timing = Timing(rounds=1, block_seconds=0.01, retry_disturbed=False)
    rows = all_rows(arguments.only, timing, arguments.quick)
    print(align(["row", "measured", "wanted", ""], [row.cells for row in rows]))
    busy = [row.name for row in rows if (row.disturbed or 0) > QUIET_SHARE]
    if busy:
        print(f"other processes were running, do not trust: {', '.join(busy)}")
    if arguments.json is not None:
        save_section(arguments.json, "memory", [asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
