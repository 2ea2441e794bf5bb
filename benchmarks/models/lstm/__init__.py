"""LSTM: layers over a sequence, and classes of it from the last state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.data import Batch
from benchmarks.models import values


@dataclass(frozen=True)
class Lstm:
    """``features`` of every step are read; weights are in the layout of ``torch.nn.LSTM``."""

    layers: int
    features: int
    hidden: int
    steps: int
    classes: int
    loss: ClassVar[str] = "cross_entropy"

    def weights(self) -> dict[str, values.Array]:
        scale = self.hidden**-0.5
        result: dict[str, values.Array] = {}
        for i in range(self.layers):
            read = self.features if i == 0 else self.hidden
            for name, columns in (("ih", read), ("hh", self.hidden)):
                weight, bias = f"lstm.weight_{name}_l{i}", f"lstm.bias_{name}_l{i}"
                result[weight] = values.normal(weight, (4 * self.hidden, columns), scale)
                result[bias] = values.normal(bias, (4 * self.hidden,), scale)
        return result | values.dense("head", self.hidden, self.classes, scale)

    def batch(self, rng: np.random.Generator, size: int) -> Batch:
        """Features (steps, size, features), and a class for each sequence."""
        x = rng.standard_normal((self.steps, size, self.features), dtype=np.float32)
        return Batch(x, rng.integers(0, self.classes, size, dtype=np.int32))


SIZES = {
    "tiny": Lstm(2, 6, 8, 5, 4),
    "2x512": Lstm(2, 128, 512, 64, 10),
}
