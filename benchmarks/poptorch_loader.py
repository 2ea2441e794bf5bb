"""poptorch's asynchronous loader beside torch's own.

    python -m benchmarks.poptorch_loader [seconds]

Both load batches of images of 3 x 64 x 64 bytes that become floats, or of small rows; a batch is
used by reading it once. Blocks of batches alternate; the medians of batches a second are printed,
and their ratio. An asynchronous loader has one process, or that and its workers; torch's loader has
its workers, and loads where it is iterated over if it has none.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

import poptorch

BLOCK_SECONDS = 0.25


class Images(Dataset):
    """Bytes that become floats between -1 and 1, with a label."""

    def __init__(self) -> None:
        self.pixels = torch.randint(0, 256, (512, 3, 64, 64), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pixels[index].float().mul_(2 / 255).sub_(1), index % 10


class Rows(Dataset):
    """Rows of 64 floats, with a label."""

    def __init__(self) -> None:
        self.rows = torch.randn(4096, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.rows[index], index % 10


def forever(loader: Any) -> Iterator[Any]:
    return itertools.chain.from_iterable(itertools.repeat(loader))


def use(batch: Any) -> None:
    for part in batch:
        part.numpy().sum()  # torch would use threads, which wait beside the loading


def batches_per_second(batches: Iterator[Any]) -> float:
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < BLOCK_SECONDS:
        use(next(batches))
        count += 1
    return count / (time.perf_counter() - start)


# Numbers of workers of poptorch's loader and of torch's: as many, or as many processes that load.
WORKERS = ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2))


def compare(
    dataset: Dataset, batch_size: int, workers: tuple[int, int], seconds: float
) -> tuple[float, float]:
    """Medians of batches a second of poptorch's loader and of torch's."""
    ours = poptorch.DataLoader(
        poptorch.Options(),
        dataset,
        batch_size,
        num_workers=workers[0],
        mode=poptorch.DataLoaderMode.Async,
    )
    theirs = DataLoader(
        dataset,
        batch_size,
        drop_last=True,
        num_workers=workers[1],
        persistent_workers=workers[1] > 0,
    )
    speeds: tuple[list[float], list[float]] = ([], [])
    sources = forever(ours), forever(theirs)
    for source in sources:
        use(next(source))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for source, found in zip(sources, speeds, strict=True):
            found.append(batches_per_second(source))
    ours.terminate()
    return statistics.median(speeds[0]), statistics.median(speeds[1])


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    print("dataset  batch  workers  poptorch/s  torch/s  ratio")
    for (dataset, size), workers in itertools.product(((Images(), 16), (Rows(), 64)), WORKERS):
        ours, theirs = compare(dataset, size, workers, seconds)
        name, both = type(dataset).__name__, f"{workers[0]}, {workers[1]}"
        print(f"{name:7}  {size:5}  {both:>7}  {ours:10.0f}  {theirs:7.0f}  {ours / theirs:5.2f}")


if __name__ == "__main__":
    main()
