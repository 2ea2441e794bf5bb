"""Lowerings of loops, conditions and calls of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.bodies import BodyLowering
from poptorch._lower.dtypes import host_array, host_tensor, popxl_dtype
from poptorch._lower.lowering import Call
from poptorch._lower.regions import COND, FOR_LOOP, FUNCTION, HOST_CALL, MARKS, Body
from poptorch._lower.registry import lowers
from poptorch._ops.control import tensors_of
from popxl import ops
from popxl.ops.random_seed import create_random_seed
from popxl.transforms.autodiff import ExpectedConnectionType, grad_graph_info

_Array = np.ndarray[Any, Any]


@lowers(*MARKS)
def folded(call: Call, **_arguments: Any) -> None:
    """Marks are recorded as they are, and folded before anything is lowered."""
    raise AssertionError(f"{call.node.name} was not folded")


@lowers(FOR_LOOP)
def for_loop(
    call: Call, inputs: Sequence[popxl.Tensor], trip_count: int, body: Body
) -> list[popxl.Tensor]:
    """A graph that is repeated. It carries a seed, of which each iteration makes the next one."""
    lowering = call.lowering
    graph = popxl.gcg().ir.create_empty_graph("for_loop")
    with graph:
        seed = popxl.graph_input((2,), popxl.uint32, "seed")
        carried = [popxl.graph_input(t.shape, t.dtype, t.name) for t in inputs]
    inner = BodyLowering(lowering, graph, seed)
    with graph:
        for meta, value in zip(call.argument("inputs"), carried, strict=True):
            inner.values.define(meta, value)
        results = inner.lower_body(call, body)
        next_seed = create_random_seed(seed, 0) if inner.uses_random_numbers else seed
        for value in (next_seed, *results):
            popxl.graph_output(value)
    none = popxl.constant(np.zeros(2, np.uint32))
    first_seed = lowering.next_seed() if inner.uses_random_numbers else none
    made = ops.repeat(graph, trip_count, first_seed, *inputs, *inner.captured_values)
    return list(made[1:])


def _branch(
    call: Call, name: str, body: Body, wanted: Sequence[torch.Tensor]
) -> tuple[popxl.Graph, list[popxl.Tensor]]:
    """A branch as a graph, and what it is called with."""
    graph = popxl.gcg().ir.create_empty_graph(name)
    inner = BodyLowering(call.lowering, graph)
    with graph:
        for value, meta in zip(inner.lower_body(call, body), wanted, strict=True):
            popxl.graph_output(_like(call, value, meta))
    return graph, inner.captured_values


def _like(call: Call, value: popxl.Tensor, meta: torch.Tensor) -> popxl.Tensor:
    """A result of one branch in the shape that the other one gives it."""
    shape = tuple(meta.shape)
    elements_fit = value.nelms == meta.numel()
    if value.shape == shape and value.dtype == popxl_dtype(meta.dtype):
        return value
    if value.dtype != popxl_dtype(meta.dtype) or value.rank == len(shape) or not elements_fit:
        raise createPoptorchError(
            f"The bodies of poptorch.cond() at {call.node.location} must return tensors of the "
            f"same shapes and dtypes; then_body returned {list(value.shape)} {value.dtype.name} "
            f"and else_body {list(shape)} {popxl_dtype(meta.dtype).name}"
        )
    if not shape:
        raise createPoptorchError(
            f"The bodies of poptorch.cond() at {call.node.location}: a result of then_body of the "
            f"shape {list(value.shape)} cannot be reshaped to the empty shape of else_body"
        )
    return ops.reshape(value, shape)


@lowers(COND)
def cond(
    call: Call, condition: popxl.Tensor, then_body: Body, else_body: Body
) -> tuple[popxl.Tensor, ...]:
    """One of two graphs."""
    then_graph, then_values = _branch(call, "then_body", then_body, else_body.results)
    else_graph, else_values = _branch(call, "else_body", else_body, else_body.results)
    return ops.conditional(condition, then_graph, else_graph, then_values, else_values)


@lowers(FUNCTION)
def function(
    call: Call,
    inputs: Sequence[popxl.Tensor],
    differentiable: Sequence[bool],
    forward: Body,
    backward: Body,
    name: str,
) -> tuple[popxl.Tensor, ...]:
    """A call of a graph that has the gradient graph that the program gives it."""
    del inputs
    ir = popxl.gcg().ir
    forward_graph, backward_graph = (
        ir.create_empty_graph(f"{name}{part}") for part in ("", "_bwd")
    )
    of_results = BodyLowering(call.lowering, forward_graph)
    with forward_graph:
        results = of_results.lower_body(call, forward)
        for value in results:
            popxl.graph_output(value)
        of_gradient = BodyLowering(of_results, backward_graph)
        needed = [of_results.read(meta) for meta in call.argument("inputs")]
    with backward_graph:
        for meta in backward.given:
            value = popxl.graph_input(tuple(meta.shape), popxl_dtype(meta.dtype), "gradient")
            of_gradient.values.define(meta, value)
        for gradient in of_gradient.lower_body(call, backward):
            popxl.graph_output(gradient)
    with forward_graph:
        for value in of_gradient.captured_values:
            if value not in (*forward_graph.inputs, *forward_graph.outputs):
                popxl.graph_output(value)
    arriving = [value for value, is_given in zip(results, differentiable, strict=True) if is_given]
    call.lowering.gradients[forward_graph] = grad_graph_info(
        forward_graph,
        backward_graph,
        [(value, ExpectedConnectionType.FwdGrad) for value in arriving]
        + [(value, ExpectedConnectionType.Fwd) for value in of_gradient.captured_values],
        needed,
    )
    return tuple(ops.call(forward_graph, *of_results.captured_values))[: len(results)]


@lowers(HOST_CALL)
def host_call(call: Call, inputs: Sequence[popxl.Tensor], name: str) -> tuple[popxl.Tensor, ...]:
    """The layer itself, on the host."""
    dtypes = [meta.dtype for meta in call.argument("inputs")]
    specs = [popxl.TensorSpec(tuple(t.shape), popxl_dtype(t.dtype)) for t in call.outputs]
    layer = call.lowering.recording.host_layers[name]
    run = _on_arrays(layer, dtypes, f"The layer of poptorch.CPU '{name}'")
    return ops.host_call(run, *inputs, outputs=specs, name=name)


def _on_arrays(
    layer: Callable[..., Any], dtypes: list[torch.dtype], described: str
) -> Callable[..., Any]:
    """The layer as a function of arrays of the program."""

    def run(*arrays: _Array) -> list[_Array]:
        with torch.no_grad():
            tensors = [
                host_tensor(array).to(dtype) for array, dtype in zip(arrays, dtypes, strict=True)
            ]
            returned = layer(*tensors)
        return [host_array(result) for result in tensors_of(described, returned)]

    return run
