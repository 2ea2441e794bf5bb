"""Graph convolutions: every node sums what its neighbours send along the edges."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.data import Batch
from benchmarks.models import values


@dataclass(frozen=True)
class GraphNet:
    """``widths``: features of a node, then what each layer makes of them; last the classes."""

    nodes: int
    edges: int
    widths: tuple[int, ...]
    loss: ClassVar[str] = "cross_entropy"

    @property
    def layers(self) -> list[str]:
        return [f"conv{i}" for i in range(len(self.widths) - 1)]

    def weights(self) -> dict[str, values.Array]:
        result: dict[str, values.Array] = {}
        for name, (inputs, outputs) in zip(
            self.layers, itertools.pairwise(self.widths), strict=True
        ):
            result |= values.dense(name, inputs, outputs, inputs**-0.5)
        return result

    def batch(self, rng: np.random.Generator, size: int) -> Batch:
        """``size`` graphs as one: features (nodes, features); source, target and factor of every
        edge, 1 over the root of both degrees."""
        nodes, edges = size * self.nodes, size * self.edges
        graph = np.repeat(np.arange(size), self.edges) * self.nodes
        sources, targets = (rng.integers(0, self.nodes, edges) + graph for _ in range(2))
        degrees = np.bincount(sources, minlength=nodes), np.bincount(targets, minlength=nodes)
        factors = (degrees[0][sources] * degrees[1][targets]) ** -0.5
        features = rng.standard_normal((nodes, self.widths[0]), dtype=np.float32)
        labels = rng.integers(0, self.widths[-1], nodes, dtype=np.int32)
        ends = (sources.astype(np.int32), targets.astype(np.int32))
        return Batch(features, labels, (*ends, factors.astype(np.float32)))


SIZES = {
    "tiny": GraphNet(20, 60, (12, 8, 5)),
    "50k": GraphNet(10_000, 50_000, (128, 128, 40)),
}
