"""GPT-2: pre-norm layers with causal attention, a head tied to the embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.data import Batch, Sizes
from benchmarks.models import values


@dataclass(frozen=True)
class Gpt2:
    layers: int
    decoder: Sizes
    loss: ClassVar[str] = "cross_entropy"

    def weights(self) -> dict[str, values.Array]:
        of = self.decoder
        tables = {"tokens": of.classes, "positions": of.sequence}
        result = {name: values.normal(name, (n, of.hidden), 0.02) for name, n in tables.items()}
        for i in range(self.layers):
            result |= values.transformer_layer(f"layer{i}", of.hidden, of.feed_forward)
        return result | values.layer_norm("norm", of.hidden)

    def batch(self, rng: np.random.Generator, size: int) -> Batch:
        """Tokens (size, sequence), and the next of each."""
        of = self.decoder
        text = rng.integers(0, of.classes, (size, of.sequence + 1), dtype=np.int32)
        return Batch(text[:, :-1].copy(), text[:, 1:].ravel())


def _gpt2(layers: int, hidden: int, heads: int, sequence: int, vocabulary: int) -> Gpt2:
    return Gpt2(layers, Sizes(hidden, heads, 4 * hidden, sequence, vocabulary, causal=True))


SIZES = {
    "tiny": _gpt2(2, 32, 4, 16, 97),
    "small": _gpt2(12, 768, 12, 256, 50_257),
}
