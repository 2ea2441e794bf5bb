"""GPT-2 writes on: every step reads the token that the step before chose, with caches of keys and
values. In all frameworks the scores of the next token come to the host, which takes the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.cases import Case
from benchmarks.data import Batch, batches
from benchmarks.models import gpt2, values
from benchmarks.models.families import model
from benchmarks.program import Steps

# Tokens (batch, 1) and their position to scores (batch, vocabulary).
Decode = Callable[[npt.NDArray[np.int32], int], npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Generation:
    of: gpt2.Gpt2
    loss = "cross_entropy"

    def weights(self) -> dict[str, values.Array]:
        return self.of.weights()

    def batch(self, rng: np.random.Generator, size: int) -> Batch:
        """The first token of each text (size, 1); there are no labels."""
        tokens = rng.integers(0, self.of.decoder.classes, (size, 1), dtype=np.int32)
        return Batch(tokens, np.empty(0, np.int32))

    def cache_shape(self, batch: int) -> tuple[int, int, int, int]:
        """(batch, heads, positions, depth), of keys as of values of one layer."""
        of = self.of.decoder
        return (batch, of.heads, of.sequence, of.hidden // of.heads)


def steps(case: Case, decode: Decode, **options: Any) -> Steps:
    """Steps of one token; texts that are as long as the caches begin anew."""
    first, position = batches(case)[0].x, 0
    tokens = first

    def run(count: int) -> npt.NDArray[np.float32]:
        nonlocal tokens, position
        for _ in range(count):
            if position == model(case).of.decoder.sequence:
                tokens, position = first, 0
            scores = decode(tokens, position)
            tokens = scores.argmax(-1, keepdims=True).astype(np.int32)
            position += 1
        return scores

    return Steps(run, **options)


SIZES = {name: Generation(of) for name, of in gpt2.SIZES.items()}
