"""Masked attention against NumPy: the same numbers, with less computed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import popxl
from popxl import ops
from popxl.transforms import autodiff

HIDDEN = -1e9
Array = Any


def causal(rows: int) -> Array:
    return np.tril(np.ones((rows, rows), bool))


def window(rows: int, back: int) -> Array:
    return causal(rows) & ~np.tril(np.ones((rows, rows), bool), -back)


def scattered(rows: int) -> Array:
    kept = causal(rows)
    kept[rows // 2, : rows // 4] = False
    return kept


@dataclass
class Attention:
    """softmax(q k^T * scale, hidden where not `kept`) v of three heads, and its gradients."""

    kept: Array
    scale: float = 0.25
    q: Array = field(init=False)
    k: Array = field(init=False)
    v: Array = field(init=False)
    g: Array = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(3)
        shape = (2, 3, self.kept.shape[0], 24)
        self.q, self.k, self.v, self.g = (
            rng.standard_normal(shape).astype(np.float32) for _ in range(4)
        )

    def weights(self, q: Array) -> Array:
        scores = np.where(self.kept, q @ np.float64(self.k).swapaxes(-1, -2) * self.scale, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def results(self, layers: int) -> tuple[Array, Array, Array, Array]:
        """What the last layer gives, and the gradients of q, k and v of the first."""
        k, v, g = (np.float64(x) for x in (self.k, self.v, self.g))
        given = [np.float64(self.q)]
        for _ in range(layers):
            given.append(self.weights(given[-1]) @ v)
        for q in reversed(given[:-1]):
            p, dp = self.weights(q), g @ v.swapaxes(-1, -2)
            ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * self.scale
            dk, dv, g = ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g, ds @ k
        return given[-1], g, dk, dv


def layer(case: Attention, mask: str) -> Any:
    def build(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
        scores = (q @ k.transpose((0, 1, 3, 2))) * case.scale
        if mask == "add":
            added = np.where(case.kept, 0, HIDDEN).astype(np.float32)
            scores = scores + popxl.constant(added)
        else:
            scores = ops.where(popxl.constant(case.kept), scores, popxl.constant(-np.inf))
        return ops.softmax(scores, axis=-1) @ v

    return build


@dataclass
class Training:
    built: popxl.Ir
    outputs: list[popxl.DeviceToHostStream]


def training(case: Attention, mask: str, *, layers: int = 1) -> Training:
    """Forward and backward as graphs of their own, called once for every layer, which is given what
    the one before computes as q."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        q, k, v, g = (popxl.variable(x) for x in (case.q, case.k, case.v, case.g))
        forward = ir.create_graph(layer(case, mask), q, k, v)
        backward = autodiff(forward)
        given, calls = q, []
        for _ in range(layers):
            calls.append(ops.call_with_info(forward, given, k, v))
            given = calls[-1].outputs[0]
        grads: list[popxl.Tensor] = []
        for call in reversed(calls):
            grads = list(ops.call(backward.graph, g, inputs_dict=backward.inputs_dict(call)))
            g = grads[0]
        outputs = []
        for tensor in (given, *grads):
            stream = popxl.d2h_stream(tensor.shape, tensor.dtype)
            ops.host_store(stream, tensor)
            outputs.append(stream)
    return Training(ir, outputs)


def run(program: Training) -> tuple[list[Array], str]:
    """The results, and the kernels that made them."""
    with popxl.Session(program.built, "cpu") as session:
        results = session.run()
        return [results[stream] for stream in program.outputs], session._core.explain()


def products(kernels: str) -> tuple[int, int]:
    """How many kernels of products skip blocks, and how many do not."""
    kinds = re.findall(r"^(?:MatMul|Fused): MatMul: (\w+)", kernels, re.MULTILINE)
    return kinds.count("banded"), len(kinds) - kinds.count("banded")


def check(case: Attention, program: Training, layers: int = 1) -> str:
    given, kernels = run(program)
    for ours, wanted in zip(given, case.results(layers), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=2e-4, atol=2e-5)
    return kernels


@pytest.mark.parametrize("mask", ["add", "where"])
@pytest.mark.parametrize("scale", [1.0, 0.25])
@pytest.mark.parametrize("rows", [5, 150, 257])
@pytest.mark.parametrize("kind", ["causal", "window"])
def test_results_are_those_of_numpy(kind: str, rows: int, scale: float, mask: str) -> None:
    case = Attention(causal(rows) if kind == "causal" else window(rows, 40), scale)
    kernels = check(case, training(case, mask))
    # Two products forward, four backward, of which those for keys and values share a kernel.
    assert products(kernels) == ((5, 0) if rows > 128 else (0, 5))


def test_graphs_learn_it_from_all_their_calls() -> None:
    case = Attention(causal(200))
    several, rest = products(check(case, training(case, "add", layers=3), layers=3))
    assert several >= 6
    assert rest == 0


def test_a_mask_that_is_no_band_hides_without_blocks() -> None:
    case = Attention(scattered(200))
    assert products(check(case, training(case, "add"))) == (0, 5)


def test_a_weak_mask_is_added() -> None:
    """Scores could outweigh it."""
    case = Attention(causal(200))
    ir = popxl.Ir()
    with ir.main_graph:
        scores = popxl.variable(np.where(case.kept, 0, 2e4).astype(np.float32))
        mask = popxl.constant(np.where(case.kept, 0, -1e4).astype(np.float32))
        weights = ops.softmax(scores + mask, axis=-1)
        stream = popxl.d2h_stream(weights.shape, weights.dtype)
        ops.host_store(stream, weights)
    weights_of_last = run(Training(ir, [stream]))[0][0][-2]
    assert weights_of_last[-1] == 1
    assert weights_of_last[:-1].max() == 0


@pytest.mark.parametrize("pad", [-np.inf, HIDDEN])
@pytest.mark.parametrize("rows", [8, 200])
def test_rows_of_which_padding_leaves_nothing_stay_finite(rows: int, pad: float) -> None:
    """Texts padded at the left: hidden scores win there, as the sum of the masks has it."""
    case = Attention(causal(rows))
    padding = np.zeros((2, 1, 1, rows), np.float32)
    padding[1, ..., : rows // 3] = pad
    ir = popxl.Ir()
    with ir.main_graph:
        q, k, v = (popxl.variable(x) for x in (case.q, case.k, case.v))
        given_padding = popxl.h2d_stream(padding.shape, popxl.float32)
        scores = (q @ k.transpose((0, 1, 3, 2))) * case.scale + ops.host_load(given_padding)
        mask = popxl.constant(np.where(case.kept, 0, HIDDEN).astype(np.float32))
        result = ops.softmax(scores + mask, axis=-1) @ v
        stream = popxl.d2h_stream(result.shape, result.dtype)
        ops.host_store(stream, result)
    with popxl.Session(ir, "cpu") as session:
        given = session.run({given_padding: padding})[stream]
    hidden = np.where(case.kept, np.float32(0), np.float32(HIDDEN))
    scores_wanted = (case.q @ case.k.swapaxes(-1, -2)) * np.float32(case.scale) + padding + hidden
    powers = np.exp(np.float64(scores_wanted - scores_wanted.max(-1, keepdims=True)))
    wanted = powers / powers.sum(-1, keepdims=True) @ case.v
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(given[0], wanted[0], rtol=2e-4, atol=2e-5)
    # Beside -1e9, only what rounding left of the scores of padded rows counts.
    np.testing.assert_allclose(
        given[1, :, rows // 3 :], wanted[1, :, rows // 3 :], rtol=2e-4, atol=2e-5
    )
    assert np.isfinite(given).all()


def test_weights_that_the_program_changes_are_used_as_they_are() -> None:
    """Filled in place after the softmax, they are no band any more."""
    case = Attention(causal(200))
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        scores = popxl.variable(case.q[0, 0]) @ popxl.variable(case.k[0, 0].T)
        values = popxl.variable(case.v[0, 0])
        mask = popxl.constant(np.where(case.kept, 0, HIDDEN).astype(np.float32))
        weights = ops.softmax(scores + mask, axis=-1)
        ops.add_(weights, popxl.constant(np.ones((200, 200), np.float32)))
        result = weights @ values
        stream = popxl.d2h_stream(result.shape, result.dtype)
        ops.host_store(stream, result)
    (given,), kernels = run(Training(ir, [stream]))
    assert products(kernels) == (1, 1)
    weights_wanted = Attention(case.kept, 1.0).weights(np.float64(case.q))[0, 0] + 1
    np.testing.assert_allclose(given, weights_wanted @ case.v[0, 0], rtol=2e-4, atol=2e-5)


def test_hidden_weights_are_zero_for_whoever_reads_them() -> None:
    case = Attention(causal(200))
    ir = popxl.Ir()
    with ir.main_graph:
        q, k, v = (popxl.variable(x) for x in (case.q, case.k, case.v))
        scores = (q @ k.transpose((0, 1, 3, 2))) * case.scale
        mask = popxl.constant(np.where(case.kept, 0, HIDDEN).astype(np.float32))
        weights = ops.softmax(scores + mask, axis=-1)
        outputs = []
        for tensor in (weights, weights @ v, ops.sum(weights, axis=2)):
            outputs.append(popxl.d2h_stream(tensor.shape, tensor.dtype))
            ops.host_store(outputs[-1], tensor)
    (given, product, sums), kernels = run(Training(ir, outputs))
    wanted = case.weights(np.float64(case.q))
    np.testing.assert_allclose(given, wanted, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(product, wanted @ case.v, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(sums, wanted.sum(2), rtol=2e-4, atol=2e-5)
    assert not given[..., ~case.kept].any()
    assert products(kernels) == (2, 0)
