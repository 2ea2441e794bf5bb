"""Whole graphs turned into loops, and tensors brought into graphs below."""

from __future__ import annotations

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.patterns import apply_pre_alias_patterns, patterns_level
from popxl_addons.transforms.repeat_graph import repeat_graph


def test_repeating_the_main_graph_accumulates_in_variables() -> None:
    ir = popxl.Ir()
    ir.num_host_transfers = 5
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((3,), popxl.float32, "x")
        results = popxl.d2h_stream((3,), popxl.float32, "y")
        total = popxl.variable(np.zeros(3, np.float32), name="total")
        seed, seed_tensor = addons.seed_variable(3)
        x = ops.host_load(source)
        ops.var_updates.accumulate_(total, x * 2.0)
        ops.host_store(results, total + 0.0)
        ops.add_(seed_tensor, popxl.constant(1, popxl.uint32))
    repeated = repeat_graph(ir.main_graph, 5)
    assert repeated.name.startswith("repeat_graph_subgraph(")
    assert {t.name for t in repeated.inputs} >= {"total"}
    data = np.arange(15, dtype=np.float32).reshape(5, 3)
    session = popxl.Session(ir, "cpu")
    before = session.get_tensor_data(seed).copy()
    with session:
        value = session.run({source: data})[results]
    np.testing.assert_array_equal(value, 2 * np.cumsum(data, axis=0))
    np.testing.assert_array_equal(session.get_tensor_data(total), 2 * data.sum(axis=0))
    np.testing.assert_array_equal(session.get_tensor_data(seed), before + 5)


def test_what_follows_in_sequence_follows_the_loop() -> None:
    ir = popxl.Ir()
    with ir.main_graph as main, popxl.in_sequence():
        total = popxl.variable(0.0, name="total")
        ops.add_(total, popxl.constant(1.0))
        repeat_graph(main, 5)
        ops.var_updates.accumulator_scale_(total, 10.0)
    *_, loop, last = main._pb.ops
    assert loop.kind == "Loop" and last.after == [loop]
    session = popxl.Session(ir, "cpu")
    with session:
        session.run()
    assert session.get_tensor_data(total) == 50


def test_repeating_a_graph_with_outputs_gives_the_last_ones() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        state = popxl.variable(np.ones(2, np.float32), name="state")

        def double(t: popxl.TensorByRef) -> popxl.Tensor:
            ops.var_updates.accumulator_scale_(t, 2.0)
            return t + 1.0

        graph = ir.create_graph(double, popxl.TensorSpec((2,), popxl.float32))
        graph._by_ref_inputs.add(graph.inputs[0])
        assert repeat_graph(graph, 1) is graph
        assert repeat_graph(graph, 3) is not graph
        (value,) = ops.call(graph, state)
        stream = addons.host_store(value)
    session = popxl.Session(ir, "cpu")
    with session:
        outputs = session.run()
    np.testing.assert_array_equal(outputs[stream], [9, 9])
    np.testing.assert_array_equal(session.get_tensor_data(state), [8, 8])


def test_seeds_stay_between_runs_and_are_those_of_numpy() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        variable, seed = addons.seed_variable(42)
        assert variable.name == "random_seed"
        assert (seed.shape, seed.dtype) == ((2,), popxl.uint32)
        stream = addons.host_store(seed + 0)
        ops.add_(seed, popxl.constant(1, popxl.uint32))
    session = popxl.Session(ir, "cpu")
    first = popxl.create_seeds(42)
    with session:
        for run in range(3):
            np.testing.assert_array_equal(session.run()[stream], first + np.uint32(run))
    np.testing.assert_array_equal(session.get_tensor_data(variable), first + np.uint32(3))


def nested_graphs(ir: popxl.Ir) -> tuple[popxl.Graph, popxl.Graph]:
    """outer calls inner once and repeats it three times."""
    spec = popxl.TensorSpec((2,), popxl.float32)
    inner = ir.create_graph(lambda x: x * 2.0, spec)

    def outer_body(x: popxl.Tensor) -> popxl.Tensor:
        (y,) = ops.call(inner, x)
        (z,) = ops.repeat(inner, 3, y)
        return z

    return ir.create_graph(outer_body, spec), inner


def test_a_routed_tensor_reaches_every_call() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.ones(2, np.float32), name="x")
        shift = popxl.variable(np.array([1, 10], np.float32), name="shift")
        outer, inner = nested_graphs(ir)
        first = ops.call(outer, x)[0]
        second = ops.call(outer, first)[0]
        inside = addons.route_tensor_into_graph(shift, inner)
        assert addons.route_tensor_into_graph(shift, ir.main_graph) is shift
        with inner:
            assert addons.route_tensor_into_graph(shift) is inside
            (product,) = inner.outputs
            shifted = product + inside
        inner._pb.set_outputs([shifted._pb])
        assert len(inner.inputs) == 2 and len(outer.inputs) == 2
        stream = addons.host_store(second)
    with popxl.Session(ir, "cpu") as session:
        value = session.run()[stream]
    wanted = np.ones(2)
    for _ in range(8):
        wanted = wanted * 2 + [1, 10]
    np.testing.assert_array_equal(value, wanted)


def test_a_routed_tensor_can_be_modified() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.ones(2, np.float32), name="x")
        count = popxl.variable(np.float32(0), name="count")
        outer, inner = nested_graphs(ir)
        ops.call(outer, x)
        inside = addons.route_tensor_into_graph(count, inner, modified=True)
        with inner:
            ops.var_updates.accumulate_(inside, popxl.constant(1.0))
    session = popxl.Session(ir, "cpu")
    with session:
        session.run()
    assert session.get_tensor_data(count) == 4


def test_tensors_reach_the_branches_of_a_conditional() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        spec = popxl.TensorSpec((2,), popxl.float32)
        then_graph = ir.create_graph(lambda x: x + 0.0, spec)
        else_graph = ir.create_graph(lambda x: x * 3.0, spec)
        x = popxl.variable(np.ones(2, np.float32), name="x")
        shift = popxl.variable(np.array([1, 10], np.float32), name="shift")
        choice = popxl.variable(np.array(True), popxl.bool, name="choice")
        (y,) = ops.conditional(choice, then_graph, else_graph, then_inputs=[x], else_inputs=[x])
        inside = addons.route_tensor_into_graph(shift, then_graph)
        with then_graph:
            shifted = then_graph.outputs[0] + inside
        then_graph._pb.set_outputs([shifted._pb])
        with pytest.raises(NotImplementedError, match="below a conditional"):
            addons.route_tensor_into_graph(shift, else_graph, modified=True)
        stream = addons.host_store(y)
    session = popxl.Session(ir, "cpu")
    for value, wanted in ((True, [2, 11]), (False, [3, 3])):
        session.write_variable_data(choice, np.array(value))
        with session:
            np.testing.assert_array_equal(session.run()[stream], wanted)


def test_unreachable_graphs_are_refused() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32), name="x")
        graph = ir.create_graph(lambda t: t * 2.0, x.spec)
        with pytest.raises(ValueError, match="cannot be routed"):
            addons.route_tensor_into_graph(x, graph)
        assert not addons.is_subgraph(ir.main_graph, graph)
        ops.call(graph, x)
        assert addons.is_subgraph(ir.main_graph, graph)


def test_patterns_leave_results_as_they_are() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        stream = addons.host_store(popxl.constant(2.0) * 3.0)
    for level in patterns_level:
        apply_pre_alias_patterns(ir, level)
    assert list(patterns_level) == ["no_patterns", "minimal", "default", "all"]
    with pytest.raises(KeyError):
        apply_pre_alias_patterns(ir, "some")
    with popxl.Session(ir, "cpu") as session:
        assert session.run()[stream] == 6


def test_settings_of_other_hardware_are_accepted() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 2), np.float32))
        graph = ir.create_graph(lambda t: t @ t, x.spec)
        ops.call(graph, x)
    addons.set_available_memory_proportion_by_ipu(ir, [0.3])
    addons.set_graph_available_memory_proportion_by_ipu(graph, [0.3])
    with pytest.raises(KeyError, match="MatMul"):
        addons.set_available_memory_proportion_by_ipu(ir, [])
    options = ir._pb_ir.getSessionOptions()
    with ir.main_graph:
        x @ x

    def flags() -> list[bool]:
        return [
            op.useFullyConnectedPass()
            for each in ir._pb_ir.getAllGraphs()
            for op in each.getOps()
            if op.opType() == "MatMul"
        ]

    assert flags() == [True, True]
    addons.disable_fc_pass(ir)
    assert flags() == [False, False] and not options.enableFullyConnectedPass
    addons.enable_fc_pass(ir)
    assert flags() == [True, True] and options.enableFullyConnectedPass
