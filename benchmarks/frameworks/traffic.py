"""Bytes that a program moves outside library kernels, and the working set it moves them in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks import data
from benchmarks.cases import Case

F32, F16 = 4, 2


@dataclass(frozen=True)
class Traffic:
    """``moved``: bytes read plus bytes written in one step; ``working_set``: bytes touched."""

    moved: int
    working_set: int


def moment_bytes(optimizer: str) -> int:
    """What one parameter takes: the first moment of the tutorial's Adam is float16."""
    return {"adam": F32 + F32, "tutorial_adam": F16 + F32, "sgd": 0}[optimizer]


def optimizer_traffic(case: Case) -> Traffic:
    """One pass over the parameters; the gradient was written by its product, and is read here.

    The weight and the moments are read and written back.
    """
    count, state = data.parameter_count(case), F32 + moment_bytes(case.optimizer)
    return Traffic(count * (2 * state + F32), count * (state + F32))


def _mlp_activations(case: Case) -> int:
    hidden = case.batch * sum(data.MLP_SIZES[1:-1])
    forward = 2 * hidden  # gelu reads a product and writes its value
    backward = 3 * hidden if case.training else 0  # reads value and gradient, writes gradient
    return F32 * (forward + backward)


def _cnn_activations(case: Case) -> int:
    """Forward relu rides on the convolution; backward undoes pool and relu in one pass."""
    if not case.training:
        return 0
    planes = case.batch * (32 * 28 * 28 + 64 * 14 * 14)
    return F32 * (2 * planes + planes // 2)


def _transformer_activations(case: Case) -> int:
    """Residual sums and gelu, forward and backward; softmax and norm backward as passes."""
    of = data.sizes(case)
    tokens = case.batch * of.sequence
    hidden, inner = tokens * of.hidden, tokens * of.feed_forward
    scores = case.batch * of.heads * of.sequence**2
    residual = 2 * 3 * hidden
    gelu = 2 * inner + 3 * inner
    backward = 3 * scores + 2 * 3 * hidden + 2 * 3 * hidden
    return F32 * case.layers * (residual + gelu + backward)


def fed_bytes(case: Case) -> int:
    """The batch that one step is fed with."""
    return F32 * math.prod(data.input_shape(case))


def least_traffic(case: Case) -> Traffic:
    """What any program must move: its inputs read and its results written once.

    Training reads and writes weights and moments; gradients and activations need no memory.
    Inference reads the weights. The chains and norms read one array and write another.
    """
    if case.megabytes:
        nbytes = 2 * case.megabytes * 2**20
        return Traffic(nbytes, nbytes)
    count = data.parameter_count(case)
    if case.training:
        state = count * (F32 + moment_bytes(case.optimizer))
        return Traffic(2 * state + fed_bytes(case), state)
    return Traffic(F32 * count + fed_bytes(case), F32 * count)


def step_traffic(case: Case) -> Traffic:
    """Optimizer pass, activations and the copy of the fed batch."""
    activations = {
        "mlp": _mlp_activations,
        "cnn": _cnn_activations,
        "transformer": _transformer_activations,
        "decoder": _transformer_activations,
    }[case.family](case)
    moved = activations + 2 * fed_bytes(case)
    if not case.training:
        weights = F32 * data.parameter_count(case)
        return Traffic(moved, max(moved, weights))
    optimizer = optimizer_traffic(case)
    return Traffic(moved + optimizer.moved, activations + optimizer.working_set)
