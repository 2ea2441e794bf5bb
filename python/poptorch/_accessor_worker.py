"""The process that loads items ahead for an asynchronous data accessor."""

from __future__ import annotations

import os
import pickle
import random
import select
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from poptorch._accessor_messages import (
    GRACE,
    GRACE_AFTER_SIGNAL,
    Begin,
    Described,
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
)
from poptorch._ring import Layout, Ring
from poptorch._structures import (
    Mismatch,
    Node,
    describe,
    registerCustomArgParser,
)


class _Outdated(Exception):
    """A later epoch than the one that is being loaded is wanted."""


class _Worker:
    def __init__(self, connection: Connection, source: Any, settings: WorkerSettings) -> None:
        self._connection = connection
        self._messages = select.poll()
        self._messages.register(connection, select.POLLIN)
        self._source = source
        self._settings = settings
        self._wanted = -1
        self._epoch = 0
        self._free: deque[int] = deque()
        self._ring: Ring | None = None
        self._slot_size = 0
        self._node: Node | None = None
        self._layout: Layout | None = None
        self._views: dict[int, list[torch.Tensor]] = {}
        self._rows_node: Node | None = None

    def run(self) -> None:
        """Loads epochs until the other process closes the connection."""
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
            return
        assert isinstance(message, Begin)
        if self._wanted < 0:
            _seed_generators(message.seed)
        self._wanted = message.epoch

    def _load_epoch(self) -> int:
        """How many items it had."""
        count = 0
        items = self._rebatched() if self._settings.rebatched_size else self._unchanged()
        for slot in items:
            send(self._connection, Item(self._epoch, slot))
            count += 1
        return count

    def _free_slot(self) -> int:
        while not self._free or self._messages.poll(0):
            self._receive()
            if self._wanted > self._epoch:
                raise _Outdated
        return self._free.popleft()

    def _unchanged(self) -> Iterator[int]:
        """The slots of items as they were loaded."""
        for loaded in self._source:
            item = list(loaded) if type(loaded) is tuple else loaded
            tensors = self._tensors_of(item)
            slot = self._free_slot()
            for target, tensor in zip(self._targets(slot), tensors, strict=True):
                target.copy_(tensor)
            yield slot

    def _tensors_of(self, item: Any) -> list[torch.Tensor]:
        """The tensors; what is new about them the other process is told."""
        tensors: list[torch.Tensor] = []
        if self._node is not None:
            try:
                self._node.collect(item, tensors)
            except Mismatch:
                tensors.clear()
            else:
                return tensors
        node = describe("item", item)
        node.collect(item, tensors)
        for tensor in tensors:
            _check_tensor(tensor)
        self._describe(node, Layout.of(tensors))
        return tensors

    def _describe(self, node: Node, layout: Layout) -> None:
        if self._ring is None:
            self._make_ring(layout.size)
        elif layout.size > self._slot_size:
            raise ValueError(
                f"an item has {layout.size} bytes, more than the first one's {self._slot_size}: "
                f"shapes {[list(shape) for shape in layout.shapes]}. Items may be smaller than the "
                "first one, not larger"
            )
        self._node, self._layout = node, layout
        self._views.clear()
        send(self._connection, Described(_skeleton(node, layout), layout))

    def _make_ring(self, slot_size: int) -> None:
        slots = self._settings.slots
        descriptor = Ring.allocate(slots, slot_size)
        send(self._connection, RingMade(slot_size))
        with socket.socket(fileno=os.dup(self._connection.fileno())) as channel:
            socket.send_fds(channel, [b"\0"], [descriptor])
        self._ring = Ring(descriptor, slots, slot_size)
        self._slot_size = slot_size
        self._free.extend(range(slots))

    def _targets(self, slot: int) -> list[torch.Tensor]:
        assert self._ring is not None
        assert self._layout is not None
        if slot not in self._views:
            self._views[slot] = self._ring.tensors(slot, self._layout)
        return self._views[slot]

    def _rebatched(self) -> Iterator[int]:
        """The slots of batches of the size that is wanted, made of the rows of all items."""
        size = self._settings.rebatched_size
        slot, filled = -1, 0
        for loaded in self._source:
            tensors = self._rows_of(list(loaded) if type(loaded) is tuple else loaded)
            rows, taken = len(tensors[0]), 0
            while taken < rows:
                slot = self._free_slot() if slot < 0 else slot
                count = min(rows - taken, size - filled)
                for target, tensor in zip(self._targets(slot), tensors, strict=True):
                    target[filled : filled + count].copy_(tensor[taken : taken + count])
                filled, taken = filled + count, taken + count
                if filled == size:
                    yield slot
                    slot, filled = -1, 0
        if slot < 0:
            return
        if self._settings.keeps_last:
            yield from self._last_rows(slot, filled)
        else:
            self._free.append(slot)

    def _rows_of(self, item: Any) -> list[torch.Tensor]:
        """The tensors of an item that goes into batches with others."""
        tensors: list[torch.Tensor] = []
        if self._rows_node is not None:
            try:
                self._rows_node.collect(item, tensors)
            except Mismatch:
                tensors.clear()
            else:
                return tensors
        node = describe("item", item)
        node.collect(item, tensors)
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
        if self._node is None:
            for tensor in tensors:
                _check_tensor(tensor)
            self._describe(describe("item", batch), Layout.of(full))
        assert self._node is not None
        self._node.collect(batch, [])

    def _last_rows(self, slot: int, rows: int) -> Iterator[int]:
        """The batch at the end of an epoch that is not full."""
        assert self._node is not None
        assert self._layout is not None
        full = self._node, self._layout
        part = self._layout.with_rows(rows)
        self._describe(describe("item", _filled(self._node, part)), part)
        yield slot
        self._describe(*full)


def _check_tensor(tensor: torch.Tensor) -> None:
    if not tensor.is_cpu or tensor.layout is not torch.strided or tensor.is_quantized:
        raise TypeError(
            "an asynchronous data accessor wants dense tensors on the CPU; given one of "
            f"{tensor.dtype} with layout {tensor.layout} on {tensor.device}"
        )


def _filled(node: Node, layout: Layout) -> Any:
    """An item of that structure whose tensors have one element in memory."""
    leaves = [
        torch.zeros((), dtype=dtype).expand(shape)
        for dtype, shape in zip(layout.dtypes, layout.shapes, strict=True)
    ]
    return node.build(iter(leaves))


def _skeleton(node: Node, layout: Layout) -> bytes:
    return pickle.dumps(_filled(node, layout))


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
