"""Host arrays whose memory can be given back while they exist."""

from __future__ import annotations

import contextlib
import math
import mmap
from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]

# What is smaller is not worth pages of its own.
_FEWEST_BYTES = 1 << 16
# What is not zero mostly shows that here.
_FIRST_BYTES = 64
# From here on most of the memory can be in huge pages of 2 MiB.
_FEWEST_HUGE_BYTES = 1 << 23


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
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    # Each page that is first touched by the copy costs more than the copy.
    is_huge = size >= _FEWEST_HUGE_BYTES
    if not is_zero and not is_huge:
        flags |= mmap.MAP_POPULATE
    try:
        memory = mmap.mmap(-1, size, flags=flags)
    except (OSError, OverflowError) as error:
        raise MemoryError(
            f"cannot allocate {size} bytes for an array of shape {array.shape} and dtype {kind}"
        ) from error
    result: _Array = np.ndarray(array.shape, kind, buffer=memory)
    if not is_zero:
        if is_huge:
            _ask_for_huge_pages(memory)
        np.copyto(result, array, casting="unsafe")
    return result


def _ask_for_huge_pages(memory: mmap.mmap) -> None:
    # A kernel without them refuses; the array has ordinary pages then.
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)


def give_up(array: _Array) -> bool:
    """Give back what an array takes that `copy_in_pages` made: its elements become zeros.

    Args:
        array: The array; any other is left as it is.

    Returns:
        Whether it was such an array.
    """
    memory = array.base
    if not isinstance(memory, mmap.mmap) or isinstance(array, np.memmap):
        return False
    memory.madvise(mmap.MADV_DONTNEED)
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
