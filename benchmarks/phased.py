"""What phased training from files costs: `python -m benchmarks.phased`.

A step of the decoder of `./dev demo gpt` with all state in files, over the larger of

- its computation alone: the loops and updates of the same program with two layers and remote
  buffers in RAM, without what loads and stores take, times the layers, and
- its bytes over the bandwidth of the folder's disk, measured past the page cache with two threads.

Both are measured before and after the steps, in the same process, and the mean is taken.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from benchmarks.phased_rows import Bounds, Row, make_parser, make_row, run
from pando.disk_bandwidth import disk_bandwidth
from pando.process_memory import peak_resident_bytes
from pando.session_info import phase_times
from pando.text_data import Batch
from pando_demo.gpt_network import GptShape, shape_of
from pando_demo.gpt_training import GptOptions, GptTrainer, IoCounts

COMPUTE_LAYERS = 2


def random_batch(trainer: GptTrainer, rng: np.random.Generator) -> Batch:
    tokens, labels = (
        rng.integers(0, trainer.shape.vocabulary, trainer.sequences).astype(np.int32)
        for _ in range(2)
    )
    return Batch(tokens, labels)


def compute_seconds(shape: GptShape, options: GptOptions, steps: int) -> float:
    """How long one step takes without transfers."""
    small = replace(shape, layers=COMPUTE_LAYERS)
    rng = np.random.default_rng(1)
    with GptTrainer(small, replace(options, tier="ram", memory_bytes=0, profile=True)) as trainer:
        trainer.initialise()
        for _ in range(steps):
            trainer.step(random_batch(trainer, rng))
        phases = phase_times(trainer.session)
    of_layers = sum(p.compute_seconds for p in phases if p.name.startswith("layers"))
    others = sum(p.compute_seconds for p in phases) - of_layers
    return (of_layers * shape.layers / COMPUTE_LAYERS + others) / steps


def train_steps(shape: GptShape, options: GptOptions, steps: int) -> tuple[list[float], IoCounts]:
    """Seconds of each step after a first one, and the transfers of all of these."""
    rng = np.random.default_rng(1)
    with GptTrainer(shape, options) as trainer:
        trainer.initialise()
        trainer.step(random_batch(trainer, rng))
        before = trainer.io()
        seconds = []
        for _ in range(steps):
            start = time.perf_counter()
            trainer.step(random_batch(trainer, rng))
            seconds.append(time.perf_counter() - start)
        return seconds, trainer.io() - before


def measure(name: str, shape: GptShape, options: GptOptions, steps: int) -> Row:
    options.folder.mkdir(parents=True, exist_ok=True)
    bounds = Bounds(
        lambda: (compute_seconds(shape, options, steps), disk_bandwidth(options.folder))
    )
    bounds.measure()
    seconds, io = train_steps(shape, options, steps)
    bounds.measure()
    tokens = shape.sequence * options.micro_batch * options.micro_batches
    return {
        **make_row(name, tokens, seconds, io, bounds),
        "reading_megabytes_per_second": bounds.reading / 1e6,
        "writing_megabytes_per_second": bounds.writing / 1e6,
        "resident_mebibytes": peak_resident_bytes() / 2**20,
    }


def main() -> None:
    parser = make_parser("python -m benchmarks.phased", __doc__, memory=0)
    parser.add_argument("--layers", type=int, help="instead of those of the size")
    given = parser.parse_args()
    options = GptOptions(
        micro_batch=given.micro_batch,
        micro_batches=given.micro_batches,
        memory_bytes=given.memory,
        folder=given.folder,
    )

    def measure_size(size: str) -> Row:
        name, shape = shape_of(size)
        return measure(name, shape.with_changes(layers=given.layers), options, given.steps)

    more_columns = (
        "   reading  writing  resident",
        " {reading_megabytes_per_second:8.0f} {writing_megabytes_per_second:8.0f}"
        " {resident_mebibytes:9.0f}",
    )
    run(given, "phased", "MB/s of the disk; MiB resident at most", more_columns, measure_size)


if __name__ == "__main__":
    main()
