"""Which samples a data loader draws: a process's part of them, and batches put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import Sampler

from poptorch._impl import createPoptorchError


class PartitionSampler(Sampler[int]):
    """The part of a dataset that one of several processes loads.

    Args:
        size: The number of samples of the whole dataset, above 0.
        step: The size of a combined batch.
        process_id: The number of this process.
        num_processes: The number of processes.
        drop_last: Whether all processes get equally many whole batches, `size // (step *
            num_processes)` each; otherwise all samples are spread evenly, and the first processes
            get the rest.
        seed: Every epoch has another permutation of the whole dataset, the same in all processes;
            None: the order of the dataset.
    """

    def __init__(
        self,
        size: int,
        step: int,
        process_id: int,
        num_processes: int,
        drop_last: bool,
        seed: int | None,
    ) -> None:
        self._size = size
        if drop_last:
            self._length = step * (size // (step * num_processes))
            self._offset = process_id * self._length
        else:
            each, rest = divmod(size, num_processes)
            self._length = each + (process_id < rest)
            self._offset = process_id * each + min(process_id, rest)
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        part = slice(self._offset, self._offset + self._length)
        if self._generator is None:
            return iter(range(self._size)[part])
        permutation: list[int] = torch.randperm(self._size, generator=self._generator)[
            part
        ].tolist()
        return iter(permutation)


class CombinedBatchSampler(Sampler[list[Any]]):
    """Puts consecutive batches of another sampler together.

    Args:
        batches: The other sampler.
        count: How many of its batches are one batch here.
        drop_last: Whether fewer batches at the end are left out.
    """

    def __init__(self, batches: Iterable[list[Any]], count: int, drop_last: bool) -> None:
        self._batches = batches
        self._count = count
        self._drop_last = drop_last

    def __len__(self) -> int:
        batches: Any = self._batches
        whole, rest = divmod(len(batches), self._count)
        return whole + (rest > 0 and not self._drop_last)

    def __iter__(self) -> Iterator[list[Any]]:
        gathered: list[list[Any]] = []
        for batch in self._batches:
            gathered.append(batch)
            if len(gathered) == self._count:
                yield _put_together(gathered)
                gathered = []
        if gathered and not self._drop_last:
            yield _put_together(gathered)


def _put_together(batches: list[list[Any]]) -> list[Any]:
    sizes = [len(batch) for batch in batches]
    if len(set(sizes)) > 1:
        raise createPoptorchError(
            "DataLoader: wanted a batch_sampler whose batches are equally large, because they are "
            f"put together and split again; given batches of {sizes} samples"
        )
    return [index for batch in batches for index in batch]
