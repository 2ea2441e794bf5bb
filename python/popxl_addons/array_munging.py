"""Host arrays cut, repeated and put together for shards and replicas (NumPy only)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray


def handle_negative_axis(x: Array, axis: int) -> int:
    """`axis` counted from the front. IndexError when `x` has no such axis."""
    rank = x.ndim
    if not -rank <= axis < rank:
        raise IndexError(f"Axis {axis} is out of range for an array of rank {rank}.")
    return axis % rank


def shard(x: Array, n: int, axis: int) -> Array:
    """`x` split in `n` along `axis`, the parts stacked on a new first axis."""
    return np.stack(np.split(x, n, axis=axis))


def unshard_arrays(xs: Sequence[Array], axis: int) -> Array:
    """The arrays joined along `axis`."""
    return np.concatenate(list(xs), axis=axis)


def unshard(x: Array, axis: int) -> Array:
    """Inverse of `shard`; `axis` does not count the shard axis."""
    return unshard_arrays(list(x), axis)


def repeat(x: Array, n: int, axis: int = 0) -> Array:
    """`n` copies of `x` along a new axis at `axis`."""
    return np.repeat(np.expand_dims(x, axis), n, axis=axis)


def repeat_axis(x: Array, n: int, axis: int = 0) -> Array:
    """`x` tiled `n` times along `axis`."""
    repetitions = [1] * x.ndim
    repetitions[handle_negative_axis(x, axis)] = n
    return np.tile(x, repetitions)


def split2D(x: Array, n1: int, n2: int, a1: int, a2: int) -> list[list[Array]]:
    """`x` split in `n1` along `a1`, each part in `n2` along `a2`."""
    return [np.split(part, n2, axis=a2) for part in np.split(x, n1, axis=a1)]


def shard2D(x: Array, n1: int, n2: int, a1: int, a2: int) -> Array:
    """The parts of `split2D` stacked on a new first axis, those along `a1` outermost."""
    return np.stack([part for row in split2D(x, n1, n2, a1, a2) for part in row])


def unshard2D(x: Array, n1: int, n2: int, a1: int, a2: int) -> Array:
    """Inverse of `shard2D`."""
    assert x.shape[0] == n1 * n2, f"{n1} x {n2} shards wanted, the array has {x.shape[0]}."
    rows = [unshard_arrays(list(x[i * n2 : (i + 1) * n2]), a2) for i in range(n1)]
    return unshard_arrays(rows, a1)


def repeat_shard(
    x: Array, n_repeats: int, n_shards: int, shard_axis: int, sharded_tensor: str = "contiguous"
) -> Array:
    """Shards of `x`, each `n_repeats` times.

    "contiguous": all shards in turn, again and again (s0 s1 s0 s1). "strided": that list viewed
    as (n_shards, n_repeats) and transposed (s0 s0 s1 s1 for two repeats).
    """
    if sharded_tensor not in ("contiguous", "strided"):
        raise ValueError(
            f"sharded_tensor must be 'contiguous' or 'strided'; got {sharded_tensor!r}."
        )
    shards = shard(x, n_shards, shard_axis)
    tiled = np.concatenate([shards] * n_repeats)
    if sharded_tensor == "contiguous":
        return tiled
    part_shape = shards.shape[1:]
    table = tiled.reshape(n_shards, n_repeats, *part_shape)
    return np.swapaxes(table, 0, 1).reshape(n_shards * n_repeats, *part_shape)


def squeeze_safe(x: Array, axis: int | Sequence[int] | None = None) -> Array:
    """As np.squeeze, but axes whose size is not 1 stay."""
    if axis is None:
        return np.squeeze(x)
    axes = [axis] if isinstance(axis, int) else list(axis)
    return np.squeeze(x, tuple(a for a in axes if x.shape[a] == 1))


def pad_axis(x: Array, n: int, axis: int, value: Any = 0) -> Array:
    """`x` filled up with `value` at the end of `axis` to length `n`."""
    missing = n - x.shape[axis]
    assert missing >= 0, f"Axis {axis} is already longer ({x.shape[axis]}) than {n}."
    padding = [(0, 0)] * x.ndim
    padding[handle_negative_axis(x, axis)] = (0, missing)
    return np.pad(x, padding, constant_values=value)


def tensor_parallel_input(
    data: Array, tp: int, rf: int, repeat_fn: Callable[[Array, int], Array] | None = None
) -> Array:
    """Samples (n, ...) laid out for `rf` replicas of which `tp` in a row share each sample.

    The result is (n * tp / rf, rf, ...) without leading axes of size 1. `repeat_fn(copy, i)` may
    alter the i-th copy. ValueError unless `tp` divides `rf`.
    """
    if tp > rf or rf % tp != 0:
        raise ValueError(f"The tensor parallel size {tp} must divide the replication factor {rf}.")
    copies = [data.copy() for _ in range(tp)]
    if repeat_fn is not None:
        copies = [repeat_fn(copy, i) for i, copy in enumerate(copies)]
    stacked = np.stack(copies, axis=1)
    result = stacked.reshape(-1, rf, *stacked.shape[2:])
    return squeeze_safe(result, (0, 1))


def tensor_parallel_output(
    out: Array,
    num_host_transfers: int,
    tp: int,
    rf: int,
    data_shape: Sequence[int],
    tp_identical: bool = True,
    true_num_host_transfers: int | None = None,
) -> Array:
    """Inverse of `tensor_parallel_input`: (samples, ...), or (samples, tp, ...) when the members
    of a group differ. Keeps `true_num_host_transfers` of the transfers when given."""
    result = out.reshape(num_host_transfers, rf, *data_shape)
    if true_num_host_transfers is not None:
        result = result[:true_num_host_transfers]
    result = result.reshape(-1, tp, *data_shape)
    return result[:, 0] if tp_identical else result
