"""What phased training from files costs: `python -m benchmarks.phased`.

A step of the decoder of `./dev demo gpt` with all state in files, over the larger of

- its computation alone: the loops and updates of the same program with two layers and remote
  buffers in RAM, without what loads and stores take, times the layers, and
- its bytes over the bandwidth of the folder's disk, measured past the page cache with two threads.

Both are measured before and after the steps, in the same process, and the mean is taken.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.figures import save_section
from pando.disk_bandwidth import Bandwidth, disk_bandwidth
from pando.process_memory import parse_bytes, peak_resident_bytes
from pando.session_info import phase_times
from pando.text_data import Batch
from pando_demo.gpt_network import SHAPES, GptShape, shape_of
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


def measure(name: str, shape: GptShape, options: GptOptions, steps: int) -> dict[str, object]:
    """Prints and returns one row."""
    options.folder.mkdir(parents=True, exist_ok=True)
    bounds: list[tuple[float, Bandwidth]] = []

    def measure_bounds() -> None:
        computing = compute_seconds(shape, options, steps)
        bounds.append((computing, disk_bandwidth(options.folder)))

    measure_bounds()
    seconds, io = train_steps(shape, options, steps)
    measure_bounds()
    step = statistics.median(seconds)
    computing = statistics.mean(bound for bound, _ in bounds)
    reading = statistics.mean(disk.reading for _, disk in bounds)
    writing = statistics.mean(disk.writing for _, disk in bounds)
    moving = (io.bytes_loaded / reading + io.bytes_stored / writing) / steps
    row: dict[str, object] = {
        "name": name,
        "tokens": shape.sequence * options.micro_batch * options.micro_batches,
        "step_seconds": step,
        "computing_seconds": computing,
        "moving_seconds": moving,
        "ratio": step / max(computing, moving),
        "waiting_seconds": io.waiting_seconds / steps,
        "gigabytes_moved": (io.bytes_loaded + io.bytes_stored) / steps / 1e9,
        "reading_megabytes_per_second": reading / 1e6,
        "writing_megabytes_per_second": writing / 1e6,
        "resident_mebibytes": peak_resident_bytes() / 2**20,
    }
    print(
        "{name:8} {tokens:7} {step_seconds:8.2f} {computing_seconds:9.2f} {moving_seconds:7.2f} "
        "{ratio:6.2f}x {waiting_seconds:8.2f} {gigabytes_moved:9.2f} "
        "{reading_megabytes_per_second:8.0f} {writing_megabytes_per_second:8.0f} "
        "{resident_mebibytes:9.0f}".format(**row)
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phased", description=__doc__)
    parser.add_argument("--params", nargs="+", default=["25M", "124M"], metavar="SIZE")
    parser.add_argument("--layers", type=int, help="instead of those of the size")
    parser.add_argument("--folder", type=Path, default=Path("phased-benchmark"))
    parser.add_argument("--memory", type=parse_bytes, default=0, help="e.g. 4GiB")
    parser.add_argument("--micro-batch", type=int, default=4, help="sequences of 256 tokens")
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows there")
    arguments = parser.parse_args()
    options = GptOptions(
        micro_batch=arguments.micro_batch,
        micro_batches=arguments.micro_batches,
        memory_bytes=arguments.memory,
        folder=arguments.folder,
    )
    print(f"sizes: {', '.join(SHAPES)}; seconds per step; MB/s of the disk; MiB resident at most")
    print(
        "size      tokens     step computing  moving   ratio  waiting GB moved   reading"
        "  writing  resident"
    )
    rows = []
    for size in arguments.params:
        name, shape = shape_of(size)
        shape = shape.with_changes(layers=arguments.layers)
        rows.append(measure(name, shape, options, arguments.steps))
    if arguments.json is not None:
        save_section(arguments.json, "phased", rows)


if __name__ == "__main__":
    main()
