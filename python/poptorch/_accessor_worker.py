"""The process that loads items ahead for an asynchronous data accessor."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import random
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from poptorch._accessor_messages import (
    GRACE,
    GRACE_AFTER_SIGNAL,
    Begin,
    Empty,
    EpochEnd,
    Failed,
    Free,
    Item,
    RingMade,
    Started,
    WorkerSettings,
    receive,
    send,
    send_pickled,
)
from poptorch._item_writer import (
    ItemWriter,
    check_tensor,
    described,
    description_of,
    item_of,
    node_of,
    tensors_if_like,
)
from poptorch._private_torch import end_persistent_workers
from poptorch._ring import Layout, Ring, RingMemory
from poptorch._slot_collate import (
    NO_SLOT,
    Slot,
    WrittenBatch,
    is_plain,
    most_slots_of_tasks,
    with_slots,
)
from poptorch._structures import Node, describe, registerCustomArgParser


class _Outdated(Exception):
    """A later epoch than the one that is being loaded is wanted."""


class _Worker:
    def __init__(self, connection: Connection, source: Any, settings: WorkerSettings) -> None:
        self._connection = connection
        self._messages = select.poll()
        self._messages.register(connection, select.POLLIN)
        self._settings = settings
        self._wanted = -1
        self._epoch = 0
        self._slots = settings.buffer_size
        self._free: list[int] = []
        self._taken: set[int] = set()  # by tasks and by what is not given yet
        self._given = 0  # to the other process
        self._memory = RingMemory()
        self._ring: Ring | None = None
        self._writer = ItemWriter()
        self._told = b""
        self._rows_node: Node | None = None
        self._written: dict[bytes, tuple[Node, Layout]] = {}
        self._source = source
        self._source_begins_epochs = is_plain(source)
        if self._source_begins_epochs:
            self._source = with_slots(source, self, self._memory)
            self._slots += most_slots_of_tasks(source) + (settings.rebatched_size > 0)

    def run(self) -> None:
        """Loads epochs until the other process closes the connection."""
        try:
            self._load_epochs()
        finally:
            if isinstance(self._source, DataLoader):
                end_persistent_workers(self._source)

    def _load_epochs(self) -> None:
        while True:
            while self._epoch > self._wanted and (
                self._wanted < 0 or not self._settings.load_indefinitely
            ):
                self._receive()
            self._epoch = max(self._epoch, self._wanted)
            try:
                if not self._load_epoch():
                    send(self._connection, Empty())
                    return
                send(self._connection, EpochEnd(self._epoch))
            except _Outdated:
                continue
            self._epoch += 1

    def _receive(self) -> None:
        message = receive(self._connection)
        if isinstance(message, Free):
            self._free.append(message.slot)
            self._given -= 1
            return
        assert isinstance(message, Begin)
        if self._wanted < 0:
            _seed_generators(message.seed)
        self._wanted = message.epoch

    def _wait(self, ready: Callable[[], bool]) -> None:
        while not ready() or self._messages.poll(0):
            self._receive()
            if self._wanted > self._epoch:
                raise _Outdated

    def _load_epoch(self) -> int:
        """How many items it had."""
        count = 0
        if not self._source_begins_epochs:
            self.begin_epoch()
        items = self._rebatched() if self._settings.rebatched_size else self._unchanged()
        # Closing the generator ends the workers of a torch loader that has them for one epoch.
        with contextlib.closing(items):
            for slot, description in items:
                self._wait(lambda: self._given < self._settings.buffer_size)
                if description != self._told:
                    send_pickled(self._connection, description)
                    self._told = description
                self._taken.discard(slot)
                self._given += 1
                send(self._connection, Item(self._epoch, slot))
                count += 1
        return count

    def begin_epoch(self) -> None:
        """Takes slots back in which nobody writes any more, after an epoch that was left."""
        self._free.extend(self._taken)
        self._taken.clear()

    def slot_of_task(self) -> Slot:
        """Take a slot for a batch that is going to be loaded.

        Returns:
            The slot; `NO_SLOT` if none is free, or before the first item said how large they are.
        """
        if self._ring is None or not self._free:
            return NO_SLOT
        return Slot(self._take(), self._slots, self._ring.slot_size)

    def _take(self) -> int:
        # The one that was used last is most likely in a cache.
        slot = self._free.pop()
        self._taken.add(slot)
        return slot

    def _free_slot(self) -> int:
        self._wait(lambda: bool(self._free))
        return self._take()

    def _give_back(self, slot: int) -> None:
        self._taken.remove(slot)
        self._free.append(slot)

    def _unchanged(self) -> Generator[tuple[int, bytes], None, None]:
        """The slots of items as they were loaded, with their descriptions."""
        for loaded in self._source:
            if type(loaded) is WrittenBatch:
                yield loaded
                continue
            tensors = self._writer.tensors_of(item_of(loaded))
            assert self._writer.layout is not None
            ring = self._ring_for(self._writer.layout)
            slot = self._free_slot()
            self._writer.write(ring, slot, tensors)
            yield slot, self._writer.description

    def _ring_for(self, layout: Layout) -> Ring:
        """The ring, whose slots are made for the first item."""
        if self._ring is None:
            self._make_ring(layout.size)
        assert self._ring is not None
        if layout.size > self._ring.slot_size:
            raise ValueError(
                f"an item has {layout.size} bytes, more than the first one's "
                f"{self._ring.slot_size}: shapes {[list(shape) for shape in layout.shapes]}. "
                "Items may be smaller than the first one, not larger"
            )
        return self._ring

    def _make_ring(self, slot_size: int) -> None:
        self._memory.reserve(self._slots, slot_size)
        send(self._connection, RingMade(self._slots, slot_size))
        with socket.socket(fileno=os.dup(self._connection.fileno())) as channel:
            socket.send_fds(channel, [b"\0"], [self._memory.descriptor])
        self._ring = Ring(self._memory, self._slots, slot_size)
        self._free.extend(range(self._slots))

    def _rebatched(self) -> Generator[tuple[int, bytes], None, None]:
        """The slots of batches of the size that is wanted, made of the rows of all items."""
        size = self._settings.rebatched_size
        slot, filled = -1, 0
        for loaded in self._source:
            tensors = self._rows_of(self._item_in_slot(loaded))
            rows, taken = len(tensors[0]), 0
            if type(loaded) is WrittenBatch and rows == size and not filled:
                yield loaded
                continue
            assert self._ring is not None
            while taken < rows:
                slot = self._free_slot() if slot < 0 else slot
                count = min(rows - taken, size - filled)
                targets = self._writer.targets(self._ring, slot)
                for target, tensor in zip(targets, tensors, strict=True):
                    target[filled : filled + count].copy_(tensor[taken : taken + count])
                filled, taken = filled + count, taken + count
                if filled == size:
                    yield slot, self._writer.description
                    slot, filled = -1, 0
            if type(loaded) is WrittenBatch:
                self._give_back(loaded.slot)
        if slot < 0:
            return
        if self._settings.keeps_last:
            yield slot, self._description_of_rows(filled)
        else:
            self._give_back(slot)

    def _item_in_slot(self, loaded: Any) -> Any:
        """An item that was loaded, on the memory of its slot if it has one."""
        if type(loaded) is not WrittenBatch:
            return item_of(loaded)
        if loaded.description not in self._written:
            message = pickle.loads(loaded.description)
            self._written[loaded.description] = node_of(message), message.layout
        node, layout = self._written[loaded.description]
        assert self._ring is not None
        return node.build(iter(self._ring.tensors(loaded.slot, layout)))

    def _rows_of(self, item: Any) -> list[torch.Tensor]:
        """The tensors of an item that goes into batches with others."""
        tensors = tensors_if_like(self._rows_node, item)
        if tensors is not None:
            return tensors
        node, tensors = described(item)
        sizes = {tensor.shape[0] if tensor.ndim else None for tensor in tensors}
        if len(sizes) != 1 or None in sizes:
            raise ValueError(
                "rebatching wants items of tensors with equally many rows; given shapes "
                f"{[list(tensor.shape) for tensor in tensors]}"
            )
        self._check_batch(node, tensors)
        self._rows_node = node
        return tensors

    def _check_batch(self, node: Node, tensors: list[torch.Tensor]) -> None:
        """Refuses items that differ from the first one in more than the number of rows."""
        size = self._settings.rebatched_size
        full = [torch.zeros((), dtype=t.dtype).expand(size, *t.shape[1:]) for t in tensors]
        batch = node.build(iter(full))
        if self._writer.node is None:
            for tensor in tensors:
                check_tensor(tensor)
            layout = Layout.of(full)
            self._ring_for(layout)
            self._writer.describe(describe("item", batch), layout)
        assert self._writer.node is not None
        self._writer.node.collect(batch, [])

    def _description_of_rows(self, rows: int) -> bytes:
        """The description of the batch at the end of an epoch that is not full."""
        assert self._writer.node is not None
        assert self._writer.layout is not None
        return description_of(self._writer.node, self._writer.layout.with_rows(rows))


def _seed_generators(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _exit_on_signal(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _end_with(connection: Connection) -> None:
    """Ends this process and its children once the other one is gone, whatever is being loaded."""
    other_end = select.poll()
    other_end.register(connection, 0)  # only hang-ups
    other_end.poll()
    main = threading.main_thread()
    main.join(GRACE)
    if main.is_alive():
        os.kill(os.getpid(), signal.SIGTERM)
        main.join(GRACE_AFTER_SIGNAL)
    if main.is_alive():
        os.killpg(os.getpid(), signal.SIGKILL)


def serve(connection: Connection, source: Iterable[Any], settings: WorkerSettings) -> None:
    """Load from a source until the other process closes the connection.

    Args:
        connection: To the other process.
        source: What is iterated over, once an epoch.
        settings: How.
    """
    # Ctrl-C is for the other process, which then ends this one and its children.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    # What is loaded by children of this process must not keep the connection open after its end.
    os.register_at_fork(after_in_child=connection.close)
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    torch.set_num_threads(1)
    # Workers of a loader start as they would in the other process, not as this one did.
    multiprocessing.set_start_method(settings.start_method, force=True)
    for data_type, parser in settings.parsers.items():
        registerCustomArgParser(data_type, parser)
    told_to_end = False
    try:
        send(connection, Started())
        _Worker(connection, source, settings).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except SystemExit:
        told_to_end = True
    except Exception:
        try:
            send(connection, Failed(traceback.format_exc()))
        except OSError:
            return
    if told_to_end:
        # What was being loaded is closed by now; processes that it started may not know.
        os.killpg(os.getpid(), signal.SIGKILL)
