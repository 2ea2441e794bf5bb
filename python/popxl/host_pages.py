"""Host arrays whose memory can be given back while they exist.

A page that is touched for the first time costs more than copying to it. Huge pages cost the least,
so that arrays which are smaller than these lie together in blocks of them.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import threading
import weakref
from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]

# What is smaller is not worth pages of its own.
_FEWEST_BYTES = 1 << 16
# What is not zero mostly shows that here.
_FIRST_BYTES = 64
_HUGE_PAGE = 1 << 21
_BLOCK_BYTES = 16 * _HUGE_PAGE
# From here on most of the memory of an array of its own can be in huge pages.
_FEWEST_BYTES_ALONE = 4 * _HUGE_PAGE


class _Block(mmap.mmap):
    """Memory that is handed out from its start; no part of it is handed out again.

    Args:
        size: How much, in bytes.
        huge: Whether in huge pages, but for what is less than one at its end.
    """

    def __new__(cls, size: int, huge: bool) -> _Block:
        mapped = size + (_HUGE_PAGE if huge else 0)
        return super().__new__(cls, -1, mapped, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def __init__(self, size: int, huge: bool) -> None:
        self.address = np.frombuffer(self, np.uint8, 1).ctypes.data
        self._next = -self.address % _HUGE_PAGE if huge else 0
        self._end = self._next + size
        if huge:
            # A kernel without huge pages refuses; the block has ordinary ones then.
            with contextlib.suppress(OSError):
                self.madvise(mmap.MADV_HUGEPAGE, self._next, size // _HUGE_PAGE * _HUGE_PAGE)

    def has_room(self, size: int) -> bool:
        """Tell whether so many bytes, in whole pages, are left.

        Args:
            size: How many.

        Returns:
            Whether they are.
        """
        return self._next + _in_pages(size) <= self._end

    def take(self, size: int) -> _Array:
        """Take whole pages, which are discarded when nobody has the array any more.

        Args:
            size: How many bytes of them the array has; the block has room for them.

        Returns:
            The array of bytes.
        """
        pages = _in_pages(size)
        part = np.frombuffer(self, np.uint8, size, self._next)
        weakref.finalize(part.base, self.discard, self._next, pages).atexit = False
        self._next += pages
        return part

    def discard(self, start: int, size: int) -> None:
        """Give pages back to the system; they are zeros then.

        Args:
            start: Where they begin in the block, in bytes.
            size: Their bytes.
        """
        self.madvise(mmap.MADV_DONTNEED, start, size)


class _Blocks:
    """The block that the next arrays come from."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block: _Block | None = None

    def take(self, size: int) -> _Array:
        """Take whole pages from the block, or from the first of another one.

        Args:
            size: How many bytes of them the array has.

        Returns:
            The array of bytes.
        """
        with self._lock:
            if self._block is None or not self._block.has_room(size):
                self._block = _Block(_BLOCK_BYTES, huge=True)
            return self._block.take(size)


_BLOCKS = _Blocks()


def _in_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def is_worth_pages(array: _Array) -> bool:
    """Tell whether an array is large enough for pages of its own.

    Args:
        array: The array.

    Returns:
        Whether it is.
    """
    return array.nbytes >= _FEWEST_BYTES


def copy_in_pages(array: _Array, kind: np.dtype[Any]) -> _Array:
    """Copy an array to pages of its own. Zeros are not written: they take no memory.

    Args:
        array: The array, not empty.
        kind: The dtype to convert to, unchecked.

    Returns:
        A new C-ordered array.

    Raises:
        MemoryError: There is not enough memory.
    """
    size = math.prod(array.shape) * kind.itemsize
    is_zero = _is_zero(array)
    try:
        if size >= _FEWEST_BYTES_ALONE:
            part = _Block(_in_pages(size), huge=True).take(size)
        elif is_zero:
            # In a huge page it would take memory as soon as a neighbour is written.
            part = _Block(_in_pages(size), huge=False).take(size)
        else:
            part = _BLOCKS.take(size)
    except (OSError, OverflowError) as error:
        raise MemoryError(
            f"cannot allocate {size} bytes for an array of shape {array.shape} and dtype {kind}"
        ) from error
    result: _Array = part.view(kind).reshape(array.shape)
    if not is_zero:
        np.copyto(result, array, casting="unsafe")
    return result


def give_up(array: _Array) -> bool:
    """Give back what an array takes that `copy_in_pages` made: its elements become zeros.

    Args:
        array: The array; any other is left as it is.

    Returns:
        Whether it was such an array.
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    block = owner.obj if isinstance(owner, memoryview) else None
    if not isinstance(block, _Block):
        return False
    block.discard(array.ctypes.data - block.address, _in_pages(array.nbytes))
    return True


def _is_zero(array: _Array) -> bool:
    """Whether all bits are zero; False where finding out takes long."""
    # Of a broadcast array, every element once.
    array = array[tuple(slice(None) if stride else slice(1) for stride in array.strides)]
    if array.dtype.kind not in "biufV" or not array.flags.c_contiguous:
        return False
    data = array.reshape(-1).view(np.uint8, np.ndarray)
    if data[:_FIRST_BYTES].any():
        return False
    whole = data.size // 8 * 8
    return not (data[:whole].view(np.uint64).any() or data[whole:].any())
