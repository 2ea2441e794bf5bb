"""Attention in several ops becomes one, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import popxl
from popxl import ops
from popxl.transforms import autodiff, fuse_attention
from tests.python.popxl.ops.op_testing import random

Array = Any
Build = Callable[..., popxl.Tensor]
TOKENS, DEPTH = 20, 8
CAUSAL = np.triu(np.full((TOKENS, TOKENS), -1e9, np.float32), k=1)
SEEN = np.tril(np.ones((TOKENS, TOKENS), bool)) & (np.arange(TOKENS) % 5 != 3)
SEED = np.array([1, 2], np.uint32)


def heads(t: popxl.Tensor) -> popxl.Tensor:
    """(batch, tokens, hidden) as (batch, heads, tokens, depth)."""
    return ops.transpose(ops.reshape(t, (*t.shape[:2], -1, DEPTH)), (0, 2, 1, 3))


def products(q: popxl.Tensor, k: popxl.Tensor) -> popxl.Tensor:
    return q @ ops.transpose(k, (0, 1, 3, 2))


def plain(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
    return ops.softmax(products(q, k), axis=-1) @ v


def causal(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
    return ops.softmax(products(q, k) * DEPTH**-0.5 + popxl.constant(CAUSAL), axis=-1) @ v


def divided(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
    return ops.softmax(popxl.constant(CAUSAL) + products(q, k) / 3.0, axis=-1) @ v


def hidden(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
    never = popxl.constant(np.float32(-np.inf))
    return ops.softmax(ops.where(popxl.constant(SEEN), products(q, k), never), axis=-1) @ v


def dropped(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
    weights = ops.softmax(products(q, k) * 0.5, axis=-1)
    return ops.dropout(weights, popxl.constant(SEED), 0.25) @ v


class Program:
    """A layer around `attention`, its gradients and its results."""

    def __init__(self, attention: Build, fuse: bool) -> None:
        self.ir = popxl.Ir()
        arrays = [random(2, TOKENS, 3 * DEPTH, seed=seed) for seed in range(3)]

        def layer(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
            return ops.transpose(attention(heads(q), heads(k), heads(v)), (0, 2, 1, 3))

        with self.ir.main_graph:
            inputs = [popxl.variable(array) for array in arrays]
            self.graph = self.ir.create_graph(layer, *inputs)
            if fuse:
                assert fuse_attention(self.graph) is self.graph
            info = autodiff(self.graph)
            call = ops.call_with_info(self.graph, *inputs)
            seed = popxl.constant(random(*call.outputs[0].shape, seed=9))
            gradients = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
            self.streams = []
            for t in (*call.outputs[:1], *gradients):
                self.streams.append(popxl.d2h_stream(t.shape, t.dtype))
                ops.host_store(self.streams[-1], t)

    def kinds(self) -> list[str]:
        return [op.kind for op in self.graph._pb.ops]

    def run(self) -> list[Array]:
        with popxl.Session(self.ir, "cpu") as session:
            results = session.run()
            return [np.array(results[stream]) for stream in self.streams]


@pytest.mark.parametrize("attention", [plain, causal, divided, hidden, dropped])
def test_results_and_gradients_are_the_same(attention: Build) -> None:
    fused = Program(attention, fuse=True)
    assert fused.kinds().count("ScaledDotProductAttention") == 1
    assert not {"MatMul", "Softmax"} & set(fused.kinds())
    for given, wanted in zip(fused.run(), Program(attention, fuse=False).run(), strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)


def test_a_causal_layer_equals_pytorch() -> None:
    q, k, v = (torch.from_numpy(random(2, TOKENS, 3 * DEPTH, seed=seed)) for seed in range(3))
    leaves = [t.requires_grad_() for t in (q, k, v)]
    split = [t.reshape(2, TOKENS, 3, DEPTH).transpose(1, 2) for t in leaves]
    out = torch.nn.functional.scaled_dot_product_attention(*split, is_causal=True).transpose(1, 2)
    out.backward(torch.from_numpy(random(*out.shape, seed=9)))
    given = Program(causal, fuse=True).run()
    for array, tensor in zip(given, [out, *(t.grad for t in leaves)], strict=True):
        np.testing.assert_allclose(array, tensor.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_weights_that_are_returned_stay() -> None:
    ir = popxl.Ir()

    def layer(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> tuple[popxl.Tensor, ...]:
        weights = ops.softmax(products(q, k), axis=-1)
        return weights @ v, weights

    with ir.main_graph:
        inputs = [popxl.variable(random(1, 2, 4, 4, seed=i)) for i in range(3)]
        graph = fuse_attention(ir.create_graph(layer, *inputs))
    assert "Softmax" in [op.kind for op in graph._pb.ops]


def test_sessions_find_it_in_programs_without_gradients() -> None:
    ir = popxl.Ir()
    arrays = [random(1, 2, TOKENS, DEPTH, seed=i) for i in range(3)]
    with ir.main_graph:
        y = causal(*(popxl.variable(array) for array in arrays))
        stream = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(stream, y)
    with popxl.Session(ir, "cpu") as session:
        given = session.run()[stream]
        kernels = session._core.explain()
    assert "ScaledDotProductAttention: blocks" in kernels
    assert "MatMul" not in kernels
    tensors = [torch.from_numpy(array) for array in arrays]
    wanted = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True)
    np.testing.assert_allclose(given, wanted.numpy(), rtol=2e-5, atol=2e-5)
