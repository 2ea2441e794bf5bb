"""Bytes that a program moves outside library kernels, and the working set it moves them in."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import data
from benchmarks.cases import Case

F32, F16 = 4, 2


@dataclass(frozen=True)
class Traffic:
    """``moved``: bytes read plus bytes written in one step; ``working_set``: bytes touched."""

    moved: int
    working_set: int


def optimizer_traffic(case: Case) -> Traffic:
    """One pass over the parameters; the gradient was written by its product, and is read here.

    Adam: weight, gradient and second moment float32, first moment float16; all but the gradient
    are written back. SGD: reads weight and gradient, writes the weight.
    """
    count = data.parameter_count(case)
    if case.optimizer == "adam":
        state = F32 + F16 + F32
        return Traffic(count * (2 * state + F32), count * (state + F32))
    return Traffic(count * 3 * F32, count * 2 * F32)


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


def step_traffic(case: Case) -> Traffic:
    """Optimizer pass, activations and the copy of the fed batch."""
    activations = {
        "mlp": _mlp_activations,
        "cnn": _cnn_activations,
        "transformer": _transformer_activations,
        "decoder": _transformer_activations,
    }[case.family](case)
    fed = 1
    for extent in data.input_shape(case):
        fed *= extent
    moved = activations + 2 * F32 * fed
    if not case.training:
        weights = F32 * data.parameter_count(case)
        return Traffic(moved, max(moved, weights))
    optimizer = optimizer_traffic(case)
    return Traffic(moved + optimizer.moved, activations + optimizer.working_set)
