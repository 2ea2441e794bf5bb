"""Single operations: their inputs by size. Knows no framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import Case

Arrays = list[NDArray[np.generic]]

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
CHANNELS = 32
HEAD = 64
HEADS = 12
EMBEDDING = 64
# 512 and 2,048 tokens.
ATTENTION_SIZES = (512 * HEADS * HEAD, 2048 * HEADS * HEAD)
VOCABULARY = 10_000
# A layer of experts, of which each multiplies its group of rows.
EXPERTS, EXPERT_INPUTS, EXPERT_OUTPUTS = 8, 256, 512
GROUPED_SIZES = (64 * EXPERT_INPUTS, 1024 * EXPERT_INPUTS, 4096 * EXPERT_INPUTS)
TABLE_ROWS = 1_000_000
TOP = 10
DROP = 0.1
GROUPS = 8
LEARNING_RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01


def plane(size: int) -> tuple[int, int]:
    """Rows and columns of a matrix of `size` elements; at most 1,000 columns."""
    columns = min(1000, 10 ** (len(str(size)) // 2))
    return size // columns, columns


def _image(size: int) -> tuple[int, int, int, int]:
    side = 8 if size < 100_000 else 28
    batch = max(1, size // (CHANNELS * side * side))
    return batch, CHANNELS, side, side


def _values(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _matrix(size: int) -> Arrays:
    return [_values(*plane(size))]


def _product(size: int) -> Arrays:
    side = round(size**0.5)
    return [_values(side, side), _values(side, side, seed=1)]


def _batched_product(size: int) -> Arrays:
    batch = max(1, size // (HEAD * HEAD))
    return [_values(batch, HEAD, HEAD), _values(batch, HEAD, HEAD, seed=1)]


def _grouped_product(size: int) -> Arrays:
    """Rows sorted by expert, the experts' weights, and the end of each group."""
    rows = size // EXPERT_INPUTS
    chosen = np.random.default_rng(1).integers(0, EXPERTS, rows)
    ends = np.cumsum(np.bincount(chosen, minlength=EXPERTS)).astype(np.int32)
    weights = _values(EXPERTS, EXPERT_INPUTS, EXPERT_OUTPUTS, seed=1)
    return [_values(rows, EXPERT_INPUTS), weights, ends]


def _attention(size: int) -> Arrays:
    shape = (1, HEADS, size // (HEADS * HEAD), HEAD)
    return [_values(*shape, seed=seed) for seed in range(3)]


def _convolution(size: int) -> Arrays:
    return [_values(*_image(size)), _values(CHANNELS, CHANNELS, 3, 3, seed=1)]


def _normalised(size: int) -> Arrays:
    columns = plane(size)[1]
    return [*_matrix(size), _values(columns, seed=1), _values(columns, seed=2)]


def _images(size: int) -> Arrays:
    return [_values(*_image(size))]


def _groups(size: int) -> Arrays:
    return [*_images(size), _values(CHANNELS, seed=1), _values(CHANNELS, seed=2)]


def _classes(size: int) -> Arrays:
    rows, columns = plane(size)
    labels = np.random.default_rng(1).integers(0, columns, rows, dtype=np.int32)
    return [*_matrix(size), labels]


def _embedding(size: int) -> Arrays:
    rows = max(1, size // EMBEDDING)
    indices = np.random.default_rng(1).integers(0, VOCABULARY, rows, dtype=np.int32)
    return [_values(VOCABULARY, EMBEDDING), indices]


def _table(size: int) -> Arrays:
    """A table of many rows, the indices of those that are looked up, and their gradients."""
    rows = max(1, size // EMBEDDING)
    indices = np.random.default_rng(1).integers(0, TABLE_ROWS, rows, dtype=np.int32)
    return [_values(TABLE_ROWS, EMBEDDING), indices, _values(rows, EMBEDDING, seed=2)]


def _heads(size: int) -> Arrays:
    rows = max(1, size // (4 * HEAD))
    return [_values(rows, 4, HEAD)]


def _two_matrices(size: int) -> Arrays:
    return [_values(*plane(size)), _values(*plane(size), seed=1)]


def _optimizer(size: int) -> Arrays:
    return [_values(size), _values(size, seed=1)]


@dataclass(frozen=True)
class OpInputs:
    """`arrays(size)` are the inputs of an op whose (main) input has about `size` elements."""

    arrays: Callable[[int], Arrays]
    sizes: tuple[int, ...] = SIZES


OPS: dict[str, OpInputs] = {
    "matmul": OpInputs(_product, SIZES[:4]),
    "batched_matmul": OpInputs(_batched_product, SIZES[1:4]),
    "grouped_matmul": OpInputs(_grouped_product, GROUPED_SIZES),
    "grouped_matmul_gradients": OpInputs(_grouped_product, GROUPED_SIZES),
    "causal_attention": OpInputs(_attention, ATTENTION_SIZES),
    "causal_attention_gradients": OpInputs(_attention, ATTENTION_SIZES),
    "conv2d": OpInputs(_convolution, SIZES[1:4]),
    "conv2d_gradients": OpInputs(_convolution, SIZES[1:4]),
    "max_pool": OpInputs(_images, SIZES[1:]),
    "max_pool_gradient": OpInputs(_images, SIZES[1:]),
    "average_pool": OpInputs(_images, SIZES[1:]),
    "average_pool_gradient": OpInputs(_images, SIZES[1:]),
    "layer_norm": OpInputs(_normalised),
    "layer_norm_gradients": OpInputs(_normalised),
    "group_norm": OpInputs(_groups, SIZES[1:]),
    "group_norm_gradients": OpInputs(_groups, SIZES[1:]),
    "softmax": OpInputs(_matrix),
    "softmax_gradient": OpInputs(_matrix),
    "cross_entropy": OpInputs(_classes),
    "cross_entropy_gradient": OpInputs(_classes),
    "embedding": OpInputs(_embedding),
    "embedding_gradient": OpInputs(_embedding),
    "sum_rows": OpInputs(_matrix),
    "sum_columns": OpInputs(_matrix),
    "sum_all": OpInputs(_matrix),
    "max_rows": OpInputs(_matrix),
    "max_columns": OpInputs(_matrix),
    "transpose": OpInputs(_matrix),
    "transpose_heads": OpInputs(_heads),
    "concat": OpInputs(_two_matrices),
    "split": OpInputs(_matrix),
    "topk": OpInputs(_matrix),
    "cumsum": OpInputs(_matrix),
    "dropout": OpInputs(_matrix),
    "uniform": OpInputs(_matrix),
    "normal": OpInputs(_matrix),
    "adam": OpInputs(_optimizer),
    "lamb": OpInputs(_optimizer),
    "embedding_adam": OpInputs(_table, (4_096 * EMBEDDING,)),
}


def op_cases() -> list[Case]:
    """Every operation at every size: `op/NAME/SIZE`."""
    return [
        Case(f"op/{name}/{size}", "op", "us", name, size=size)
        for name, inputs in OPS.items()
        for size in inputs.sizes
    ]
