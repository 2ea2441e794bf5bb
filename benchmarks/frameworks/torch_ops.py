"""Single operations in PyTorch eager, as people write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks import op_cases
from benchmarks.cases import Case
from benchmarks.op_cases import (
    BETA1,
    BETA2,
    DECAY,
    DROP,
    EPSILON,
    GROUPS,
    LEARNING_RATE,
    TOP,
)
from benchmarks.program import Steps

Function = Callable[..., Any]


FORWARD: dict[str, Function] = {
    "matmul": torch.matmul,
    "batched_matmul": torch.bmm,
    "grouped_matmul": lambda x, w, ends: F.grouped_mm(x, w, offs=ends.int()),
    "causal_attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "conv2d": lambda x, w: F.conv2d(x, w, padding=1),
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "average_pool": lambda x: F.avg_pool2d(x, 2),
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b),
    "group_norm": lambda x, w, b: F.group_norm(x, GROUPS, w, b),
    "softmax": lambda x: F.softmax(x, dim=-1),
    "cross_entropy": F.cross_entropy,
    "embedding": lambda table, indices: F.embedding(indices, table),
    "sum_rows": lambda x: x.sum(1),
    "sum_columns": lambda x: x.sum(0),
    "sum_all": lambda x: x.sum(),
    "max_rows": lambda x: x.amax(1),
    "max_columns": lambda x: x.amax(0),
    "transpose": lambda x: x.t().contiguous(),
    "transpose_heads": lambda x: x.transpose(0, 1).contiguous(),
    "concat": lambda x, y: torch.cat([x, y], 1),
    "split": lambda x: [part.contiguous() for part in x.chunk(2, 1)],
    "topk": lambda x: torch.topk(x, TOP, 1),
    "cumsum": lambda x: torch.cumsum(x, 1),
    "dropout": lambda x: F.dropout(x, DROP, training=True),
    "uniform": torch.rand_like,
    "normal": torch.randn_like,
}


def tensors_of(arrays: op_cases.Arrays) -> list[torch.Tensor]:
    tensors = [torch.from_numpy(array) for array in arrays]
    # Labels and indices are 64-bit in PyTorch.
    return [t.long() if t.dtype == torch.int32 else t for t in tensors]


def _forward(function: Function, tensors: list[torch.Tensor]) -> Steps:
    def run(steps: int) -> None:
        with torch.no_grad():
            for _ in range(steps):
                function(*tensors)

    return Steps(run)


def _with_gradients(function: Function, tensors: list[torch.Tensor]) -> Steps:
    inputs = [t for t in tensors if t.is_floating_point()]
    for t in inputs:
        t.requires_grad_()
    seed = torch.ones_like(function(*tensors))

    def run(steps: int) -> None:
        for _ in range(steps):
            torch.autograd.grad(function(*tensors), inputs, seed)

    return Steps(run)


def _adam(tensors: list[torch.Tensor]) -> Steps:
    weight = torch.nn.Parameter(tensors[0])
    weight.grad = tensors[1]
    optimizer = torch.optim.Adam([weight], LEARNING_RATE, (BETA1, BETA2), EPSILON)

    def run(steps: int) -> None:
        for _ in range(steps):
            optimizer.step()

    return Steps(run)


def _embedding_adam(tensors: list[torch.Tensor]) -> Steps:
    table, indices, gradient = tensors
    weight = torch.nn.Parameter(table)
    optimizer = torch.optim.SparseAdam([weight], LEARNING_RATE, (BETA1, BETA2), EPSILON)

    def run(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            F.embedding(indices, weight, sparse=True).backward(gradient)
            optimizer.step()

    return Steps(run)


def _lamb(tensors: list[torch.Tensor]) -> Steps:
    weight, gradient = tensors
    first, second = torch.zeros_like(weight), torch.zeros_like(weight)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        first.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
        second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        corrected = first / (1 - BETA1**count)
        root = (second / (1 - BETA2**count)).sqrt_().add_(EPSILON)
        x = corrected.div_(root).add_(weight, alpha=DECAY)
        weight_norm, x_norm = weight.norm(), x.norm()
        ratio = weight_norm / x_norm if weight_norm > 0 and x_norm > 0 else 1.0
        weight.sub_(x.mul_(ratio), alpha=LEARNING_RATE)

    def run(steps: int) -> None:
        with torch.no_grad():
            for _ in range(steps):
                step()

    return Steps(run)


def build(case: Case) -> Steps:
    tensors = tensors_of(op_cases.OPS[case.mode].arrays(case.size))
    if case.mode == "adam":
        return _adam(tensors)
    if case.mode == "lamb":
        return _lamb(tensors)
    if case.mode == "embedding_adam":
        return _embedding_adam(tensors)
    base, _, ending = case.mode.rpartition("_")
    if ending in ("gradient", "gradients"):
        return _with_gradients(FORWARD[base], tensors)
    return _forward(FORWARD[case.mode], tensors)
