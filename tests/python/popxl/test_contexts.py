"""The context stack and its context managers."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.context import (
    _execution_context,
    debug_context_frame_offset,
    get_current_context,
    get_source_location,
    op_debug_context,
)
from popxl.errors import UndefinedValue


def test_current_graph_main_graph_and_ir():
    for get in (popxl.get_current_graph, popxl.get_main_graph, popxl.get_ir):
        with pytest.raises(RuntimeError, match="no graph has been selected"):
            get()
    ir = popxl.Ir()
    inner = ir.create_empty_graph()
    with ir.main_graph as main, inner as entered:
        assert entered is inner
        assert popxl.get_current_graph() is inner
        assert popxl.get_main_graph() is main
        assert popxl.get_ir() is ir
    # The bottom entry decides, also when it is no main graph.
    with inner:
        assert popxl.get_main_graph() is ir.main_graph
        assert popxl.get_ir() is ir
    assert popxl.gcg is popxl.get_current_graph
    assert popxl.gmg is popxl.get_main_graph
    assert popxl.gir is popxl.get_ir


def test_graphs_are_left_when_the_body_raises():
    ir = popxl.Ir()
    with pytest.raises(KeyError), ir.main_graph, popxl.ipu(3), popxl.name_scope("a"):
        raise KeyError
    with pytest.raises(RuntimeError):
        popxl.get_current_graph()
    with ir.main_graph:
        t = popxl.variable(1.0, name="t") + 1
    assert (t.name, t.ipu) == ("add_out", 0)


def test_one_context_for_all():
    context = get_current_context()
    assert context is get_current_context()
    ir = popxl.Ir()
    with ir.main_graph as main, popxl.ipu(2), popxl.io_tiles(), popxl.name_scope("a"):
        settings = context._get_op_settings("op")
        assert settings.name == "a/op"
        assert settings.vgraphId == 2
        assert settings.tileSet is popart.TileSet.IO
        assert settings.executionContext is popart.ExecutionContext.Normal
        assert settings.graph == main._pb_graph
    with ir.main_graph, popxl.ipu(None):
        settings = context._get_op_settings("op")
        assert (settings.name, settings.vgraphId) == ("op", None)
        assert settings.tileSet is popart.TileSet.Compute
        unplaced = popxl.variable(1.0) + 1
    with pytest.raises(UndefinedValue):
        unplaced.ipu  # noqa: B018


def test_op_created_orders_and_runs_hooks():
    ir = popxl.Ir()
    seen = []
    context = get_current_context()
    with ir.main_graph as main:
        t = popxl.variable(1.0)
        first, second = (t + 1)._pb_tensor.getProducer(), (t + 2)._pb_tensor.getProducer()
        main.register_op_created_hook(seen.append)
        with popxl.in_sequence():
            assert context._op_created(second) is second
            context._add_in_sequence_topocons(first)
    assert seen == [second]
    assert first._pb.after == [second._pb]
    assert main._pb_graph.getOpSchedule() == [second, first]


def test_context_managers_as_decorators():
    @popxl.in_sequence()
    @popxl.name_scope("inside")
    @popxl.ipu(1)
    def build(t):
        return ops.exp(t), ops.sin(t)

    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.variable(1.0)
        for _ in range(2):
            a, b = build(t)
            assert a.name.startswith("inside/")
            assert b.ipu == 1
            assert b._pb.producer.after == [a._pb.producer]


@popxl.context.op_debug_context
def plain(t, scale=2.0, *rest, key=None):
    """A user's op."""
    return t, scale, rest, key


@op_debug_context("named")
def named(t, scale=2.0, *rest, key=None):
    """A user's op."""
    return t, scale, rest, key


@pytest.mark.parametrize("function", [plain, named])
def test_op_debug_context_keeps_signature_and_value(function):
    assert function(1, 3.0, 4, key=5) == (1, 3.0, (4,), 5)
    assert str(inspect.signature(function)) == "(t, scale=2.0, *rest, key=None)"
    assert function.__name__ in ("plain", "named")
    assert function.__doc__ == "A user's op."
    with pytest.raises(TypeError):
        function()


def test_debug_context_frame_offset():
    """Ops keep the user's line and errors pass through, as context manager and as decorator."""
    ir = popxl.Ir()

    @debug_context_frame_offset(1)
    def wrapper(t):
        return ops.exp(t)

    with ir.main_graph:
        t = popxl.variable(1.0)
        with debug_context_frame_offset(2):
            a = ops.exp(t)
        b = wrapper(t)
    for result in (a, b):
        assert "test_contexts.py" in repr(result._pb_tensor.getProducer())
    with pytest.raises(KeyError), debug_context_frame_offset(1):
        raise KeyError
    with pytest.raises(ValueError, match="-1"), debug_context_frame_offset(-1):
        pass


def test_source_locations():
    file, line, function = get_source_location(0)
    assert file == __file__
    assert function == "test_source_locations"
    assert "get_source_location(0)" in Path(__file__).read_text().splitlines()[line - 1]

    def inner():
        return get_source_location(1)

    assert inner()[2] == function
    with pytest.raises(IndexError):
        get_source_location(10_000)


def test_execution_contexts_are_programs_of_their_own():
    """Ops for the weights' transfers run with them, never with `run`, and their values persist."""
    kinds = popart.ExecutionContext
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source = popxl.variable(np.array([1.0, 2.0], np.float32))
        saved = popxl.variable(np.zeros(2, np.float32))
        stream = popxl.d2h_stream((2,), popxl.float32)
        with _execution_context(kinds.WeightsFromHostFragment):
            doubled = source * 2.0
        ops.add_(doubled, popxl.constant([10.0, 10.0]))
        ops.host_store(stream, doubled)
        with _execution_context(kinds.WeightsToHostFragment):
            ops.var_updates.copy_var_update_(saved, doubled)
        after = doubled + 1
    assert doubled._pb_tensor.getProducer().executionContext is kinds.WeightsFromHostFragment
    assert after._pb_tensor.getProducer().executionContext is kinds.Normal
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[stream], [12, 14])
        np.testing.assert_array_equal(session.run()[stream], [22, 24])
        session.weights_from_host()
        np.testing.assert_array_equal(session.run()[stream], [12, 14])
    np.testing.assert_array_equal(session.get_tensor_data(saved), [12, 14])


@pytest.mark.parametrize("function", [np.add, np.multiply], ids=["add", "multiply"])
def test_ops_of_different_programs_stay_apart(function):
    """What `run` does to a product made with the weights is done anew in every run."""
    ir = popxl.Ir()
    a, b = np.arange(4, dtype=np.float32).reshape(2, 2), np.eye(2, dtype=np.float32) - 2
    with ir.main_graph, popxl.in_sequence():
        x, row = popxl.variable(a), popxl.variable(np.zeros(2, np.float32))
        stream = popxl.d2h_stream((2, 2), popxl.float32)
        with _execution_context(popart.ExecutionContext.WeightsFromHostFragment):
            product = x @ popxl.variable(b)
        ops.host_store(stream, product + row if function is np.add else product * row)
        for changed in (x, row):
            ops.add_(changed, popxl.constant(1.0))
    with popxl.Session(ir) as session:
        for run in range(3):
            given = session.run()[stream]
            np.testing.assert_array_equal(given, function(a @ b, np.full(2, run, np.float32)))
