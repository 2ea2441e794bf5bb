"""The data loader against torch's with the combined batch size, and the rules for processes."""

from __future__ import annotations

import gc
import itertools
import logging
import multiprocessing
import pickle
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

import poptorch
from poptorch import DataLoader, DataLoaderMode
from tests.python.poptorch import loader_data
from tests.python.poptorch.loader_data import Numbers, Stream

ASYNCHRONOUS = [DataLoaderMode.Async, DataLoaderMode.AsyncRebatched]
pytestmark = pytest.mark.usefixtures("quick_processes")
Make = Callable[..., DataLoader]


@pytest.fixture
def loader() -> Iterator[Make]:
    """Makes loaders, which end with the test; nothing may be left of them."""
    made = []

    def make(*arguments: Any, **keywords: Any) -> DataLoader:
        made.append(DataLoader(*arguments, **keywords))
        return made[-1]

    yield make
    for one in made:
        one.terminate()
    del made[:]
    gc.collect()
    assert multiprocessing.active_children() == []


@pytest.fixture
def warnings_given(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    logger = logging.getLogger("poptorch::python")
    logger.addHandler(caplog.handler)
    yield lambda: [record.getMessage() for record in caplog.records]
    logger.removeHandler(caplog.handler)


def options(
    iterations: int = 1, replicas: int = 1, accumulation: int = 1, process: int = 0, count: int = 1
) -> poptorch.Options:
    made = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    made.Training.gradientAccumulation(accumulation)
    made.Distributed.configureProcessId(process, count)
    return made


def numbers(loaded: Any) -> list[list[int]]:
    """Which samples each batch has."""
    return [(batch[0] if isinstance(batch, list) else batch).tolist() for batch in loaded]


def runs(size: int, count: int) -> list[list[int]]:
    """The samples below `count` in order, in batches."""
    return [list(range(start, min(start + size, count))) for start in range(0, count, size)]


def test_the_combined_batch(loader: Make) -> None:
    given = options(2, 4, 3)
    given.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    made = loader(given, Numbers(60), batch_size=2)
    assert made.combinedBatchSize == made._combined_batch_size == 2 * 2 * (4 // 2) * 3
    assert made.options is given
    assert made._accessor is None
    assert len(made) == 2
    assert isinstance(made, torch.utils.data.DataLoader)
    for batch, expected in zip(
        made, torch.utils.data.DataLoader(Numbers(48), batch_size=24), strict=True
    ):
        assert type(batch) is list
        torch.testing.assert_close(batch, expected)
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        given.deviceIterations(3)


def test_defaults_and_what_torch_is_given(loader: Make) -> None:
    made = loader(options(), Numbers(4))
    assert (made.drop_last, made.persistent_workers, made.batch_size) == (True, False, 1)
    made = loader(
        options(2),
        Numbers(8),
        num_workers=1,
        prefetch_factor=3,
        timeout=20,
        worker_init_fn=loader_data.worker_parts,
        collate_fn=len,
    )
    assert (made.persistent_workers, made.prefetch_factor, made.timeout) == (True, 3, 20)
    assert made.worker_init_fn is loader_data.worker_parts
    assert list(made) == [2, 2, 2, 2]
    made = loader(options(), Numbers(8), num_workers=1, persistent_workers=False)
    assert not made.persistent_workers
    assert loader(options(), Numbers(4), sampler=[2, 0]).sampler == [2, 0]
    assert loader(options(), Numbers(4), pin_memory=True).pin_memory
    with pytest.raises(TypeError, match="unexpected keyword"):
        DataLoader(options(), Numbers(8), colate_fn=len)
    with pytest.raises(poptorch.Error, match=r"Invalid type: 'options' is of type .*Numbers"):
        DataLoader(Numbers(8), options())


@pytest.mark.parametrize("mode", list(DataLoaderMode))
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("size", [4, 12, 13])
def test_order_and_length(loader: Make, mode: DataLoaderMode, drop_last: bool, size: int) -> None:
    made = loader(options(2), Numbers(size), batch_size=2, drop_last=drop_last, mode=mode)
    expected = runs(4, size)
    if drop_last:
        expected = [batch for batch in expected if len(batch) == 4]
    assert len(made) == len(expected)
    for _ in range(2):
        assert numbers(made) == expected
    assert (made._accessor is None) == (mode == DataLoaderMode.Sync)


def test_what_is_left_over(loader: Make, warnings_given: Callable[[], list[str]]) -> None:
    loader(options(2), Numbers(8), batch_size=2, drop_last=False)
    loader(options(2), Numbers(9), batch_size=2)
    assert not warnings_given()
    loader(options(2), Numbers(9), batch_size=2, drop_last=False)
    (message,) = warnings_given()
    assert "9 samples are no multiple of the combined batch size 4" in message


@pytest.mark.parametrize("mode", list(DataLoaderMode))
def test_shuffled_epochs_differ(loader: Make, mode: DataLoaderMode) -> None:
    torch.manual_seed(5)
    made = loader(options(2), Numbers(64), batch_size=4, shuffle=True, mode=mode)
    first, second = (list(itertools.chain(*numbers(made))) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(64))
    assert first != second
    # The same seed gives the same order again.
    torch.manual_seed(5)
    made = loader(options(2), Numbers(64), batch_size=4, shuffle=True, mode=mode)
    assert list(itertools.chain(*numbers(made))) == first


def test_a_generator_of_the_user_s(loader: Make) -> None:
    orders = []
    for mode in (DataLoaderMode.Sync, DataLoaderMode.Async):
        generator = torch.Generator().manual_seed(9)
        made = loader(options(), Numbers(9), 3, shuffle=True, generator=generator, mode=mode)
        orders.append([numbers(made) for _ in range(2)])
    # Torch's loader draws from the generator once more, for seeds of its workers.
    assert orders[0] == orders[1]


@pytest.mark.parametrize("mode", [DataLoaderMode.Sync, DataLoaderMode.Async])
def test_samples_without_batches(loader: Make, mode: DataLoaderMode) -> None:
    made = loader(options(4), Numbers(3), batch_size=None, mode=mode)
    assert made.combinedBatchSize is None
    assert numbers(made) == [0, 1, 2]


def test_iterable_datasets(loader: Make, warnings_given: Callable[[], list[str]]) -> None:
    for mode in DataLoaderMode:
        made = loader(options(2), Stream(11), batch_size=2, mode=mode)
        assert len(made) == 2
        assert numbers(made) == runs(4, 8)
    assert not warnings_given()
    loader(options(2), Stream(11), num_workers=2, worker_init_fn=loader_data.worker_parts)
    assert not warnings_given()
    loader(options(2), Stream(11), num_workers=2)
    (message,) = warnings_given()
    assert "loaded by 2 workers without a worker_init_fn" in message


@pytest.mark.parametrize(("mode", "batches"), [("Async", 2), ("AsyncRebatched", 3)])
@pytest.mark.parametrize("worker_size", [None, 1, 3])
def test_what_workers_have_left_over(
    loader: Make, mode: str, batches: int, worker_size: int | None
) -> None:
    """Two workers with 6 or 7 samples each, for batches of 4."""
    size = worker_size if mode == "AsyncRebatched" else None
    made = loader(
        options(2),
        Stream(13),
        batch_size=2,
        num_workers=2,
        worker_init_fn=loader_data.worker_parts,
        mode=DataLoaderMode[mode],
        rebatched_worker_size=size,
    )
    loaded = numbers(made)
    assert [len(batch) for batch in loaded] == [4] * batches
    assert len(set(itertools.chain(*loaded))) == 4 * batches
    assert len(made) == 3


def test_batch_samplers(loader: Make) -> None:
    for mode in (DataLoaderMode.Sync, DataLoaderMode.Async):
        sampler = BatchSampler(SequentialSampler(range(14)), 2, drop_last=False)
        made = loader(options(3), Numbers(14), batch_sampler=sampler, mode=mode)
        assert made.combinedBatchSize == 6
        assert len(made) == 2
        assert numbers(made) == runs(6, 12)
        made = loader(options(3), Numbers(14), batch_sampler=sampler, mode=mode, drop_last=False)
        assert len(made) == 3
        assert numbers(made) == runs(6, 14)
    batches = [[0, 1], [2, 3], [4], [5, 6]]
    made = loader(options(2), Numbers(14), batch_sampler=batches)
    assert made.combinedBatchSize is None
    with pytest.raises(poptorch.Error, match=r"equally large, .* given batches of \[1, 2\] sam"):
        numbers(made)


def test_arguments_that_exclude_each_other() -> None:
    sampler = BatchSampler(SequentialSampler(range(4)), 2, drop_last=False)
    rebatched = DataLoaderMode.AsyncRebatched
    for arguments, message in [
        ({"batch_sampler": sampler, "batch_size": 2}, "excludes batch_size and shuffle"),
        ({"batch_sampler": sampler, "shuffle": True}, "excludes batch_size and shuffle"),
        ({"async_options": {"buffer_size": 2}}, "async_options are for the modes Async"),
        (
            {"async_options": {"rebatched_size": 2}, "mode": DataLoaderMode.Async},
            "may not have rebatched_size",
        ),
        ({"rebatched_worker_size": 2}, "rebatched_worker_size is for mode AsyncRebatched"),
        ({"batch_size": None, "mode": rebatched}, "needs a batch_size; given batch_size=None"),
        ({"batch_sampler": sampler, "mode": rebatched}, "needs a batch_size; .* a batch_sampler"),
    ]:
        with pytest.raises(poptorch.Error, match=message):
            DataLoader(options(), Numbers(4), **arguments)
    for size in (0, 5):
        with pytest.raises(
            AssertionError, match=f"from 1 to the combined batch size 4; given {size}"
        ):
            DataLoader(options(2), Numbers(8), 2, mode=rebatched, rebatched_worker_size=size)
    with pytest.raises(ValueError, match="persistent_workers option needs num_workers > 0"):
        DataLoader(options(), Numbers(4), persistent_workers=True)


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize(("size", "count"), [(24, 2), (29, 3), (31, 4)])
def test_each_process_has_a_part(loader: Make, drop_last: bool, size: int, count: int) -> None:
    parts = []
    for process in range(count):
        made = loader(
            options(2, process=process, count=count), Numbers(size), 2, drop_last=drop_last
        )
        part = list(itertools.chain(*numbers(made)))
        assert len(made) == -(-len(part) // 4)
        parts.append(part)
    assert list(itertools.chain(*parts)) == list(range(sum(map(len, parts))))
    if drop_last:
        assert {len(part) for part in parts} == {4 * (size // (4 * count))}
    else:
        each, rest = divmod(size, count)
        assert [len(part) for part in parts] == [each + (i < rest) for i in range(count)]


@pytest.mark.parametrize("mode", [DataLoaderMode.Sync, DataLoaderMode.Async])
def test_processes_share_one_permutation(loader: Make, mode: DataLoaderMode) -> None:
    """Of 27 samples each epoch leaves out 3, others each time."""
    loaders = []
    for process in range(2):
        given = options(2, process=process, count=2).randomSeed(7)
        torch.manual_seed(process)  # what this process draws by itself does not matter
        loaders.append(loader(given, Numbers(27), 3, shuffle=True, mode=mode))
    epochs = []
    for _ in range(4):
        parts = [list(itertools.chain(*numbers(made))) for made in loaders]
        assert [len(part) for part in parts] == [12, 12]
        assert len(set(parts[0]) | set(parts[1])) == 24
        epochs.append(parts[0] + parts[1])
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert len({frozenset(epoch) for epoch in epochs}) > 1


def test_workers_load_the_part_of_their_process(loader: Make) -> None:
    given = options(process=1, count=2).randomSeed(3)
    made = loader(given, Numbers(16), 4, shuffle=True, num_workers=2)
    epochs = [list(itertools.chain(*numbers(made))) for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert {len(set(epoch)) for epoch in epochs} == {8}


def test_what_several_processes_need() -> None:
    given = options(count=2)
    sampler = BatchSampler(SequentialSampler(range(4)), 2, drop_last=False)
    for arguments, message in [
        ({"shuffle": True}, "call options.randomSeed"),
        ({"batch_size": None}, "batch_size=None is not supported"),
    ]:
        with pytest.raises(AssertionError, match=message):
            DataLoader(given, Numbers(8), **arguments)
    with pytest.raises(AssertionError, match="auto_distributed_partitioning=False"):
        DataLoader(given, Stream(8))
    with pytest.raises(poptorch.Error, match=r"a batch_sampler decides .*_partitioning=False"):
        DataLoader(given, Numbers(8), batch_sampler=sampler)
    with pytest.raises(poptorch.Error, match=r"a sampler decides .*_partitioning=False"):
        DataLoader(given, Numbers(8), sampler=RandomSampler(range(8)))
    for arguments in [{"batch_sampler": sampler}, {"sampler": range(4)}, {}]:
        made = DataLoader(
            options(count=2), Numbers(4), auto_distributed_partitioning=False, **arguments
        )
        assert list(itertools.chain(*numbers(made))) == [0, 1, 2, 3]


def test_termination(loader: Make) -> None:
    for arguments in [{"mode": DataLoaderMode.Async}, {"num_workers": 1}]:
        made = loader(options(), Numbers(8), **arguments)
        next(iter(made))
        assert len(multiprocessing.active_children()) == 1
        made.terminate()
        assert multiprocessing.active_children() == []
        with pytest.raises(poptorch.Error, match="was terminated"):
            iter(made)


def test_a_loader_that_nothing_refers_to() -> None:
    made = DataLoader(options(), Numbers(8), mode=DataLoaderMode.Async)
    items = iter(made)
    next(items)
    del made
    assert next(items)[0].tolist() == [1]
    del items
    assert multiprocessing.active_children() == []


def test_accessor_and_loader(loader: Make) -> None:
    made = loader(
        options(2), Numbers(8), mode=DataLoaderMode.Async, async_options={"buffer_size": 2}
    )
    assert isinstance(made._accessor, poptorch.AsynchronousDataAccessor)
    assert len(made._accessor) == len(made) == 4
    with pytest.raises(poptorch.Error, match="already has an accessor of its own"):
        poptorch.AsynchronousDataAccessor(made)
    plain = loader(options(2), Numbers(8))
    wrapped = poptorch.AsynchronousDataAccessor(plain)
    assert len(wrapped) == 4
    assert numbers(wrapped) == numbers(plain)
    wrapped.terminate()
    # An accessor that puts rows together keeps those at the end if the loader does.
    for drop_last, batches in [(True, runs(3, 6)), (False, runs(3, 8))]:
        plain = loader(options(2), Numbers(8), drop_last=drop_last)
        wrapped = poptorch.AsynchronousDataAccessor(plain, rebatched_size=3)
        assert len(wrapped) == len(batches)
        assert numbers(wrapped) == batches
        wrapped.terminate()


@pytest.mark.parametrize("mode", list(DataLoaderMode))
def test_pickling(loader: Make, mode: DataLoaderMode) -> None:
    original = loader(options(3), Numbers(7), mode=mode)
    assert numbers(original) == runs(3, 6)
    made = pickle.loads(pickle.dumps(original))
    assert made.combinedBatchSize == 3
    assert numbers(made) == runs(3, 6)
    assert (made._accessor is None) == (mode == DataLoaderMode.Sync)
    made.terminate()


def test_combined_batches_of_one_sample(loader: Make) -> None:
    made = loader(options(), Numbers(3), mode=DataLoaderMode.AsyncRebatched)
    assert len(made) == 3
    assert numbers(made) == [[0], [1], [2]]


@pytest.mark.parametrize(
    "strategy", [poptorch.SharingStrategy.ForkServer, poptorch.SharingStrategy.Fork]
)
@pytest.mark.parametrize("mode", ASYNCHRONOUS)
def test_another_loop_after_an_error_is_another_try(
    loader: Make, tmp_path: Path, mode: DataLoaderMode, strategy: poptorch.SharingStrategy
) -> None:
    """The data set fails twice: once with an exception, once by the end of its process."""
    made = loader(
        options(2),
        loader_data.FailingAtFirst(4, tmp_path / "failed"),
        mode=mode,
        async_options={"sharing_strategy": strategy},
    )
    with pytest.raises(poptorch.Error, match="LookupError"):
        numbers(made)
    with pytest.raises(poptorch.Error, match="ended unexpectedly"):
        numbers(made)
    assert numbers(made) == runs(2, 4)


def test_another_loop_after_ctrl_c(loader: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loader(options(2), Numbers(4), mode=DataLoaderMode.Async)
    items = iter(made)
    with monkeypatch.context() as patches:
        patches.setattr(made._accessor, "_receive", lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            next(items)
    assert numbers(made) == runs(2, 4)
