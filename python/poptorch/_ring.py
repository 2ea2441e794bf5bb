"""Slots of memory that two processes share: where an item's tensors are in one.

The memory belongs to no file system, so that it goes away with the last process that has it.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from typing import Any

import torch

# Rows of tensors begin where vector instructions like them, slots where pages begin.
_TENSOR_ALIGNMENT = 64
_SLOT_ALIGNMENT = mmap.PAGESIZE


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


@dataclass(frozen=True)
class Layout:
    """Where the tensors of an item are in its slot: offsets and sizes are in bytes."""

    dtypes: tuple[torch.dtype, ...]
    shapes: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    size: int

    @staticmethod
    def of(tensors: Iterable[torch.Tensor]) -> Layout:
        """Place the tensors of an item one behind the other.

        Args:
            tensors: Tensors of the shapes and dtypes of the item's.

        Returns:
            The layout.
        """
        dtypes, shapes, offsets, size = [], [], [], 0
        for tensor in tensors:
            dtypes.append(tensor.dtype)
            shapes.append(tuple(tensor.shape))
            offsets.append(size)
            size = _aligned(size + tensor.numel() * tensor.element_size(), _TENSOR_ALIGNMENT)
        return Layout(tuple(dtypes), tuple(shapes), tuple(offsets), size)

    def with_rows(self, rows: int) -> Layout:
        """Keep the first rows of every tensor where they are.

        Args:
            rows: How many, of shapes with at least as many.

        Returns:
            A layout of the same size.
        """
        shapes = tuple((rows, *shape[1:]) for shape in self.shapes)
        return Layout(self.dtypes, shapes, self.offsets, self.size)


class RingMemory:
    """Memory that other processes may be given before anybody knows how large it has to be.

    Args:
        descriptor: A file descriptor of it, which is closed with this object; None: new memory.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("poptorch_ring", os.MFD_CLOEXEC)
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor).atexit = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _received_memory, (DupFd(self.descriptor),)

    def reserve(self, slots: int, slot_size: int) -> None:
        """Make it large enough for a ring; pages come when they are first written.

        Args:
            slots: The number of slots.
            slot_size: The size of each, in bytes.
        """
        os.ftruncate(self.descriptor, _size_of(slots, slot_size))


def _received_memory(descriptor: Any) -> RingMemory:
    return RingMemory(descriptor.detach())


def _size_of(slots: int, slot_size: int) -> int:
    """The size of the memory of a ring in bytes, at least one page."""
    return max(slots * _aligned(slot_size, _SLOT_ALIGNMENT), _SLOT_ALIGNMENT)


class Ring:
    """A number of slots in shared memory.

    Args:
        memory: Memory that was reserved for a ring like this.
        slots: The number of slots.
        slot_size: The size of each, in bytes.
    """

    def __init__(self, memory: RingMemory, slots: int, slot_size: int) -> None:
        self.slot_size = slot_size
        self._stride = _aligned(slot_size, _SLOT_ALIGNMENT)
        self._memory = mmap.mmap(memory.descriptor, _size_of(slots, slot_size))

    def tensors(self, slot: int, layout: Layout) -> list[torch.Tensor]:
        """Give the tensors of an item.

        Args:
            slot: The number of its slot.
            layout: Where they are in it.

        Returns:
            New tensors on the memory of the slot, which keep it alive.
        """
        return [
            self._tensor(slot * self._stride + offset, dtype, shape)
            for dtype, shape, offset in zip(
                layout.dtypes, layout.shapes, layout.offsets, strict=True
            )
        ]

    def _tensor(self, start: int, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
        count = 1
        for size in shape:
            count *= size
        if not count:
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(self._memory, dtype=dtype, count=count, offset=start)
        return flat.view(shape)
