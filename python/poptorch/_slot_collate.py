"""Lets torch's data loaders collate batches in slots of a ring, also those with workers.

What travels with a task to a worker is the number of a slot, and back only what lies there. Torch
itself makes a file for each tensor and sends its descriptor over a connection of its own.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch.utils.data import DataLoader, default_collate

from poptorch._item_writer import ItemWriter, item_of
from poptorch._private_torch import (
    collate,
    collate_int_fn,
    collate_tensor_fn,
    default_collate_fn_map,
)
from poptorch._ring import Ring, RingMemory
from poptorch._structures import registerCustomArgParser, registered_parsers

# Those that give what their collate_fn makes as it is. What classes derived from them do with it
# nobody knows.
_plain_loaders: set[type] = {DataLoader}


def gives_what_is_collated(loader_class: type) -> type:
    """Decorate a class of loaders whose iterators give what torch's loader gives.

    Args:
        loader_class: A class derived from torch's loader.

    Returns:
        The same class.
    """
    _plain_loaders.add(loader_class)
    return loader_class


class SlotSource(Protocol):
    """Has the slots."""

    def begin_epoch(self) -> None:
        """Hear that all earlier tasks are done."""

    def slot_of_task(self) -> Slot:
        """Give a task a slot.

        Returns:
            The slot, which nobody else has until the batch in it is used, or an epoch begins.
        """


class Slot(NamedTuple):
    """Where a task may write its batch; `number` is -1 where there is none for it."""

    number: int
    slots: int
    size: int


class WrittenBatch(NamedTuple):
    """A batch that lies in slot `slot`; `description` is a pickled `Described`."""

    slot: int
    description: bytes


NO_SLOT = Slot(-1, 0, 0)

# The slot of the task that this process works at.
_slot = NO_SLOT


def _begin(slot: Slot, indices: Any) -> Any:
    global _slot
    _slot = slot
    return indices


# The indices of a batch on their way to a worker, where unpickling them begins the task.
class _Task:
    def __init__(self, slot: Slot, indices: Any) -> None:
        self._slot, self._indices = slot, indices

    def __reduce__(self) -> tuple[Any, ...]:
        return _begin, (self._slot, self._indices)


# In place of a sampler: gives the same, with a slot for each.
class _Tasks:
    def __init__(self, sampler: Iterable[Any], slots: SlotSource, in_workers: bool) -> None:
        self._sampler, self._slots = sampler, slots
        self._make = _Task if in_workers else _begin

    def __iter__(self) -> Iterator[Any]:
        return self._tasks(iter(self._sampler))

    def _tasks(self, sampled: Iterator[Any]) -> Iterator[Any]:
        # Workers have done the last epoch's tasks when the first one of this is asked for.
        self._slots.begin_epoch()
        for indices in sampled:
            yield self._make(self._slots.slot_of_task(), indices)


_dtype_of = operator.attrgetter("dtype")


class SlotCollate:
    """A collate_fn that lets another one's batches lie in slots.

    Tensors that torch's own function makes are made in the slot, what another function gives is
    copied there. A batch is given as it is if its task has no slot or it is too large for one.

    Args:
        collate_fn: The other one.
        memory: The memory of the ring, whose size tasks tell.
    """

    def __init__(self, collate_fn: Callable[[Any], Any], memory: RingMemory) -> None:
        self._collate_fn, self._memory = collate_fn, memory
        self._parsers = registered_parsers()
        self._ring: Ring | None = None
        self._writer = ItemWriter()
        # Where in the layout the tensors are that torch's function makes, in its order.
        self._places: list[int] = []
        self._targets: list[torch.Tensor] = []
        self._made: list[torch.Tensor] = []
        self._made_in_slot = 0

    def __call__(self, samples: Any) -> Any:
        slot = _slot
        if slot.number < 0:
            return self._collate_fn(samples)
        if self._ring is None:
            self._ring = Ring(self._memory, slot.slots, slot.size)
            # This may be a new process that knows none.
            for data_type, parser in self._parsers.items():
                registerCustomArgParser(data_type, parser)
        self._made, self._made_in_slot = [], 0
        if self._collate_fn is not default_collate:
            return self._write(self._ring, slot.number, self._collate_fn(samples))
        if self._places:
            self._targets = self._writer.targets(self._ring, slot.number)
        return self._write(self._ring, slot.number, self._collate(samples))

    def _collate(self, samples: Any) -> Any:
        functions = dict(default_collate_fn_map)
        # A program may have functions of its own there.
        if functions.get(torch.Tensor) is collate_tensor_fn:
            functions[torch.Tensor] = self._stack
        if functions.get(int) is collate_int_fn:
            functions[int] = self._integers
        if (
            type(samples[0]) is tuple
            and len(set(map(len, samples))) == 1
            and not any(isinstance(samples[0], kind) for kind in functions)
        ):
            # As torch does, which takes as long for its checks as for a small batch.
            fields = zip(*samples, strict=True)
            return [collate(field, collate_fn_map=functions) for field in fields]
        return collate(samples, collate_fn_map=functions)

    def _next_target(self) -> torch.Tensor | None:
        """Where the next tensor that is made is expected to lie."""
        count = len(self._made)
        place = self._places[count] if count < len(self._places) else -1
        return self._targets[place] if place >= 0 else None

    def _stack(self, samples: Any, *, collate_fn_map: Any = None) -> Any:
        first, target = samples[0], self._next_target()
        if (
            target is not None
            and type(first) is torch.Tensor
            and first.layout is torch.strided
            and target.shape == (len(samples), *first.shape)
            and set(map(_dtype_of, samples)) == {target.dtype}
        ):
            try:
                torch.stack(samples, out=target)
            except RuntimeError:  # other shapes, which torch's function tells; or gradients
                target = None
        else:
            target = None
        if target is None:
            return self._keep(collate_tensor_fn(samples, collate_fn_map=collate_fn_map))
        return self._keep_in_slot(target)

    def _integers(self, samples: Any, *, collate_fn_map: Any = None) -> Any:
        target = self._next_target()
        if (
            target is None
            or target.dtype is not torch.int64
            or target.shape != (len(samples),)
            or set(map(type, samples)) != {int}
        ):
            return self._keep(collate_int_fn(samples, collate_fn_map=collate_fn_map))
        try:
            target.numpy()[:] = samples
        except OverflowError:  # torch's function tells it
            return self._keep(collate_int_fn(samples, collate_fn_map=collate_fn_map))
        return self._keep_in_slot(target)

    def _keep(self, made: torch.Tensor) -> torch.Tensor:
        self._made.append(made)
        return made

    def _keep_in_slot(self, made: torch.Tensor) -> torch.Tensor:
        self._made_in_slot += 1
        return self._keep(made)

    def _write(self, ring: Ring, slot: int, batch: Any) -> Any:
        writer = self._writer
        tensors = writer.tensors_of(item_of(batch))
        assert writer.layout is not None
        assert writer.node is not None
        if writer.layout.size > ring.slot_size:
            self._places = []
            return writer.node.build(tensor.clone() for tensor in tensors)
        targets = writer.targets(ring, slot)
        in_place = sum(map(operator.is_, tensors, targets))
        if in_place != len(self._made):
            indices = {id(tensor): index for index, tensor in enumerate(tensors)}
            self._places = [indices.get(id(made), -1) for made in self._made]
        if in_place != self._made_in_slot:
            # Some were made where others have to be now.
            tensors = [tensor.clone() for tensor in tensors]
        writer.write(ring, slot, tensors)
        return WrittenBatch(slot, writer.description)


def most_slots_of_tasks(loader: DataLoader[Any]) -> int:
    """Say how many slots the tasks of a loader may have at a time.

    Args:
        loader: The loader.

    Returns:
        One for the batch that it gives; with workers one more for each that they load ahead, and
        for the last task of each, which may find no data.
    """
    return 1 + loader.num_workers * ((loader.prefetch_factor or 0) + 1)


def is_plain(source: Any) -> bool:
    """Find out whether a source is a loader whose batches can be collated in slots.

    Args:
        source: Any iterable.

    Returns:
        Whether it is.
    """
    return type(source) in _plain_loaders


def with_slots(loader: DataLoader[Any], slots: SlotSource, memory: RingMemory) -> DataLoader[Any]:
    """Make a loader that loads the same, to slots.

    Args:
        loader: A loader that `is_plain` approves, not iterated over yet.
        slots: What its tasks ask for a slot.
        memory: The memory of the ring that has the slots.

    Returns:
        A loader that gives a `WrittenBatch` in place of a batch that lies in a slot.
    """
    made = copy.copy(loader)
    batched = loader.batch_sampler is not None
    sampler: Any = loader.batch_sampler if batched else loader.sampler
    # Torch's loader refuses that its parts are set, because some are checked only once.
    vars(made)["batch_sampler" if batched else "sampler"] = _Tasks(
        sampler, slots, loader.num_workers > 0
    )
    vars(made)["collate_fn"] = SlotCollate(loader.collate_fn, memory)
    return made
