"""Host arrays cut, repeated and put together for shards and replicas (NumPy only)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray


def handle_negative_axis(x: Array, axis: int) -> int:
    """An axis counted from the front.

    Args:
        x: An array of any dtype with at least one axis.
        axis: From -rank to rank - 1; a negative one counts from the last axis.

    Returns:
        The same axis as a number from 0 to rank - 1.

    Raises:
        IndexError: `x` has no such axis.
    """
    rank = x.ndim
    if not -rank <= axis < rank:
        raise IndexError(f"Axis {axis} is out of range for an array of rank {rank}.")
    return axis % rank


def shard(x: Array, n: int, axis: int) -> Array:
    """Splits an array into equal parts.

    Args:
        x: An array of any shape and dtype.
        n: The number of parts; it must divide the size of `axis`.
        axis: The axis to split.

    Returns:
        A new array (n, ...): the parts stacked on a new first axis.

    Raises:
        ValueError: `n` does not divide the size of the axis (from NumPy).
    """
    return np.stack(np.split(x, n, axis=axis))


def unshard_arrays(xs: Sequence[Array], axis: int) -> Array:
    """Joins arrays.

    Args:
        xs: Arrays that differ in the size of `axis` at most.
        axis: The axis along which they are joined.

    Returns:
        A new array that holds them one after the other.
    """
    return np.concatenate(list(xs), axis=axis)


def unshard(x: Array, axis: int) -> Array:
    """Joins what `shard` split.

    Args:
        x: The parts (n, ...), stacked on the first axis.
        axis: The axis that was split, counted without the first axis of `x`.

    Returns:
        A new array with the parts one after the other along `axis`.
    """
    return unshard_arrays(list(x), axis)


def repeat(x: Array, n: int, axis: int = 0) -> Array:
    """Copies an array along a new axis.

    Args:
        x: An array of any shape and dtype.
        n: The number of copies.
        axis: Where the new axis stands in the result; 0 makes it the first.

    Returns:
        A new array with one more axis, of size `n`.
    """
    return np.repeat(np.expand_dims(x, axis), n, axis=axis)


def repeat_axis(x: Array, n: int, axis: int = 0) -> Array:
    """Tiles an array along one of its axes.

    Args:
        x: An array of any shape and dtype.
        n: How many times the whole array is repeated.
        axis: The axis that becomes `n` times as long.

    Returns:
        A new array: `x`, then `x` again, and so on along `axis`.

    Raises:
        IndexError: `x` has no such axis.
    """
    repetitions = [1] * x.ndim
    repetitions[handle_negative_axis(x, axis)] = n
    return np.tile(x, repetitions)


def split2D(x: Array, n1: int, n2: int, a1: int, a2: int) -> list[list[Array]]:
    """Splits an array along two axes.

    Args:
        x: An array of any shape and dtype.
        n1: The number of parts along `a1`; it must divide the size of the axis.
        n2: The number of parts along `a2`; it must divide the size of the axis.
        a1: The axis that is split first.
        a2: The axis along which each part is split again.

    Returns:
        `n1` lists of `n2` arrays, which are views of `x`.
    """
    return [np.split(part, n2, axis=a2) for part in np.split(x, n1, axis=a1)]


def shard2D(x: Array, n1: int, n2: int, a1: int, a2: int) -> Array:
    """Splits an array along two axes and stacks the parts.

    Args:
        x: An array of any shape and dtype.
        n1: The number of parts along `a1`.
        n2: The number of parts along `a2`.
        a1: The axis whose parts are outermost.
        a2: The other axis.

    Returns:
        A new array (n1 * n2, ...): part (i, j) is at i * n2 + j.
    """
    return np.stack([part for row in split2D(x, n1, n2, a1, a2) for part in row])


def unshard2D(x: Array, n1: int, n2: int, a1: int, a2: int) -> Array:
    """Joins what `shard2D` split.

    Args:
        x: The parts (n1 * n2, ...).
        n1: The number of parts along `a1`.
        n2: The number of parts along `a2`.
        a1: The axis that was split into `n1`, counted without the first axis of `x`.
        a2: The axis that was split into `n2`, counted likewise.

    Returns:
        A new array of the shape that `shard2D` was given.

    Raises:
        AssertionError: `x` does not have n1 * n2 parts.
    """
    assert x.shape[0] == n1 * n2, f"{n1} x {n2} shards wanted, the array has {x.shape[0]}."
    rows = [unshard_arrays(list(x[i * n2 : (i + 1) * n2]), a2) for i in range(n1)]
    return unshard_arrays(rows, a1)


def repeat_shard(
    x: Array, n_repeats: int, n_shards: int, shard_axis: int, sharded_tensor: str = "contiguous"
) -> Array:
    """Splits an array and repeats the parts.

    Args:
        x: An array of any shape and dtype.
        n_repeats: How many times each part is there.
        n_shards: The number of parts.
        shard_axis: The axis to split.
        sharded_tensor: "contiguous" repeats the list of all parts: s0 s1 s0 s1. "strided" reads
            that list as a table (n_shards, n_repeats) and takes it by columns: s0 s0 s1 s1 for two
            of each.

    Returns:
        A new array (n_shards * n_repeats, ...).

    Raises:
        ValueError: `sharded_tensor` is neither of the two.
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
    """Removes axes of size 1; unlike np.squeeze, axes of another size stay.

    Args:
        x: An array of any shape and dtype.
        axis: The axes that may go; None means all of them.

    Returns:
        A view of `x`.
    """
    if axis is None:
        return np.squeeze(x)
    axes = [axis] if isinstance(axis, int) else list(axis)
    return np.squeeze(x, tuple(a for a in axes if x.shape[a] == 1))


def pad_axis(x: Array, n: int, axis: int, value: Any = 0) -> Array:
    """Makes an axis longer.

    Args:
        x: An array of any shape and dtype.
        n: The size that `axis` gets.
        axis: The axis to be filled up at its end.
        value: What the new elements are.

    Returns:
        A new array.

    Raises:
        AssertionError: The axis is longer than `n`.
    """
    missing = n - x.shape[axis]
    assert missing >= 0, f"Axis {axis} is already longer ({x.shape[axis]}) than {n}."
    padding = [(0, 0)] * x.ndim
    padding[handle_negative_axis(x, axis)] = (0, missing)
    return np.pad(x, padding, constant_values=value)


def tensor_parallel_input(
    data: Array, tp: int, rf: int, repeat_fn: Callable[[Array, int], Array] | None = None
) -> Array:
    """Lays samples out for replicas of which some in a row work on the same sample.

    Args:
        data: Samples (n, ...), n a multiple of rf / tp.
        tp: How many replicas share a sample.
        rf: The number of all replicas.
        repeat_fn: Called as `repeat_fn(copy, i)` for the copy of all samples that the i-th member
            of each group gets; its result takes the place of the copy. None leaves them alike.

    Returns:
        A new array (n * tp / rf, rf, ...), the leading axes left out where their size is 1.

    Raises:
        ValueError: `tp` does not divide `rf`.
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
    """Takes the results of the samples out of what replicas stored; undoes `tensor_parallel_input`.

    Args:
        out: What a run gave, of num_host_transfers * rf * prod(data_shape) elements.
        num_host_transfers: Transfers of a run.
        tp: How many replicas in a row shared a sample.
        rf: The number of all replicas.
        data_shape: The shape of one result.
        tp_identical: Whether the members of a group stored the same, so that the first one's
            counts.
        true_num_host_transfers: Only so many transfers are kept; None keeps all.

    Returns:
        A view (samples, *data_shape) or, unless `tp_identical`, (samples, tp, *data_shape).
    """
    result = out.reshape(num_host_transfers, rf, *data_shape)
    if true_num_host_transfers is not None:
        result = result[:true_num_host_transfers]
    result = result.reshape(-1, tp, *data_shape)
    return result[:, 0] if tp_identical else result
