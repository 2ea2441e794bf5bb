"""Graphs that call themselves are refused when the call is made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from pando import _core
from popxl import ops

SPEC = popxl.TensorSpec((2,), popxl.float32)
DATA = np.float32([0.5, -2.0])


def empty_graph(ir: popxl.Ir, name: str) -> popxl.Graph:
    """A graph of one input and output, to which calls may be added."""
    graph = ir.create_empty_graph(name)
    with graph:
        popxl.graph_output(popxl.graph_input(SPEC.shape, SPEC.dtype, "x") + 1.0)
    return graph


def run_call(graph: popxl.Graph, x: popxl.Tensor) -> None:
    ops.call(graph, x)


def run_repeat(graph: popxl.Graph, x: popxl.Tensor) -> None:
    ops.repeat(graph, 3, x)


def run_conditional(graph: popxl.Graph, x: popxl.Tensor) -> None:
    other = empty_graph(graph.ir, "other")
    ops.conditional(popxl.constant(True, popxl.bool), other, graph, [x], [x])


def run_addons_call(graph: popxl.Graph, x: popxl.Tensor) -> None:
    addons.GraphWithNamedArgs(graph).call(x)


WAYS = [run_call, run_repeat, run_conditional, run_addons_call]


@pytest.mark.parametrize("way", WAYS)
def test_a_graph_in_itself(way: Callable[[popxl.Graph, popxl.Tensor], None]) -> None:
    ir = popxl.Ir()
    graph = empty_graph(ir, "f")
    with graph, pytest.raises(ValueError, match="a graph cannot call itself") as error:
        way(graph, graph.inputs[0])
    assert "f_subgraph(0)" in str(error.value) and "test_recursion.py" in str(error.value)
    assert_still_usable(ir, graph)


@pytest.mark.parametrize("inner", WAYS)
@pytest.mark.parametrize("outer", WAYS)
def test_through_others(
    inner: Callable[[popxl.Graph, popxl.Tensor], None],
    outer: Callable[[popxl.Graph, popxl.Tensor], None],
) -> None:
    ir = popxl.Ir()
    first, second, third = (empty_graph(ir, name) for name in ("first", "second", "third"))
    for caller, callee in ((third, second), (second, first)):
        with caller:
            inner(callee, caller.inputs[0])
    with first, pytest.raises(ValueError, match="a graph cannot call itself") as error:
        outer(third, first.inputs[0])
    message = str(error.value)
    assert message.index("third_sub") < message.index("'second_sub") < message.rindex("'first_sub")
    assert_still_usable(ir, third)


def assert_still_usable(ir: popxl.Ir, graph: popxl.Graph) -> None:
    """What was refused left nothing behind."""
    _core.verify(ir._pb)
    with ir.main_graph:
        (result,) = ops.call(graph, popxl.variable(DATA))
        stream = popxl.d2h_stream(SPEC.shape, SPEC.dtype)
        ops.host_store(stream, result)
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[stream], DATA + 1)


def test_the_main_graph() -> None:
    ir = popxl.Ir()
    graph = empty_graph(ir, "f")
    for caller in (ir.main_graph, graph):
        with caller, pytest.raises(ValueError, match="the main graph cannot be called"):
            ops.call(ir.main_graph)
    graphs = len(ir._pb.graphs)
    with graph, pytest.raises(ValueError, match="the main graph cannot be called"):
        ops.repeat(ir.main_graph, 2)
    assert len(ir._pb.graphs) == graphs


def test_a_copied_call() -> None:
    """Graph surgery is not a way around."""
    ir = popxl.Ir()
    inner, outer = empty_graph(ir, "inner"), empty_graph(ir, "outer")
    with outer:
        site = ops.call_with_info(inner, outer.inputs[0])
    ops_before = len(inner._pb.ops)
    with pytest.raises(ValueError, match="a graph cannot call itself"):
        inner._pb.clone_unconnected(site._pb)
    assert len(inner._pb.ops) == ops_before


def test_calls_side_by_side_are_no_recursion() -> None:
    ir = popxl.Ir()
    shared, left, right = (empty_graph(ir, name) for name in ("shared", "left", "right"))
    with left:
        ops.call(shared, left.inputs[0])
    with right:
        ops.call(shared, right.inputs[0])
        ops.call(left, right.inputs[0])
    assert_still_usable(ir, right)
