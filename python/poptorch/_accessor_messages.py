"""What a data accessor and the process that loads for it tell each other.

The process writes each item to a free slot of a ring and says so; slots come back when the next
item is asked for. Epochs are numbered from 0 on.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from poptorch._ring import Layout
from poptorch._structures import ICustomArgParser

# Seconds that the process has to end by itself, and after a signal told it to.
GRACE, GRACE_AFTER_SIGNAL = 1.0, 3.0


@dataclass(frozen=True)
class WorkerSettings:
    """What the process is told when it is started; `rebatched_size` 0 leaves items as they are."""

    buffer_size: int
    load_indefinitely: bool
    rebatched_size: int
    keeps_last: bool
    parsers: dict[type, ICustomArgParser]
    start_method: str | None  # of processes that this one starts, if one was chosen


# Messages to the worker.


@dataclass(frozen=True)
class Begin:
    """Epoch `epoch` is wanted, and none before it; `seed` is for the first one."""

    epoch: int
    seed: int


@dataclass(frozen=True)
class Free:
    """Slot `slot` may be overwritten."""

    slot: int


# Messages from the worker.


@dataclass(frozen=True)
class Started:
    """The process runs and has what it loads from."""


@dataclass(frozen=True)
class RingMade:
    """The ring has `slots` slots of `slot_size` bytes each; its descriptor follows."""

    slots: int
    slot_size: int


@dataclass(frozen=True)
class Described:
    """Items have from now on this layout, and the structure that `skeleton` has.

    It is a pickled item in which tensors are numbers of the layout.
    """

    skeleton: bytes
    layout: Layout


@dataclass(frozen=True)
class Item:
    """An item of epoch `epoch` is in slot `slot`."""

    epoch: int
    slot: int


@dataclass(frozen=True)
class EpochEnd:
    """Epoch `epoch` has no more items."""

    epoch: int


@dataclass(frozen=True)
class Empty:
    """An epoch had no items; the process ends."""


@dataclass(frozen=True)
class Failed:
    """Loading raised an exception, whose traceback is `text`; the process ends."""

    text: str


# Those of every item are packed: pickling takes several times as long.
_PACKED = struct.Struct("=cqi")
_FREE, _ITEM, _PICKLED = b"f", b"i", b"p"


def send(connection: Connection, message: object) -> None:
    """Send a message.

    Args:
        connection: To the other process.
        message: One of the classes of this module.

    Raises:
        OSError: The other process has gone.
    """
    if isinstance(message, Item):
        connection.send_bytes(_PACKED.pack(_ITEM, message.epoch, message.slot))
    elif isinstance(message, Free):
        connection.send_bytes(_PACKED.pack(_FREE, 0, message.slot))
    else:
        send_pickled(connection, pickle.dumps(message))


def send_pickled(connection: Connection, message: bytes) -> None:
    """Send a message that was pickled before.

    Args:
        connection: To the other process.
        message: One of the classes of this module, pickled.

    Raises:
        OSError: The other process has gone.
    """
    connection.send_bytes(_PICKLED + message)


def receive(connection: Connection) -> Any:
    """Wait for a message.

    Args:
        connection: To the other process.

    Returns:
        An object of one of the classes of this module.

    Raises:
        EOFError: The other process has closed the connection.
        OSError: It has gone.
    """
    received = connection.recv_bytes()
    if received[:1] == _PICKLED:
        return pickle.loads(received[1:])
    kind, epoch, slot = _PACKED.unpack(received)
    return Item(epoch, slot) if kind == _ITEM else Free(slot)
