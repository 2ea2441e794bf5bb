"""Batches that are collated in shared memory, against those of torch's loader."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from poptorch._accessor import AsynchronousDataAccessor
from poptorch._args_parser import registerCustomArgParser
from poptorch._errors import Error
from poptorch._private_torch import default_collate_fn_map
from poptorch._ring import Ring, RingMemory
from poptorch._slot_collate import Slot, WrittenBatch, with_slots
from poptorch.enums import SharingStrategy
from tests.python.poptorch import loader_data
from tests.python.poptorch.loader_data import Samples, Stream

pytestmark = pytest.mark.usefixtures("quick_processes")
Make = Callable[..., AsynchronousDataAccessor]


def check_epochs(loaded: AsynchronousDataAccessor, loader: Any, epochs: int = 2) -> None:
    """Compares values, types and order."""
    for _ in range(epochs):
        for got, expected in zip(loaded, loader, strict=True):
            assert type(got) is type(expected)
            if isinstance(got, dict):
                assert got.pop("name", None) == expected.pop("name", None)
            torch.testing.assert_close(got, expected, rtol=0, atol=0)


class Slots:
    """Gives every task one of a few slots."""

    def __init__(self, slots: int) -> None:
        self.slots, self.tasks = slots, 0

    def begin_epoch(self) -> None:
        self.tasks = 0

    def slot_of_task(self) -> Slot:
        self.tasks += 1
        return Slot((self.tasks - 1) % self.slots, self.slots, 4096)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_travel_as_numbers_of_slots(workers: int) -> None:
    memory = RingMemory()
    memory.reserve(16, 4096)
    ring = Ring(memory, 16, 4096)
    loader = DataLoader(Samples(32, loader_data.as_row), batch_size=4, num_workers=workers)
    descriptions = set()
    for index, written in enumerate(with_slots(loader, Slots(16), memory)):
        assert type(written) is WrittenBatch
        assert written.slot == index
        descriptions.add(written.description)
        (rows,) = ring.tensors(index, pickle.loads(written.description).layout)
        assert rows[:, 0].tolist() == [4 * index + row for row in range(4)]
    # All workers say the same, so that it is told to the program once.
    assert len(descriptions) == 1


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("make", ["many_kinds", "other_order", "growing", "as_row"])
def test_the_same_batches(accessor: Make, workers: int, make: str) -> None:
    data = Samples(50, getattr(loader_data, make))
    loader = DataLoader(
        data, batch_size=4, num_workers=workers, persistent_workers=workers > 0, drop_last=True
    )
    check_epochs(accessor(loader, buffer_size=2), DataLoader(data, batch_size=4, drop_last=True))


@pytest.mark.parametrize(
    "arguments",
    [
        {"persistent_workers": False},
        {"prefetch_factor": 1},
        {"multiprocessing_context": "spawn", "num_workers": 1},
        {"batch_size": None},
        {"batch_size": None, "sampler": [5, 3, 9] * 8},
        {"collate_fn": torch.stack},
    ],
    ids=["workers for an epoch", "prefetch", "spawn", "samples", "sampler", "collate_fn"],
)
def test_arguments_of_torch_s_loader(accessor: Make, arguments: dict[str, Any]) -> None:
    data = Samples(40, loader_data.as_row)
    given = {"batch_size": 4, "num_workers": 2, **arguments}
    loader = DataLoader(data, **given)
    one_by_one = {name: given[name] for name in ("batch_size", "sampler") if name in given}
    check_epochs(accessor(loader), DataLoader(data, **one_by_one))


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("taken", [1, 7])
def test_epochs_that_are_left(accessor: Make, persistent: bool, taken: int) -> None:
    """What workers had begun for them is not given, and slots come back."""
    data = Samples(120, loader_data.as_row)
    loader = DataLoader(data, batch_size=4, num_workers=2, persistent_workers=persistent)
    loaded = accessor(loader, buffer_size=1)
    for _ in range(8):
        items = iter(loaded)
        for index in range(taken):
            assert next(items)[:, 0].tolist() == [4 * index + row for row in range(4)]
    check_epochs(loaded, DataLoader(data, batch_size=4), epochs=1)


@pytest.mark.parametrize("workers", [0, 2])
def test_items_stay_until_the_next_is_asked_for(accessor: Make, workers: int) -> None:
    loader = DataLoader(Samples(160, loader_data.as_row), batch_size=4, num_workers=workers)
    for index, item in enumerate(accessor(loader, buffer_size=1)):
        kept = item.clone()
        item += 0.5
        torch.testing.assert_close(item, kept + 0.5)
        assert kept[:, 0].tolist() == [4 * index + row for row in range(4)]


@pytest.mark.parametrize("sizes", [(13, 3), (60, 5)])
def test_workers_that_end_before_others(accessor: Make, sizes: tuple[int, int]) -> None:
    size, batch_size = sizes
    loader = DataLoader(Stream(size), batch_size, num_workers=2, persistent_workers=True)
    expected = [batch.tolist() for batch in DataLoader(Stream(size), batch_size, num_workers=2)]
    loaded = accessor(loader)
    for _ in range(3):
        assert [batch.tolist() for batch in loaded] == expected


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 4), (8, 4), (12, 4)])
def test_rows_put_together(accessor: Make, workers: int, sizes: tuple[int, int]) -> None:
    """Of items as large as batches, which stay where they are, and of others, which do not."""
    item, batch = sizes
    data = Samples(50, loader_data.many_rows)
    loader = DataLoader(data, batch_size=item, num_workers=workers)
    expected = DataLoader(data, batch_size=batch, drop_last=True)
    check_epochs(accessor(loader, rebatched_size=batch), expected)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        ("outgrowing", r"an item has 65536 bytes, more than the first one's 64"),
        ("failing", r"(?s)An error occurred in the data fetcher.*no such file"),
    ],
)
def test_errors(accessor: Make, workers: int, make: str, message: str) -> None:
    data = Samples(64, getattr(loader_data, make))
    items = iter(accessor(DataLoader(data, batch_size=4, num_workers=workers)))
    for _ in range(8):
        next(items)
    with pytest.raises(Error, match=message):
        next(items)
    assert multiprocessing.active_children() == []


def test_a_worker_that_is_killed(accessor: Make) -> None:
    data = Samples(80, loader_data.as_row, last=50)
    items = iter(accessor(DataLoader(data, batch_size=4, num_workers=2)))
    # Torch finds it missing or gets its signal, whichever comes first.
    ends = "exited unexpectedly|is killed by signal"
    with pytest.raises(Error, match=rf"(?s)data fetcher.*worker .* ({ends})"):
        list(items)
    assert multiprocessing.active_children() == []


def test_samples_of_other_types_than_the_first(accessor: Make) -> None:
    """Torch promotes them where it loads in one process."""
    loader = DataLoader(Samples(64, loader_data.of_two_dtypes), batch_size=4)
    check_epochs(accessor(loader), loader)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("make", ["with_numbers", "of_two_kinds_of_numbers"])
def test_numbers(accessor: Make, workers: int, make: str) -> None:
    data = Samples(64, getattr(loader_data, make))
    loader = DataLoader(data, batch_size=4, num_workers=workers)
    check_epochs(accessor(loader), DataLoader(data, batch_size=4))


def test_a_number_that_is_too_large(accessor: Make) -> None:
    items = iter(accessor(DataLoader(Samples(80, loader_data.growing_number), batch_size=4)))
    with pytest.raises(Error, match=r"Overflow|overflow"):
        list(items)


def test_samples_of_other_lengths_than_the_first(accessor: Make) -> None:
    """Torch's own error."""
    items = iter(accessor(DataLoader(Samples(80, loader_data.longer_later), batch_size=4)))
    with pytest.raises(Error, match="each element in list of batch should be of equal size"):
        list(items)


def negated(samples: Any, *, collate_fn_map: Any = None) -> torch.Tensor:
    return -torch.stack(list(map(torch.as_tensor, samples)))


@pytest.mark.parametrize("kind", [torch.Tensor, int, tuple])
def test_functions_that_the_program_gave_torch_s_collate(
    accessor: Make, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = negated
    if kind is tuple:

        def function(samples: Any, *, collate_fn_map: Any = None) -> torch.Tensor:
            return negated([number for _, number in samples])

    monkeypatch.setitem(default_collate_fn_map, kind, function)
    loader = DataLoader(Samples(48, loader_data.numbered), batch_size=4)
    expected = list(loader)
    (numbers,) = (batch if kind is tuple else batch[kind is int] for batch in expected[1:2])
    assert (numbers < 0).all(), "the program's function must be the one that is used"
    check_epochs(accessor(loader, sharing_strategy=SharingStrategy.Fork), expected, epochs=1)


def test_samples_with_gradients(accessor: Make) -> None:
    loader = DataLoader(Samples(64, loader_data.with_gradients), batch_size=4)
    for got, expected in zip(accessor(loader), loader, strict=True):
        torch.testing.assert_close(got, expected.detach())


@pytest.fixture
def graph_parser() -> Iterator[None]:
    registerCustomArgParser(loader_data.Graph, loader_data.GraphParser())
    yield
    registerCustomArgParser(loader_data.Graph, None)


@pytest.mark.parametrize(
    ("strategy", "context"),
    [
        (SharingStrategy.ForkServer, None),
        (SharingStrategy.Fork, None),
        (SharingStrategy.ForkServer, "spawn"),
    ],
)
def test_a_collate_fn_of_the_user_s(
    accessor: Make, graph_parser: None, strategy: SharingStrategy, context: str | None
) -> None:
    loader = DataLoader(
        Samples(80, loader_data.as_row),
        batch_size=4,
        num_workers=2,
        collate_fn=loader_data.summed,
        multiprocessing_context=context,
    )
    loaded = accessor(loader, sharing_strategy=strategy)
    for index, got in enumerate(loaded):
        rows = torch.stack([loader_data.as_row(4 * index + row) for row in range(4)])
        assert type(got) is loader_data.Graph
        torch.testing.assert_close([got.nodes, got.edges], [rows, rows.sum(0)])


def test_loaders_that_change_batches(accessor: Make) -> None:
    """What a derived class is given are batches."""
    data = Samples(48, loader_data.as_row)
    loader = loader_data.Doubling(data, batch_size=4, num_workers=1)
    check_epochs(accessor(loader), loader_data.Doubling(data, batch_size=4))
