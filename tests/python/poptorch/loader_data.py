"""Datasets that other processes import."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from poptorch._structures import ICustomArgParser


class Numbers(Dataset):
    """Sample i is (i, [i, i]), or what `make` makes of i."""

    def __init__(self, size: int, make: Any = None) -> None:
        self.size, self.make = size, make

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.size:
            raise IndexError(index)
        if self.make is not None:
            return self.make(index)
        return torch.tensor(index), torch.full((2,), float(index))


class FailingAtFirst(Numbers):
    """Sample 2 raises, the next time it ends its process, then it is there; a file counts."""

    def __init__(self, size: int, count: Path) -> None:
        super().__init__(size)
        self.count = count

    def __getitem__(self, index: int) -> Any:
        times = len(self.count.read_text()) if self.count.exists() else 0
        if index == 2 and times < 2:
            self.count.write_text("." * (times + 1))
            if times == 0:
                raise LookupError("no such file")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Stream(IterableDataset):
    """The numbers below `size`; of several workers each gives every n-th."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Any:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, self.size, step):
            yield torch.tensor(index)


def worker_parts(index: int) -> None:
    """A worker_init_fn that changes nothing."""


def as_dictionary(index: int) -> dict[str, torch.Tensor]:
    return {"number": torch.tensor(index), "row": torch.full((3,), index, dtype=torch.int16)}


class Named(NamedTuple):
    number: torch.Tensor
    half: torch.Tensor


def as_named(index: int) -> Named:
    return Named(torch.tensor(index), torch.tensor(index / 2, dtype=torch.float16))


def as_nested(index: int) -> dict[str, Any]:
    return {"pair": (torch.tensor(index), [torch.tensor(index % 2 == 0)]), "name": f"n{index}"}


class Graph:
    """A type that has a parser."""

    def __init__(self, nodes: torch.Tensor, edges: torch.Tensor, title: str) -> None:
        self.nodes, self.edges, self.title = nodes, edges, title


class GraphParser(ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.nodes
        yield struct.edges

    def reconstruct(self, original_structure, tensor_iterator):
        nodes, edges = next(tensor_iterator), next(tensor_iterator)
        return Graph(nodes, edges, original_structure.title)


class Items:
    """An iterable of ready items."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Any:
        return iter(self.items)


class Raising:
    """Gives one item, then raises."""

    def __iter__(self) -> Any:
        yield torch.zeros(2)
        raise LookupError("no such file")


class Dying:
    """Gives one item, then its process is killed."""

    def __iter__(self) -> Any:
        yield torch.zeros(2)
        os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait()


class Stuck:
    """Gives the number of its process, then nothing, for ever; a child of it lives on."""

    def __iter__(self) -> Any:
        child = os.fork()
        if not child:
            threading.Event().wait()
        yield torch.tensor([os.getpid(), child])
        threading.Event().wait()


class Interrupting:
    """Gives the number of its process; then it sends `target` SIGINT, when a pipe says so."""

    def __init__(self, target: int, pipe: str) -> None:
        self.target, self.pipe = target, pipe

    def __iter__(self) -> Any:
        yield torch.tensor([os.getpid()])
        Path(self.pipe).read_text()
        os.kill(self.target, signal.SIGINT)
        threading.Event().wait()


class Shuffling:
    """Random numbers of each generator that programs use."""

    def __iter__(self) -> Any:
        import random

        import numpy as np

        for _ in range(2):
            yield torch.tensor([random.random(), np.random.rand(), torch.rand(()).item()])


class StartMethod:
    """Says how the process that iterates starts others."""

    def __iter__(self) -> Any:
        yield torch.tensor(list(multiprocessing.get_context().get_start_method().encode()))


class OncePerEpoch:
    """Counts its epochs, in the process that iterates."""

    def __init__(self, size: int) -> None:
        self.size, self.epoch = size, 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Any:
        epoch, self.epoch = self.epoch, self.epoch + 1
        for index in range(self.size):
            yield torch.tensor([epoch, index])


class NotingEpochs:
    """Writes a letter to a pipe when an epoch begins."""

    def __init__(self, pipe: str) -> None:
        self.pipe = pipe

    def __iter__(self) -> Any:
        with open(self.pipe, "ab", buffering=0) as file:
            file.write(b"e")
        yield torch.zeros(2)


class Samples(Dataset):
    """Sample i is what `make` makes of i; the batch with sample `last` ends its process."""

    def __init__(self, size: int, make: Any, last: int = -1) -> None:
        self.size, self.make, self.last = size, make, last

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        if index == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.make(index)


def many_kinds(index: int) -> Any:
    """Everything that torch's collate_fn makes tensors of, and a name."""
    return {
        "row": torch.full((3, 2), float(index)),
        "array": np.full(4, index, dtype=np.int16),
        "number": np.float64(index / 2),
        "label": index,
        "pair": (torch.tensor(index), [torch.full((2,), index % 2 == 0), index / 4]),
        "name": f"n{index}",
    }


def many_rows(index: int) -> Any:
    """The same without the name, for items of which rows are put together."""
    return {name: part for name, part in many_kinds(index).items() if name != "name"}


def other_order(index: int) -> dict[str, torch.Tensor]:
    """In every second batch of four the keys come the other way round."""
    items = {"a": torch.full((3,), index), "b": torch.full((3,), -index)}
    return items if index // 4 % 2 == 0 else dict(reversed(items.items()))


def growing(index: int) -> torch.Tensor:
    """Batches of four shrink and grow, up to the size of the first one."""
    return torch.full((8 - index // 4 % 3, 3), float(index))


def outgrowing(index: int) -> torch.Tensor:
    return torch.zeros(4 if index < 32 else 4096)


def failing(index: int) -> torch.Tensor:
    if index >= 32:
        raise LookupError("no such file")
    return torch.tensor(index)


def of_two_dtypes(index: int) -> torch.Tensor:
    """The last sample of a batch of four may have another type than the first."""
    return torch.tensor(index, dtype=torch.float64 if index % 8 == 7 else torch.float32)


def with_gradients(index: int) -> torch.Tensor:
    return torch.full((2,), float(index), requires_grad=True)


def summed(samples: list[torch.Tensor]) -> Graph:
    """A collate_fn of a type with a parser."""
    rows = torch.stack(samples)
    return Graph(rows, rows.sum(0), "sums")


def as_row(index: int) -> torch.Tensor:
    return torch.full((2,), float(index))


class Doubling(torch.utils.data.DataLoader):
    """A loader that does something with what torch's loader gives."""

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield batch * 2


def with_numbers(index: int) -> tuple[torch.Tensor, int, Any, list[int]]:
    """A row; a number; a bool, a float or an int by turns of batches of four; a list."""
    turns = (index, bool(index % 2), index / 2, -index)
    return as_row(index), index, turns[index // 4 % 4], [index, 2 * index]


def of_two_kinds_of_numbers(index: int) -> tuple[int, Any]:
    return index, index / 2 if index % 3 else index


def growing_number(index: int) -> tuple[torch.Tensor, int]:
    return as_row(index), 2**index


def numbered(index: int) -> tuple[torch.Tensor, int]:
    return as_row(index) + 1, index


def longer_later(index: int) -> tuple[int, ...]:
    return (index,) * (3 if index == 41 else 2)
