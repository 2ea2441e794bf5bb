"""Seeds for random ops."""

from __future__ import annotations

from typing import Any

import numpy as np

MAX_UINT32 = 2**32 - 1
MAX_UINT64 = 2**64 - 1


def uint64_to_two_uint32(num: int) -> tuple[int, int]:
    """Split a number into two words.

    Args:
        num: The number, in [0, 2**64).

    Returns:
        The upper and the lower half.

    Raises:
        ValueError: The number is out of range.
    """
    if not 0 <= num <= MAX_UINT64:
        raise ValueError(f"uint64_to_two_uint32: wanted a number in [0, 2**64); given {num}")
    return int(num) >> 32, int(num) & MAX_UINT32


def two_uint32_to_uint64(a: int, b: int) -> int:
    """Join two words to a number.

    Args:
        a: The upper half, in [0, 2**32).
        b: The lower half, in [0, 2**32).

    Returns:
        The number.

    Raises:
        ValueError: A half is out of range.
    """
    for half in (a, b):
        if not 0 <= half <= MAX_UINT32:
            raise ValueError(f"two_uint32_to_uint64: wanted numbers in [0, 2**32); given {half}")
    return (int(a) << 32) | int(b)


def create_seeds(
    seed: int,
    offset: int = 0,
    batches_per_step: int = 1,
    gradient_accumulation_factor: int = 1,
    replicas: int = 1,
) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Draw seeds for random ops, for the host to give to a program.

    Args:
        seed: What the seeds are a function of, together with `offset`.
        offset: What is added to `seed`.
        batches_per_step: The size of the first axis.
        gradient_accumulation_factor: The size of the second axis.
        replicas: The size of the third axis.

    Returns:
        A uint32 array of shape (batches, accumulation, replicas, 2) without its axes of size 1.
    """
    size = batches_per_step * gradient_accumulation_factor * replicas
    numbers = np.random.default_rng(seed + offset).integers(
        0, MAX_UINT64, endpoint=True, dtype="uint64", size=size
    )
    halves = np.stack([numbers >> np.uint64(32), numbers & np.uint64(MAX_UINT32)], axis=-1)
    shape = (batches_per_step, gradient_accumulation_factor, replicas, 2)
    return np.squeeze(halves.astype(np.uint32).reshape(shape))
