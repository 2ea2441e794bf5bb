"""BERT with its masked language loss: post-norm layers, segment embeddings, a tied decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.data import Batch, Sizes
from benchmarks.models import values


@dataclass(frozen=True)
class Bert:
    layers: int
    encoder: Sizes
    masked: int  # tokens of a sequence that are predicted
    segments: int = 2
    loss: ClassVar[str] = "cross_entropy"

    def weights(self) -> dict[str, values.Array]:
        of = self.encoder
        tables = {"tokens": of.classes, "positions": of.sequence, "segments": self.segments}
        result = {name: values.normal(name, (n, of.hidden), 0.02) for name, n in tables.items()}
        result |= values.layer_norm("norm", of.hidden)
        for i in range(self.layers):
            result |= values.transformer_layer(f"layer{i}", of.hidden, of.feed_forward)
        result |= values.dense("transform", of.hidden, of.hidden)
        result |= values.layer_norm("head_norm", of.hidden)
        return result | {"head_bias": np.zeros(of.classes, np.float32)}

    def batch(self, rng: np.random.Generator, size: int) -> Batch:
        """Tokens and segments (size, sequence); rows of (size * sequence) that are predicted, and
        their tokens."""
        of = self.encoder
        tokens = rng.integers(0, of.classes, (size, of.sequence), dtype=np.int32)
        segments = np.zeros_like(tokens)
        segments[:, of.sequence // 2 :] = 1
        chosen = [np.sort(rng.permutation(of.sequence)[: self.masked]) for _ in range(size)]
        rows = np.concatenate([i * of.sequence + at for i, at in enumerate(chosen)])
        labels = rng.integers(0, of.classes, size * self.masked, dtype=np.int32)
        return Batch(tokens, labels, (segments, rows.astype(np.int32)))


def _bert(
    layers: int,
    sizes: tuple[int, int, int],
    vocabulary: int,
    masked: int,
    dropout: float = 0.0,
) -> Bert:
    hidden, heads, sequence = sizes
    encoder = Sizes(
        hidden,
        heads,
        feed_forward=4 * hidden,
        sequence=sequence,
        classes=vocabulary,
        causal=False,
        post_norm=True,
        dropout=dropout,
    )
    return Bert(layers, encoder, masked)


SIZES = {
    "tiny": _bert(2, (32, 4, 16), 97, 3),
    "small": _bert(4, (512, 8, 128), 30_522, 20),
    "small_dropout": _bert(4, (512, 8, 128), 30_522, 20, dropout=0.1),
    "base": _bert(12, (768, 12, 128), 30_522, 20),
}
