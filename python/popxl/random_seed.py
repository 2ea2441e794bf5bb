"""Seeds for random ops."""

from __future__ import annotations

from typing import Any

import numpy as np

MAX_UINT32 = 2**32 - 1
MAX_UINT64 = 2**64 - 1


def uint64_to_two_uint32(num: int) -> tuple[int, int]:
    """The upper and the lower half."""
    if not 0 <= num <= MAX_UINT64:
        raise ValueError(f"uint64_to_two_uint32: wanted a number in [0, 2**64); given {num}")
    return int(num) >> 32, int(num) & MAX_UINT32


def two_uint32_to_uint64(a: int, b: int) -> int:
    """The number with the upper half `a` and the lower half `b`."""
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
    """Seeds of shape (batches, accumulation, replicas, 2) with the axes of size 1 dropped."""
    size = batches_per_step * gradient_accumulation_factor * replicas
    numbers = np.random.default_rng(seed + offset).integers(
        0, MAX_UINT64, endpoint=True, dtype="uint64", size=size
    )
    halves = np.stack([numbers >> np.uint64(32), numbers & np.uint64(MAX_UINT32)], axis=-1)
    shape = (batches_per_step, gradient_accumulation_factor, replicas, 2)
    return np.squeeze(halves.astype(np.uint32).reshape(shape))
