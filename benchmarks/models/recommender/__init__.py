"""Recommendation (DLRM): tables of embeddings and a dense network meet in products of all pairs.

A step of training reads one row of every table per sample, and updates only these rows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.data import Batch
from benchmarks.models import values


@dataclass(frozen=True)
class Recommender:
    """``bottom``: dense features of a sample, then the widths of their network, whose last is that
    of the embeddings. ``top``: widths of the network behind the products, before its one logit."""

    tables: int
    rows: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    loss: ClassVar[str] = "binary"

    @property
    def width(self) -> int:
        return self.bottom[-1]

    @property
    def table_names(self) -> list[str]:
        return [f"table{i}" for i in range(self.tables)]

    @property
    def pairs(self) -> tuple[list[int], list[int]]:
        """The smaller and the larger index of every pair of vectors; vector 0 is the dense one."""
        first, second = np.triu_indices(self.tables + 1, k=1)
        return first.tolist(), second.tolist()

    @property
    def dense_layers(self) -> dict[str, tuple[int, int]]:
        """Name to (width read, width written); all are followed by relu but the last."""
        top = (self.width + len(self.pairs[0]), *self.top, 1)
        return {
            f"{part}{i}": sizes
            for part, widths in (("bottom", self.bottom), ("top", top))
            for i, sizes in enumerate(itertools.pairwise(widths))
        }

    def weights(self) -> dict[str, values.Array]:
        shape = (self.rows, self.width)
        result = {name: values.normal(name, shape, 0.1) for name in self.table_names}
        for name, (inputs, outputs) in self.dense_layers.items():
            result |= values.dense(name, inputs, outputs, (2 / inputs) ** 0.5)
        return result

    def batch(self, rng: np.random.Generator, size: int) -> Batch:
        """Dense features (size, features), rows to read (tables, size), clicked or not (size)."""
        dense = rng.standard_normal((size, self.bottom[0]), dtype=np.float32)
        rows = rng.integers(0, self.rows, (self.tables, size), dtype=np.int32)
        return Batch(dense, rng.integers(0, 2, size).astype(np.float32), (rows,))


SIZES = {
    "tiny": Recommender(3, 50, (5, 12, 8), (16, 8)),
    "8x100k": Recommender(8, 100_000, (13, 512, 256, 64), (512, 256)),
}
