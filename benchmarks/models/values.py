"""Initial weights: normal values out of one pool, since drawing millions takes seconds."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

# A prime length: rows of a table, whatever their width, differ.
_POOL = np.random.default_rng(42).standard_normal(65_537, dtype=np.float32)


def normal(name: str, shape: tuple[int, ...], scale: float) -> Array:
    """Values of deviation ``scale`` that differ by ``name``."""
    start = zlib.crc32(name.encode()) % _POOL.size
    values: Array = np.resize(np.roll(_POOL, -start), shape)
    values *= np.float32(scale)
    return values


def dense(name: str, rows: int, columns: int, scale: float = 0.02) -> dict[str, Array]:
    weight = normal(f"{name}.weight", (rows, columns), scale)
    return {f"{name}.weight": weight, f"{name}.bias": np.zeros(columns, np.float32)}


def layer_norm(name: str, hidden: int) -> dict[str, Array]:
    return {
        f"{name}.weight": np.ones(hidden, np.float32),
        f"{name}.bias": np.zeros(hidden, np.float32),
    }


def transformer_layer(name: str, hidden: int, feed_forward: int) -> dict[str, Array]:
    """Attention with one joint query/key/value product, then two dense layers."""
    return {
        **layer_norm(f"{name}.norm1", hidden),
        **dense(f"{name}.qkv", hidden, 3 * hidden),
        **dense(f"{name}.proj", hidden, hidden),
        **layer_norm(f"{name}.norm2", hidden),
        **dense(f"{name}.ff1", hidden, feed_forward),
        **dense(f"{name}.ff2", feed_forward, hidden),
    }
