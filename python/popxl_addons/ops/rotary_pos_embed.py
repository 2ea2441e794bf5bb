"""Rotary position embedding: pairs of features turned by an angle that grows with the position."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import popxl
from popart import popart_exception
from popxl import ops

__all__ = ["rotary_pos_embed", "trig_table_constants", "trig_tables"]


def trig_tables(
    seq_len: int, rotary_dim: int, base: int = 10000, np_dtype: Any = "float32"
) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of position * base^(-2 i / rotary_dim).

    Args:
        seq_len: The number of positions, from 0.
        rotary_dim: The number of features that are turned; i goes from 0 to half of it.
        base: The base of the frequencies.
        np_dtype: The dtype of the tables and of everything that they are computed from.

    Returns:
        The sines and the cosines, each (seq_len, rotary_dim / 2).

    Raises:
        ValueError: `np_dtype` cannot hold the base or the positions.
    """
    dtype = np.dtype(np_dtype)
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    if max(base, seq_len - 1) > largest:
        raise ValueError(
            f"trig_tables: {dtype} holds numbers up to {largest:g}; given base {base} and seq_len "
            f"{seq_len}"
        )
    exponents = -np.arange(0, rotary_dim, 2, dtype=dtype) / dtype.type(rotary_dim)
    frequencies = dtype.type(base) ** exponents
    angles = np.outer(np.arange(seq_len, dtype=dtype), frequencies)
    return np.sin(angles), np.cos(angles)


def trig_table_constants(
    seq_len: int, rotary_dim: int, base: int = 10000, dtype: popxl.dtype = popxl.float32
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The tables of `trig_tables` as constants of the current graph.

    Args:
        seq_len: As for `trig_tables`.
        rotary_dim: As for `trig_tables`.
        base: As for `trig_tables`.
        dtype: The dtype of the constants.

    Returns:
        The sines and the cosines, each (seq_len, rotary_dim / 2).
    """
    sin, cos = trig_tables(seq_len, rotary_dim, base)
    return popxl.constant(sin, dtype, "sin"), popxl.constant(cos, dtype, "cos")


def _table(table: popxl.Tensor, t: popxl.Tensor, pairs: int) -> popxl.Tensor:
    """A table (1 or batch, seq, 1, pairs) in the dtype of `t`."""
    assert table.rank in (2, 3), f"rotary_pos_embed: wanted a table of rank 2 or 3; given {table}"
    leading = table.shape[0] if table.rank == 3 else 1
    wanted = (leading, t.shape[1], pairs)
    if table.shape[-2:] != wanted[1:] or leading not in (1, t.shape[0]):
        raise ValueError(
            f"rotary_pos_embed: wanted tables of shape {wanted[1:]}, alone or after an axis of 1 "
            f"or {t.shape[0]}; given {table}"
        )
    return ops.reshape(ops.cast(ops.detach(table), t.dtype), (leading, t.shape[1], 1, pairs))


def rotary_pos_embed(
    t: popxl.Tensor, sin: popxl.Tensor, cos: popxl.Tensor, rotary_dim: int | None = None
) -> popxl.Tensor:
    """Turns pairs of features by an angle that grows with the position.

    Neighbours (a, b) become (a cos - b sin, b cos + a sin). The tables have no gradient.

    Args:
        t: (batch, seq, heads, features), float.
        sin: (seq, rotary_dim / 2), alone or after an axis of 1 or batch.
        cos: The same.
        rotary_dim: How many features, from the first on, are turned; None means all.

    Returns:
        The turned features followed by the others, of the shape and dtype of `t`.

    Raises:
        AssertionError: `t` does not have four axes, or a table has neither two nor three.
        ValueError: A table has another shape.
        popart_exception: `rotary_dim` is odd or larger than there are features.
    """
    assert t.rank == 4, f"rotary_pos_embed: wanted a tensor of rank 4; given {t}"
    features = t.shape[-1]
    rotary_dim = rotary_dim or features
    if rotary_dim % 2 or not 0 < rotary_dim <= features:
        raise popart_exception(
            f"rotary_pos_embed: wanted an even rotary_dim of at most {features}; given {rotary_dim}"
        )
    sin, cos = (_table(table, t, rotary_dim // 2) for table in (sin, cos))
    turned = ops.slice(t, 0, rotary_dim, axis=3)
    pairs = ops.reshape(turned, (*t.shape[:3], rotary_dim // 2, 2))
    a, b = (ops.squeeze(part, [4]) for part in ops.split(pairs, 2, axis=4))
    halves = [a * cos - b * sin, b * cos + a * sin]
    joined = ops.concat([ops.reshape(half, (*half.shape, 1)) for half in halves], axis=4)
    turned = ops.reshape(joined, turned.shape)
    if rotary_dim == features:
        return turned
    return ops.concat([turned, ops.slice(t, rotary_dim, features, axis=3)], axis=3)
