"""Host data and initial weights that every framework starts from (NumPy, fixed seed)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.cases import Case
from benchmarks.models import families

Array = npt.NDArray[np.float32]

CLASSES = 10
MLP_SIZES = (784, 512, 512, 512, CLASSES)
CNN_CHANNELS = (1, 32, 64)
CNN_FEATURES = 64 * 7 * 7
ROW = 1024  # width of the rows of the pointwise and norm programs

LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-5
WEIGHT_DECAY, MOMENTUM = 0.01, 0.9
BATCHES = 32  # distinct host batches that a training run cycles through
MODEL_BATCHES = 8  # those of a model are larger


@dataclass(frozen=True)
class Sizes:
    """How large a transformer is."""

    hidden: int
    heads: int
    feed_forward: int
    sequence: int
    classes: int
    causal: bool
    # Whether layers normalise their sums, as BERT does, and not what they read.
    post_norm: bool = False
    # Of attention and of what a layer adds to its input, in training; torch only.
    dropout: float = 0.0


TRANSFORMER = Sizes(256, 8, 1024, 128, CLASSES, causal=False)
# Every byte and the mark between texts.
DECODER = Sizes(512, 8, 2048, 256, 257, causal=True)


def sizes(case: Case) -> Sizes:
    return DECODER if case.family == "decoder" else TRANSFORMER


@dataclass(frozen=True)
class Batch:
    # Tokens for the decoder.
    x: Array | npt.NDArray[np.int32]
    # Classes, or 0.0 and 1.0 where the loss is binary.
    labels: Array | npt.NDArray[np.int32]
    # What a model reads beside x.
    more: tuple[Array | npt.NDArray[np.int32], ...] = ()

    @property
    def inputs(self) -> tuple[Array | npt.NDArray[np.int32], ...]:
        return (self.x, *self.more)


def input_shape(case: Case) -> tuple[int, ...]:
    """Shape of the images or activations that one step is fed with."""
    if case.family == "mlp":
        return (case.batch, 28, 28)
    if case.family == "cnn":
        return (case.batch, 1, 28, 28)
    if case.family == "decoder":
        return (case.batch, DECODER.sequence)
    return (case.batch, TRANSFORMER.sequence, TRANSFORMER.hidden)


def label_shape(case: Case) -> tuple[int, ...]:
    """One label per image, or per token of the transformer."""
    if case.family in ("transformer", "decoder"):
        return (case.batch * sizes(case).sequence,)
    return (case.batch,)


def loss_kind(case: Case) -> str:
    """``cross_entropy`` of classes or ``binary`` of logits; both are means."""
    return families.model(case).loss if case.variant else "cross_entropy"


def example(case: Case) -> Batch:
    """Arrays of the shapes and dtypes of a batch; their values mean nothing."""
    if case.variant:
        return families.model(case).batch(np.random.default_rng(7), case.batch)
    dtype = np.int32 if case.family == "decoder" else np.float32
    return Batch(np.empty(input_shape(case), dtype), np.empty(label_shape(case), np.int32))


def batches(case: Case) -> list[Batch]:
    rng = np.random.default_rng(7)
    if case.variant:
        model = families.model(case)
        return [model.batch(rng, case.batch) for _ in range(MODEL_BATCHES)]
    classes = sizes(case).classes

    def inputs() -> Array | npt.NDArray[np.int32]:
        if case.family == "decoder":
            return rng.integers(0, classes, input_shape(case), dtype=np.int32)
        return rng.standard_normal(input_shape(case), dtype=np.float32)

    return [
        Batch(inputs(), rng.integers(0, classes, label_shape(case), dtype=np.int32))
        for _ in range(BATCHES)
    ]


def _dense(rng: np.random.Generator, name: str, rows: int, columns: int) -> dict[str, Array]:
    weight = rng.normal(0, 0.02, (rows, columns)).astype(np.float32)
    return {f"{name}.weight": weight, f"{name}.bias": np.zeros(columns, np.float32)}


def _layer_norm(name: str, hidden: int) -> dict[str, Array]:
    return {
        f"{name}.weight": np.ones(hidden, np.float32),
        f"{name}.bias": np.zeros(hidden, np.float32),
    }


def transformer_layer(rng: np.random.Generator, name: str, of: Sizes) -> dict[str, Array]:
    """Pre-norm layer: attention with one joint query/key/value product, then two dense."""
    return {
        **_layer_norm(f"{name}.norm1", of.hidden),
        **_dense(rng, f"{name}.qkv", of.hidden, 3 * of.hidden),
        **_dense(rng, f"{name}.proj", of.hidden, of.hidden),
        **_layer_norm(f"{name}.norm2", of.hidden),
        **_dense(rng, f"{name}.ff1", of.hidden, of.feed_forward),
        **_dense(rng, f"{name}.ff2", of.feed_forward, of.hidden),
    }


def _embedding(rng: np.random.Generator, of: Sizes) -> dict[str, Array]:
    shapes = {"tokens": (of.classes, of.hidden), "positions": (of.sequence, of.hidden)}
    return {name: rng.normal(0, 0.02, shape).astype(np.float32) for name, shape in shapes.items()}


def weights(case: Case) -> dict[str, Array]:
    """Name to initial value; dense weights are (in, out), convolutions (out, in, kh, kw)."""
    if case.variant:
        return families.model(case).weights()
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
        of = sizes(case)
        if case.family == "decoder":
            result |= _embedding(rng, of)
        for i in range(case.layers):
            result |= transformer_layer(rng, f"layer{i}", of)
        if case.family == "decoder":
            result |= _layer_norm("norm", of.hidden)
        result |= _dense(rng, "head", of.hidden, of.classes)
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
