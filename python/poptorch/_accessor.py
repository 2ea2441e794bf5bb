"""A data accessor that loads items in another process, ahead of their use."""

from __future__ import annotations

import atexit
import io
import multiprocessing
import os
import pickle
import signal
import socket
import weakref
from collections.abc import Iterable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing

from pando.interrupts import HeldInterrupts
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
from poptorch._accessor_worker import serve
from poptorch._errors import Error
from poptorch._impl import createPoptorchError
from poptorch._item_writer import node_of
from poptorch._ring import Layout, Ring, RingMemory
from poptorch._structures import Node, registered_parsers
from poptorch.enums import SharingStrategy

_NOT_STARTED = "AsynchronousDataAccessor worker thread failed to start (Check above for details)"
_FAILED = "An error occurred in the data fetcher"

# How each strategy starts a process, and how torch then hands tensors of the data to it.
_STRATEGIES = {
    SharingStrategy.SharedMemory: ("spawn", "file_descriptor"),
    SharingStrategy.FileSystem: ("spawn", "file_system"),
    SharingStrategy.Fork: ("fork", None),
    SharingStrategy.ForkServer: ("forkserver", "file_descriptor"),
}

_open_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def _close_connections() -> None:
    """A forked process would keep them open after the end of this one."""
    for connection in list(_open_connections):
        connection.close()


os.register_at_fork(after_in_child=_close_connections)


# What is loaded, on its way to a new process. Tensors that exist only while it is pickled live as
# long as this.
class _Source:
    def __init__(self, source: Iterable[Any]) -> None:
        self._source = source
        self._pickler: ForkingPickler | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        pickled = io.BytesIO()
        self._pickler = ForkingPickler(pickled, pickle.HIGHEST_PROTOCOL)
        self._pickler.dump(self._source)
        return pickle.loads, (pickled.getvalue(),)


# The other process and the connection to it, both gone after `stop`, at exit at the latest.
class _WorkerProcess:
    def __init__(
        self, source: Iterable[Any], settings: WorkerSettings, strategy: SharingStrategy
    ) -> None:
        method, sharing = _STRATEGIES[strategy]
        context: Any = multiprocessing.get_context(method)
        self._owner = os.getpid()
        self.connection, others = context.Pipe()
        given = source if method == "fork" else _Source(source)
        # Files of shared memory go with the last tensor that has them, descriptors do not.
        self._kept = given if sharing == "file_system" else None
        self._process: BaseProcess | None = context.Process(
            target=serve, args=(others, given, settings), name="poptorch-data-accessor"
        )
        torch_sharing: Any = torch.multiprocessing
        former = torch_sharing.get_sharing_strategy()
        try:
            if sharing is not None:
                torch_sharing.set_sharing_strategy(sharing)
            _open_connections.add(self.connection)
            self._process.start()
        except BaseException:
            self._process = None
            self.connection.close()
            raise
        finally:
            others.close()
            torch_sharing.set_sharing_strategy(former)
        atexit.register(self.stop)

    def has_started(self) -> None:
        """Notes that the process has what it loads."""
        self._kept = None

    def stop(self) -> None:
        """Ends the process and all that it started."""
        process = self._process
        if process is None or self._owner != os.getpid():
            return
        self.connection.close()
        pid = process.pid
        assert pid is not None
        process.join(GRACE)
        if process.exitcode is None:
            process.terminate()
            process.join(GRACE_AFTER_SIGNAL)
        if process.exitcode != 0:
            _kill_group(pid)
        if process.exitcode is None:
            process.kill()
            process.join()
        process.close()
        self._process = None
        atexit.unregister(self.stop)

    def wait_for_code(self) -> int | None:
        # It closed its connection, so it ends.
        if self._process is None:
            return None
        self._process.join(GRACE_AFTER_SIGNAL)
        return self._process.exitcode


def _kill_group(pid: int) -> None:
    """Kills what a process leaves behind that did not end by itself; its group has its number."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class AsynchronousDataAccessor:
    """Iterates over items that another process loads ahead into shared memory.

    The tensors of an item are valid until the next one is asked for: clone what is kept. An item is
    a tensor, a list, a dictionary or an object of a type with a parser, or nestings of these; a
    tuple comes back as a list. Each `iter` begins a new epoch.

    Args:
        dataset: What is iterated over, once an epoch: a data loader or another iterable. Unless
            `sharing_strategy` is Fork it must be possible to pickle it.
        buffer_size: How many items are ready in shared memory at a time. What a loader's workers
            load ahead (its `prefetch_factor` for each) lies there too.
        miss_sleep_time_in_ms: Of no effect, because nothing polls; a number from 0 on.
        load_indefinitely: Whether the next epoch is begun before it is asked for.
        early_preload: Whether loading begins at once, not when the first item is asked for.
        sharing_strategy: How the process is started: `ForkServer` by a server that forks, `Fork`
            as a copy of this one, `SharedMemory` and `FileSystem` as a new one that gets tensors of
            the data by descriptors or by files.
        rebatched_size: Put the rows of items together to batches of so many, from 2 on; rows that
            are left over at the end of an epoch are dropped.

    Raises:
        Error: The process cannot be started, or `dataset` is a loader with an accessor of its own.
        TypeError: An argument is of another type.
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        dataset: Iterable[Any],
        buffer_size: int = 3,
        miss_sleep_time_in_ms: float = 0.1,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: SharingStrategy = SharingStrategy.ForkServer,
        rebatched_size: int | None = None,
    ) -> None:
        _check_arguments(buffer_size, miss_sleep_time_in_ms, sharing_strategy, rebatched_size)
        if getattr(dataset, "_accessor", None) is not None:
            raise createPoptorchError(
                "AsynchronousDataAccessor: the DataLoader already has an accessor of its own "
                "because its mode is asynchronous. Iterate over it, or make it with mode="
                "poptorch.DataLoaderMode.Sync"
            )
        self._dataset: Any = dataset
        self._strategy = sharing_strategy
        self._settings = WorkerSettings(
            buffer_size=buffer_size,
            load_indefinitely=bool(load_indefinitely),
            rebatched_size=rebatched_size or 0,
            keeps_last=bool(getattr(dataset, "_keeps_last_batch", False)),
            parsers=registered_parsers(),
            start_method=multiprocessing.get_start_method(allow_none=True),
        )
        self._terminated = False
        self._worker: _WorkerProcess | None = None
        self._start()
        if early_preload:
            self._begin_epoch()

    def _start(self) -> None:
        """Starts a process, which waits for its first epoch."""
        self._ring: Ring | None = None
        self._node: Node | None = None
        self._layout: Layout | None = None
        self._started = False
        self._epoch = -1
        self._begun = False  # whether an item of the epoch, or its end, was asked for
        self._ended = False
        self._slot: int | None = None
        with HeldInterrupts():
            try:
                worker = _WorkerProcess(self._dataset, self._settings, self._strategy)
            except Exception as error:
                text = f"{_NOT_STARTED}\n{type(error).__name__}: {error}"
                raise createPoptorchError(text) from error
            self._worker = worker
            self._finalizer = weakref.finalize(self, worker.stop)
            self._finalizer.atexit = False  # the process itself sees to that, in the right order

    def _begin_epoch(self) -> None:
        seed = int(torch.empty((), dtype=torch.int64).random_()) if self._epoch < 0 else 0
        self._epoch += 1
        self._begun = self._ended = False
        self._send(Begin(self._epoch, seed))

    def __len__(self) -> int:
        dataset, size = self._dataset, self._settings.rebatched_size
        if not size:
            return len(dataset)
        if not isinstance(dataset, torch.utils.data.DataLoader):
            raise TypeError(
                "len: wanted a torch.utils.data.DataLoader, whose samples can be counted; given "
                f"{type(dataset).__name__}, of which the rows are put together anew"
            )
        is_iterable = isinstance(dataset.dataset, torch.utils.data.IterableDataset)
        samples: Any = dataset.dataset if is_iterable else dataset.sampler
        whole, rest = divmod(len(samples), size)
        return whole + (rest > 0 and self._settings.keeps_last)

    def __iter__(self) -> AsynchronousDataAccessor:
        self._check_not_terminated()
        if self._worker is None:
            self._start()
        if self._epoch < 0 or self._begun:
            try:
                self._release_slot()
                self._begin_epoch()
            except BaseException:
                self._end_by_error()
                raise
        return self

    def __next__(self) -> Any:
        self._check_not_terminated()
        if self._epoch < 0:
            iter(self)
        if self._ended:
            raise StopIteration
        self._begun = True
        try:
            self._release_slot()
            self._slot = self._next_slot()
        except BaseException:
            self._end_by_error()
            raise
        if self._slot is None:
            self._ended = True
            raise StopIteration
        assert self._ring is not None
        assert self._layout is not None
        assert self._node is not None
        return self._node.build(iter(self._ring.tensors(self._slot, self._layout)))

    def _end_by_error(self) -> None:
        """Nor can what was half sent or received at Ctrl-C be continued: `iter` starts anew."""
        self._ended = True
        self._stop()

    def _release_slot(self) -> None:
        if self._slot is not None:
            slot, self._slot = self._slot, None
            self._send(Free(slot))

    def _next_slot(self) -> int | None:
        """The slot of the next item of this epoch; None at its end."""
        assert self._worker is not None
        while True:
            message = self._receive()
            if isinstance(message, Item):
                if message.epoch == self._epoch:
                    return message.slot
                self._send(Free(message.slot))
            elif isinstance(message, EpochEnd):
                if message.epoch == self._epoch:
                    return None
            elif isinstance(message, Described):
                self._node = node_of(message)
                self._layout = message.layout
            elif isinstance(message, RingMade):
                self._ring = self._receive_ring(message)
            elif isinstance(message, Empty):
                raise createPoptorchError(
                    "The Dataset is empty: an epoch had not a single whole item"
                )
            elif isinstance(message, Failed):
                raise createPoptorchError(f"{_FAILED}:\n{message.text}")
            else:
                assert isinstance(message, Started)
                self._worker.has_started()

    def _receive_ring(self, made: RingMade) -> Ring:
        with socket.socket(fileno=os.dup(self._connection.fileno())) as channel:
            _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        return Ring(RingMemory(descriptors[0]), made.slots, made.slot_size)

    @property
    def _connection(self) -> Connection:
        assert self._worker is not None
        return self._worker.connection

    def _send(self, message: Begin | Free) -> None:
        try:
            send(self._connection, message)
        except (BrokenPipeError, ConnectionResetError):
            # What the process said last is still to be received.
            return

    def _receive(self) -> Any:
        try:
            message = receive(self._connection)
        except (EOFError, ConnectionResetError):
            raise self._ended_unexpectedly() from None
        self._started = True
        return message

    def _ended_unexpectedly(self) -> Error:
        assert self._worker is not None
        code = self._worker.wait_for_code()
        if not self._started:
            return createPoptorchError(f"{_NOT_STARTED}\nIts exit code is {code}.")
        reason = f"exit code {code}"
        if code is not None and code < 0:
            reason = f"signal {signal.Signals(-code).name}"
        return createPoptorchError(f"{_FAILED}: its process ended unexpectedly ({reason})")

    def _stop(self) -> None:
        # First: after Ctrl-C in the meantime `iter` starts anew, and the finalizer ends this one.
        worker, self._worker = self._worker, None
        if worker is not None:
            finalizer = self._finalizer
            worker.stop()
            finalizer.detach()

    def _check_not_terminated(self) -> None:
        if self._terminated:
            raise createPoptorchError(
                "The AsynchronousDataAccessor was terminated: make a new one, or a new DataLoader"
            )

    def terminate(self) -> None:
        """End the process; tensors that were given out stay valid, nothing more is loaded."""
        self._terminated = True
        self._stop()


def _check_arguments(
    buffer_size: object, sleep_time: object, strategy: object, rebatched_size: object
) -> None:
    where = "AsynchronousDataAccessor"
    _check_count(f"{where}: buffer_size", buffer_size, 1)
    if rebatched_size is not None:
        _check_count(f"{where}: rebatched_size", rebatched_size, 2)
    if not isinstance(strategy, SharingStrategy):
        raise TypeError(
            f"{where}: sharing_strategy: wanted a poptorch.SharingStrategy; given {strategy!r}"
        )
    if not isinstance(sleep_time, int | float) or not sleep_time >= 0:
        raise ValueError(
            f"{where}: miss_sleep_time_in_ms: wanted a number from 0 on; given {sleep_time!r}"
        )


def _check_count(where: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{where}: wanted an int; given {value!r}")
    if value < least:
        raise ValueError(f"{where}: wanted at least {least}; given {value}")
