"""A torch DataLoader whose batches are as large as one call of a model wants."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch.utils.data
from torch.utils.data import IterableDataset

from poptorch._accessor import AsynchronousDataAccessor
from poptorch._batching import BatchSizes
from poptorch._impl import createPoptorchError
from poptorch._logging import logger
from poptorch._samplers import CombinedBatchSampler, PartitionSampler
from poptorch._slot_collate import gives_what_is_collated
from poptorch.enums import DataLoaderMode
from poptorch.options import Options


@dataclasses.dataclass(frozen=True)
class _Request:
    """The arguments of a loader that decide which samples are in a batch."""

    options: Options
    dataset: Any
    batch_size: int | None
    shuffle: bool | None
    num_workers: int
    drop_last: bool
    partitions: bool
    mode: DataLoaderMode
    worker_size: int | None
    batch_sampler: Iterable[list[Any]] | None
    others: Mapping[str, Any]

    @property
    def processes(self) -> int:
        return self.options.Distributed.numProcesses

    @property
    def is_iterable(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    @property
    def extra(self) -> int:
        """How many micro-batches are in a combined batch."""
        return BatchSizes.of(self.options).extra

    @property
    def combined(self) -> int | None:
        """The number of samples of a batch, where it is known."""
        if self.batch_sampler is not None:
            size = getattr(self.batch_sampler, "batch_size", None)
            return size * self.extra if isinstance(size, int) else None
        return None if self.batch_size is None else self.batch_size * self.extra

    @property
    def rebatches(self) -> bool:
        """Whether an accessor puts the rows together to batches."""
        large = self.batch_sampler is None and (self.combined or 0) > 1
        rebatched = self.mode == DataLoaderMode.AsyncRebatched
        return large and (rebatched or (self.mode == DataLoaderMode.Async and not self.drop_last))


@gives_what_is_collated
class DataLoader(torch.utils.data.DataLoader[Any]):
    """Loads combined batches: for every device iteration, group of replicas and accumulation step.

    Each has `batch_size * D * (R // g) * A` samples, with the numbers of `options`: device
    iterations D, replicas R in groups of g with the same data, gradient accumulation A. For
    inference give options with A = 1.

    With several processes (`options.Distributed`) each loads a part of a dataset with indices. With
    `drop_last` every part has `n // (combined * processes)` combined batches; without, all n
    samples are spread evenly. Shuffled, each epoch has a permutation of all samples from the seed
    of `options`, the same in all processes, of which each takes its part.

    Args:
        options: The options of the model; they are frozen.
        dataset: A dataset with indices, or an IterableDataset.
        batch_size: The number of samples of a micro-batch, which the module sees; None: samples
            come as they are, one by one.
        shuffle: Whether every epoch has another order; None: no.
        num_workers: How many processes load samples; 0: the one that iterates.
        drop_last: Whether samples at the end that fill no combined batch are left out. If not, the
            last batch may be smaller, which a compiled model refuses.
        persistent_workers: Whether the processes that load live on between epochs; None: yes, if
            there are any.
        auto_distributed_partitioning: Whether each of several processes loads a part of its own.
        mode: `Sync`; `Async`, which loads ahead in another process; or `AsyncRebatched`, which also
            puts samples together that are left over in each worker.
        async_options: Arguments of `AsynchronousDataAccessor`, for asynchronous modes.
        rebatched_worker_size: For `AsyncRebatched`: how many samples workers put together; None:
            a combined batch.
        batch_sampler: Gives the indices of micro-batches, equally many each, instead of
            `batch_size` and `shuffle`.
        **kwargs: Other arguments of `torch.utils.data.DataLoader`.

    Raises:
        Error: Arguments that exclude each other.
        AssertionError: What several processes need is missing, or `rebatched_worker_size` is too
            large.
    """

    def __init__(
        self,
        options: Options,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: bool | None = None,
        auto_distributed_partitioning: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: Mapping[str, Any] | None = None,
        rebatched_worker_size: int | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(options, Options):
            raise createPoptorchError(
                f"Invalid type: 'options' is of type {type(options)} (Expected poptorch.Options)"
            )
        options._freeze()
        request = _Request(
            options,
            dataset,
            batch_size,
            shuffle,
            num_workers,
            drop_last,
            options.Distributed.numProcesses > 1 and auto_distributed_partitioning,
            DataLoaderMode(mode),
            rebatched_worker_size,
            batch_sampler,
            kwargs,
        )
        _check(request, async_options)
        _warn(request)
        self._accessor: AsynchronousDataAccessor | None = None
        self._options = options
        self._combined_batch_size = request.combined
        self._keeps_last_batch = not drop_last
        self._rebatches = request.rebatches
        self._terminated = False
        if persistent_workers is None:
            persistent_workers = num_workers > 0
        super().__init__(
            dataset,
            num_workers=num_workers,
            persistent_workers=persistent_workers,
            **_torch_arguments(request),
        )
        # What an accessor is made with; None: this loader has none.
        self._accessor_arguments: dict[str, Any] | None = None
        if request.mode != DataLoaderMode.Sync:
            self._accessor_arguments = dict(async_options or {})
            if request.rebatches:
                self._accessor_arguments["rebatched_size"] = request.combined
            self._accessor = self._make_accessor(self._accessor_arguments)

    def _make_accessor(self, arguments: dict[str, Any]) -> AsynchronousDataAccessor:
        """An accessor of a copy of this loader that loads by itself, so that there is no cycle."""
        loads_by_itself = copy.copy(self)
        loads_by_itself._accessor_arguments = None
        return AsynchronousDataAccessor(loads_by_itself, **arguments)

    def __getstate__(self) -> dict[str, Any]:
        """Give what a copy is made of: it starts its own processes when it is iterated over.

        Returns:
            The attributes without what belongs to processes.
        """
        return {**self.__dict__, "_accessor": None, "_iterator": None}

    @property
    def options(self) -> Options:
        """The options of the model, frozen."""
        return self._options

    @property
    def combinedBatchSize(self) -> int | None:
        """The number of samples of a batch; None without `batch_size`."""
        return self._combined_batch_size

    def __len__(self) -> int:
        if not self._rebatches:
            return super().__len__()
        assert self._combined_batch_size is not None
        is_iterable = isinstance(self.dataset, IterableDataset)
        samples: Any = self.dataset if is_iterable else self.sampler
        batches = len(samples) / self._combined_batch_size
        return math.ceil(batches) if self._keeps_last_batch else math.floor(batches)

    def __iter__(self) -> Any:
        self._check_not_terminated()
        if self._accessor_arguments is None:
            return super().__iter__()
        if self._accessor is None:
            self._accessor = self._make_accessor(self._accessor_arguments)
        return iter(self._accessor)

    def _check_not_terminated(self) -> None:
        if self._terminated:
            raise createPoptorchError("The DataLoader was terminated: make a new one")

    def terminate(self) -> None:
        """End the processes that load; nothing can be loaded afterwards."""
        self._terminated = True
        if self._accessor is not None:
            self._accessor.terminate()
        # Torch's processes end when nothing refers to the iterator that has them.
        self._iterator = None


def _check(request: _Request, async_options: Mapping[str, Any] | None) -> None:
    if request.batch_sampler is not None and (request.batch_size != 1 or request.shuffle):
        raise createPoptorchError(
            "DataLoader: batch_sampler excludes batch_size and shuffle: it alone says what is in a "
            f"micro-batch; given batch_size={request.batch_size}, shuffle={request.shuffle}"
        )
    if request.processes > 1:
        _check_several_processes(request)
    if request.mode == DataLoaderMode.Sync:
        if async_options:
            raise createPoptorchError(
                "DataLoader: async_options are for the modes Async and AsyncRebatched; given "
                f"{dict(async_options)} with mode Sync"
            )
    elif async_options and "rebatched_size" in async_options:
        raise createPoptorchError(
            "DataLoader: async_options may not have rebatched_size: it is the combined batch size"
        )
    if request.mode == DataLoaderMode.AsyncRebatched:
        _check_rebatched(request)
    elif request.worker_size is not None:
        raise createPoptorchError(
            "DataLoader: rebatched_worker_size is for mode AsyncRebatched; given "
            f"{request.worker_size} with mode {request.mode.name}"
        )


def _check_several_processes(request: _Request) -> None:
    where = f"DataLoader with {request.processes} processes"
    if request.shuffle and not hasattr(request.options, "random_seed"):
        raise AssertionError(
            f"{where}: shuffle=True needs a seed that all of them share: call options.randomSeed"
        )
    if request.batch_size is None:
        raise AssertionError(
            f"{where}: batch_size=None is not supported, because there are no combined batches to "
            "share among them; give a batch_size"
        )
    if not request.partitions:
        return
    if request.is_iterable:
        raise AssertionError(
            f"{where}: an IterableDataset has no indices by which it can be shared among them; "
            "share it in the dataset and give auto_distributed_partitioning=False"
        )
    given = "batch_sampler" if request.batch_sampler is not None else "sampler"
    if request.batch_sampler is not None or request.others.get("sampler") is not None:
        raise createPoptorchError(
            f"{where}: a {given} decides itself which samples this process loads; give "
            "auto_distributed_partitioning=False"
        )


def _check_rebatched(request: _Request) -> None:
    if request.batch_size is None or request.batch_sampler is not None:
        raise createPoptorchError(
            "DataLoader: mode AsyncRebatched needs a batch_size; given batch_size="
            f"{request.batch_size}"
            f"{' and a batch_sampler' if request.batch_sampler is not None else ''}"
        )
    size, combined = request.worker_size, request.combined
    assert combined is not None
    if size is not None and not 1 <= size <= combined:
        raise AssertionError(
            "DataLoader: wanted a rebatched_worker_size from 1 to the combined batch size "
            f"{combined}; given {size}"
        )


def _number_of_samples(request: _Request) -> int | None:
    sampler = request.others.get("sampler")
    try:
        return len(request.dataset if sampler is None else sampler)
    except TypeError:
        return None  # an iterable without a length


def _warn(request: _Request) -> None:
    if (
        request.is_iterable
        and request.num_workers > 1
        and request.others.get("worker_init_fn") is None
    ):
        logger.warning(
            "DataLoader: an IterableDataset is loaded by %d workers without a worker_init_fn: "
            "unless the dataset asks torch.utils.data.get_worker_info() which part is its own, "
            "each of them gives all samples",
            request.num_workers,
        )
    samples, combined = _number_of_samples(request), request.combined
    if not request.drop_last and combined and samples is not None and samples % combined:
        logger.warning(
            "DataLoader: %d samples are no multiple of the combined batch size %d: with "
            "drop_last=False the last batch is smaller, and a compiled model refuses it",
            samples,
            combined,
        )


def _torch_arguments(request: _Request) -> dict[str, Any]:
    """What torch's loader is given for what decides which samples are in a batch."""
    arguments = dict(request.others)
    if request.batch_sampler is not None:
        batches = CombinedBatchSampler(request.batch_sampler, request.extra, request.drop_last)
        return arguments | {"batch_sampler": batches}
    if request.combined is None:
        return arguments | {"batch_size": None, "shuffle": request.shuffle, "drop_last": False}
    arguments["drop_last"] = request.drop_last and not request.rebatches
    arguments["batch_size"] = request.combined
    if request.rebatches and request.worker_size is not None:
        arguments["batch_size"] = request.worker_size
    if not request.partitions:
        return arguments | {"shuffle": request.shuffle}
    distributed = request.options.Distributed
    seed = request.options.random_seed if request.shuffle else None
    arguments["sampler"] = PartitionSampler(
        len(request.dataset),
        request.combined,
        distributed.processId,
        distributed.numProcesses,
        request.drop_last,
        seed,
    )
    return arguments
