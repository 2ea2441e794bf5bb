"""Host data and initial weights that every framework starts from (NumPy, fixed seed)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.cases import Case

Array = npt.NDArray[np.float32]

CLASSES = 10
MLP_SIZES = (784, 512, 512, 512, CLASSES)
CNN_CHANNELS = (1, 32, 64)
CNN_FEATURES = 64 * 7 * 7
HIDDEN, HEADS, FEED_FORWARD, SEQUENCE = 256, 8, 1024, 128
ROW = 1024  # width of the rows of the pointwise and norm programs

LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-5
BATCHES = 32  # distinct host batches that a training run cycles through


@dataclass(frozen=True)
class Batch:
    x: Array
    labels: npt.NDArray[np.int32]


def input_shape(case: Case) -> tuple[int, ...]:
    """Shape of the images or activations that one step is fed with."""
    if case.family == "mlp":
        return (case.batch, 28, 28)
    if case.family == "cnn":
        return (case.batch, 1, 28, 28)
    return (case.batch, SEQUENCE, HIDDEN)


def label_shape(case: Case) -> tuple[int, ...]:
    """One label per image, or per token of the transformer."""
    return (case.batch * SEQUENCE,) if case.family == "transformer" else (case.batch,)


def batches(case: Case) -> list[Batch]:
    rng = np.random.default_rng(7)
    return [
        Batch(
            rng.standard_normal(input_shape(case), dtype=np.float32),
            rng.integers(0, CLASSES, label_shape(case), dtype=np.int32),
        )
        for _ in range(BATCHES)
    ]


def _dense(rng: np.random.Generator, name: str, rows: int, columns: int) -> dict[str, Array]:
    weight = rng.normal(0, 0.02, (rows, columns)).astype(np.float32)
    return {f"{name}.weight": weight, f"{name}.bias": np.zeros(columns, np.float32)}


def _layer_norm(name: str) -> dict[str, Array]:
    return {
        f"{name}.weight": np.ones(HIDDEN, np.float32),
        f"{name}.bias": np.zeros(HIDDEN, np.float32),
    }


def transformer_layer(rng: np.random.Generator, name: str) -> dict[str, Array]:
    """Pre-norm encoder layer: attention with one joint query/key/value product, then two dense."""
    return {
        **_layer_norm(f"{name}.norm1"),
        **_dense(rng, f"{name}.qkv", HIDDEN, 3 * HIDDEN),
        **_dense(rng, f"{name}.proj", HIDDEN, HIDDEN),
        **_layer_norm(f"{name}.norm2"),
        **_dense(rng, f"{name}.ff1", HIDDEN, FEED_FORWARD),
        **_dense(rng, f"{name}.ff2", FEED_FORWARD, HIDDEN),
    }


def weights(case: Case) -> dict[str, Array]:
    """Name to initial value; dense weights are (in, out), convolutions (out, in, kh, kw)."""
    rng = np.random.default_rng(42)
    result: dict[str, Array] = {}
    if case.family == "mlp":
        for i, (rows, columns) in enumerate(itertools.pairwise(MLP_SIZES)):
            result |= _dense(rng, f"fc{i + 1}", rows, columns)
    elif case.family == "cnn":
        for i, (cin, cout) in enumerate(itertools.pairwise(CNN_CHANNELS)):
            kernel = rng.normal(0, 0.1, (cout, cin, 3, 3)).astype(np.float32)
            result |= {
                f"conv{i + 1}.weight": kernel,
                f"conv{i + 1}.bias": np.zeros(cout, np.float32),
            }
        result |= _dense(rng, "fc", CNN_FEATURES, CLASSES)
    else:
        for i in range(case.layers):
            result |= transformer_layer(rng, f"layer{i}")
        result |= _dense(rng, "head", HIDDEN, CLASSES)
    return result


def parameter_count(case: Case) -> int:
    return sum(value.size for value in weights(case).values())


def plane(case: Case) -> Array:
    """The (rows, 1024) float32 array that the pointwise and norm programs read."""
    rows = case.megabytes * 2**20 // (4 * ROW)
    return np.random.default_rng(3).standard_normal((rows, ROW), dtype=np.float32)


@dataclass(frozen=True)
class RowVectors:
    """Three vectors along the row: scale, shift and gain of the chains; weight and bias of norm."""

    a: Array
    b: Array
    c: Array


def row_vectors() -> RowVectors:
    rng = np.random.default_rng(5)
    a, b, c = (rng.uniform(0.5, 1.5, ROW).astype(np.float32) for _ in range(3))
    return RowVectors(a, b, c)
