"""Gradients of graphs that return one tensor several times, or return their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popxl import ops
from popxl.transforms import autodiff

X, W = np.float32([0.5, -1.25, 2.0]), np.float32([1.5, 0.75, -0.5])
SPEC = popxl.TensorSpec(X.shape, popxl.float32)

Tensor = Any
Body = Callable[[Any, Tensor, Tensor], tuple[Tensor, ...]]


def one_result_twice(lib: Any, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    y = lib.tanh(x * w)
    return y, y


def among_others(lib: Any, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    y = lib.sin(x * w)
    return y, x * y, y, y


def an_input(lib: Any, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return x, lib.exp(x) * w


def an_input_twice(lib: Any, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return x, w * w, x


def only_inputs(lib: Any, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return w, x, x, w


def used_again(lib: Any, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """A result that is twice an output and goes on."""
    y = x * w
    return y, lib.tanh(y) * y, y


BODIES = [one_result_twice, among_others, an_input, an_input_twice, only_inputs, used_again]


def through_calls(ir: popxl.Ir, body: Body) -> popxl.Graph:
    """Calls the graph twice, the second time with results of the first."""
    inner = ir.create_graph(lambda x, w: body(ops, x, w), SPEC, SPEC)

    def outer(x: popxl.Tensor, w: popxl.Tensor) -> tuple[popxl.Tensor, ...]:
        first = ops.call(inner, x, w)
        return (*ops.call(inner, first[-1], w), first[0])

    return ir.create_graph(outer, SPEC, SPEC)


def through_calls_in_torch(body: Body, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    first = body(torch, x, w)
    return (*body(torch, first[-1], w), first[0])


def through_branches(ir: popxl.Ir, body: Body) -> popxl.Graph:
    taken = ir.create_graph(lambda x, w: body(ops, x, w), SPEC, SPEC)
    other = ir.create_graph(lambda x, w: [x] * len(taken.outputs), SPEC, SPEC)

    def outer(x: popxl.Tensor, w: popxl.Tensor) -> tuple[popxl.Tensor, ...]:
        condition = popxl.constant(False, popxl.bool)
        return ops.conditional(condition, other, taken, [x, w], [x, w])

    return ir.create_graph(outer, SPEC, SPEC)


def direct(ir: popxl.Ir, body: Body) -> popxl.Graph:
    return ir.create_graph(lambda x, w: body(ops, x, w), SPEC, SPEC)


def in_torch(body: Body, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return body(torch, x, w)


FORMS = [
    (direct, in_torch),
    (through_calls, through_calls_in_torch),
    (through_branches, in_torch),
]


def wanted_gradients(results: Callable[[Tensor, Tensor], tuple[Tensor, ...]]) -> list[Any]:
    """Differentiates the sum of all results, the k-th with weight k + 1."""
    leaves = [torch.tensor(values.astype(np.float64), requires_grad=True) for values in (X, W)]
    total = sum((k + 1.0) * result.sum() for k, result in enumerate(results(*leaves)))
    gradients = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return [gradient.numpy() for gradient in gradients]


def seeds(count: int) -> list[popxl.Tensor]:
    return [popxl.constant(np.full(X.shape, k + 1.0, np.float32)) for k in range(count)]


def check(ir: popxl.Ir, gradients: Any, wanted: list[Any]) -> None:
    streams = [popxl.d2h_stream(X.shape, popxl.float32) for _ in gradients]
    for stream, gradient in zip(streams, gradients, strict=True):
        ops.host_store(stream, gradient)
    with popxl.Session(ir) as session:
        results = session.run()
    for stream, expected in zip(streams, wanted, strict=True):
        np.testing.assert_allclose(results[stream], expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0].__name__)
@pytest.mark.parametrize("body", BODIES)
def test_gradients(body: Body, form: Any) -> None:
    build, reference = form
    ir = popxl.Ir()
    with ir.main_graph:
        graph = build(ir, body)
        given = len(graph.outputs)
        info = autodiff(graph)
        # One seed per output, though two may be one tensor.
        assert [c.fwd_tensor for c in info.expected_inputs[:given]] == list(graph.outputs[:given])
        site = ops.call_with_info(graph, popxl.variable(X), popxl.variable(W))
        gradients = ops.call(info.graph, *seeds(given), inputs_dict=info.inputs_dict(site))
        check(ir, gradients, wanted_gradients(lambda x, w: reference(body, x, w)))


@pytest.mark.parametrize("body", BODIES)
def test_inside_a_repeat(body: Body) -> None:
    """Each run adds the gradients of a call to what it carries."""
    ir = popxl.Ir()
    with ir.main_graph:
        graph = through_calls(ir, body)
        given = len(graph.outputs)
        info = autodiff(graph)

        def step(*values: popxl.Tensor) -> list[popxl.Tensor]:
            sums, (x, w) = values[:2], values[2:]
            site = ops.call_with_info(graph, x, w)
            gradients = ops.call(info.graph, *seeds(given), inputs_dict=info.inputs_dict(site))
            return [total + gradient for total, gradient in zip(sums, gradients, strict=True)]

        loop = ir.create_graph(step, SPEC, SPEC, SPEC, SPEC)
        zeros = [popxl.constant(np.zeros_like(X)) for _ in range(2)]
        totals = ops.repeat(loop, 3, *zeros, popxl.variable(X), popxl.variable(W))
        once = wanted_gradients(lambda x, w: through_calls_in_torch(body, x, w))
        check(ir, totals, [3 * gradient for gradient in once])


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("again", [False, True])
def test_addons(body: Body, again: bool) -> None:
    """popxl_addons.autodiff, and its recomputation."""
    ir = popxl.Ir()
    with ir.main_graph:
        graph = addons.GraphWithNamedArgs(direct(ir, body))
        given = len(graph.graph.outputs)
        gradient = addons.autodiff(graph)
        if again:
            gradient = addons.transforms.recompute_graph(gradient)
        site = graph.call_with_info(popxl.variable(X), popxl.variable(W))
        inputs = gradient.grad_graph_info.inputs_dict(site)
        gradients = gradient.call(*seeds(given), args=inputs)
        check(ir, gradients, wanted_gradients(lambda x, w: body(torch, x, w)))


def test_a_supplied_gradient_graph_with_one_seed() -> None:
    """It takes the sum of the gradients of both outputs."""
    ir = popxl.Ir()
    with ir.main_graph:
        inner = direct(ir, one_result_twice)
        known = autodiff(inner, grads_provided=inner.outputs[:1])
        outer = ir.create_graph(lambda x, w: ops.call(inner, x, w)[:2], SPEC, SPEC)
        info = autodiff(outer, called_graphs_grad_info={inner: known})
        site = ops.call_with_info(outer, popxl.variable(X), popxl.variable(W))
        gradients = ops.call(info.graph, *seeds(2), inputs_dict=info.inputs_dict(site))
        check(ir, gradients, wanted_gradients(lambda x, w: one_result_twice(torch, x, w)))
