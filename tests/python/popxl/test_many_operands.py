"""Instructions with any number of operands, compiled and from the executable cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import popxl
from pando.session_info import cache_file
from popxl import ops
from popxl.context import create_op

COUNTS = [127, 128, 129, 1000, 5000]
WIDTH = 2

Tensors = Sequence[popxl.Tensor]
Build = Callable[[popxl.Ir, Tensors], Tensors]


def graph_that_adds(ir: popxl.Ir, count: int, added: float) -> popxl.Graph:
    """Adds `added` to each of `count` inputs."""
    graph = ir.create_empty_graph("adds")
    with graph:
        inputs = [popxl.graph_input((WIDTH,), popxl.float32, "x") for _ in range(count)]
        for tensor in inputs:
            popxl.graph_output(tensor + added)
    return graph


def concat(_: popxl.Ir, values: Tensors) -> Tensors:
    return [ops.concat(values)]


def total(_: popxl.Ir, values: Tensors) -> Tensors:
    return [popxl.Tensor._from_pb(create_op("Sum", values, {}).outputs[0])]


def call(ir: popxl.Ir, values: Tensors) -> Tensors:
    graph = graph_that_adds(ir, len(values), 1.0)
    return ops.call(graph, *ops.call(graph, *values))


def repeat(ir: popxl.Ir, values: Tensors) -> Tensors:
    return ops.repeat(graph_that_adds(ir, len(values), 1.0), 3, *values)


def conditional(ir: popxl.Ir, values: Tensors) -> Tensors:
    branches = [graph_that_adds(ir, len(values), added) for added in (4.0, 5.0)]
    taken = popxl.variable(False, popxl.bool)
    return ops.conditional(taken, *branches, values, values)


def concat_in_loop(ir: popxl.Ir, values: Tensors) -> Tensors:
    """Where the addresses of operands are not known before the run."""
    graph = ir.create_empty_graph("joins")
    with graph:
        popxl.graph_input((WIDTH * len(values),), popxl.float32, "joined")
        inputs = [popxl.graph_input((WIDTH,), popxl.float32, "x") for _ in values]
        popxl.graph_output(ops.concat(inputs))
    start = popxl.constant(np.zeros(WIDTH * len(values), np.float32))
    return ops.repeat(graph, 2, start, *values)


def wanted(build: Build, data: Any) -> Any:
    """What NumPy makes of the rows of `data`."""
    if build in (concat, concat_in_loop):
        return data.reshape(1, -1)
    if build is total:
        return data.astype(np.float32).sum(0, keepdims=True).astype(data.dtype)
    return data + {call: 2, repeat: 3, conditional: 5}[build]


def program(build: Build, data: Any, folder: Path) -> tuple[popxl.Session, Any]:
    ir = popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    options.enableEngineCaching, options.cachePath = True, str(folder)
    with ir.main_graph:
        results = build(ir, [popxl.variable(row) for row in data])
        joined = ops.concat([ops.reshape(t, (1, t.nelms)) for t in results])
        stream = popxl.d2h_stream(joined.shape, joined.dtype)
        ops.host_store(stream, joined)
    return popxl.Session(ir), stream


def check(build: Build, data: Any, folder: Path) -> None:
    for is_stored in (False, True):
        session, stream = program(build, data, folder)
        assert (cache_file(session) is not None) == is_stored
        with session:
            np.testing.assert_array_equal(session.run()[stream], wanted(build, data))


@pytest.mark.parametrize("build", [concat, total, call, repeat, conditional, concat_in_loop])
@pytest.mark.parametrize("count", COUNTS)
def test_operands(build: Build, count: int, tmp_path: Path) -> None:
    check(build, np.arange(count * WIDTH, dtype=np.float32).reshape(count, WIDTH) % 7, tmp_path)


@pytest.mark.parametrize("build", [concat, total])
@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_operands_of_other_dtypes(build: Build, dtype: Any, tmp_path: Path) -> None:
    check(build, (np.arange(1000 * WIDTH).reshape(1000, WIDTH) % 7).astype(dtype), tmp_path)


def test_unrolled_steps() -> None:
    """A hundred steps in a graph, of which each leaves a value for the gradient."""
    steps = 100
    ir = popxl.Ir()
    graph = ir.create_empty_graph("steps")
    with graph:
        x, w = (popxl.graph_input((WIDTH,), popxl.float32, name) for name in "xw")
        for _ in range(steps):
            x = ops.tanh(x * w)
        popxl.graph_output(x)
    info = popxl.transforms.autodiff(graph)
    start, weight = np.float32([0.5, -0.75]), np.float32([1.125, 0.875])
    with ir.main_graph:
        site = ops.call_with_info(graph, popxl.variable(start), popxl.variable(weight))
        gradients = ops.call(
            info.graph,
            popxl.constant(np.ones(WIDTH, np.float32)),
            inputs_dict=info.inputs_dict(site),
        )
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in gradients]
        for stream, gradient in zip(streams, gradients, strict=True):
            ops.host_store(stream, gradient)
    with popxl.Session(ir) as session:
        results = session.run()
    leaves = [torch.tensor(v.astype(np.float64), requires_grad=True) for v in (start, weight)]
    y = leaves[0]
    for _ in range(steps):
        y = torch.tanh(y * leaves[1])
    y.sum().backward()
    for stream, leaf in zip(streams, leaves, strict=True):
        np.testing.assert_allclose(results[stream], leaf.grad.numpy(), rtol=2e-5, atol=1e-12)
