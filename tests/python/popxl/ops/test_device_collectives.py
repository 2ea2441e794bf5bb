"""Reductions between the virtual devices of one replica."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.ops.collectives import (
    all_reduce,
    all_reduce_identical_grad_inputs,
    all_reduce_identical_inputs,
)
from tests.python.popxl.ops.op_testing import check, random, run

A, B, C = (random(2, 3, seed=seed) for seed in range(3))
FORMS = [all_reduce, all_reduce_identical_inputs, all_reduce_identical_grad_inputs]
SPEC = popxl.TensorSpec(A.shape, popxl.float32)
REDUCTIONS = {
    "add": lambda ts: sum(ts),
    "mean": lambda ts: sum(ts) / len(ts),
    "mul": np.prod,
    "min": np.min,
    "max": np.max,
    "square_add": lambda ts: sum(t * t for t in ts),
}


def reduced(op, arrays):
    function = REDUCTIONS[op]
    stacked = np.stack(arrays).astype(np.float64)
    value = function(stacked, axis=0) if op in ("mul", "min", "max") else function(stacked)
    return value.astype(arrays[0].dtype)


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (op, dtype)
        for op in REDUCTIONS
        for dtype in (np.float32, np.float16, np.int32)
        if (op, dtype) != ("mean", np.int32)  # whole numbers have no mean
    ],
)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_reduce_between_devices(count, op, dtype):
    arrays = [np.random.default_rng(s).integers(-4, 5, (2, 3)).astype(dtype) for s in range(count)]
    for form in (all_reduce, all_reduce_identical_grad_inputs):
        check(
            lambda *ts, f=form: f(ts, range(count), op),
            lambda *given: [reduced(op, given)] * count,
            *arrays,
        )


@pytest.mark.parametrize("op", ["and", "or"])
def test_logical_reductions(op):
    function = np.logical_and if op == "and" else np.logical_or
    for dtype in (np.bool_, np.int32, np.float32):
        a, b = np.array([0, 0, 1, 1], dtype), np.array([0, 1, 0, 1], dtype)
        wanted = function(a, b).astype(dtype)
        check(lambda s, t: all_reduce([s, t], [0, 1], op), lambda *_, w=wanted: [w, w], a, b)


def test_identical_inputs_stay_as_they_are():
    check(
        lambda s, t: all_reduce_identical_inputs([s, t], [0, 1]),
        lambda a, b: [a, b],
        np.array([1, np.nan, np.inf], np.float32),
        np.array([1, np.nan, np.inf], np.float32),
    )


def test_results_are_tensors_of_their_own():
    """Writing one of the results leaves the others, and the inputs, as they are."""

    def build(s, t):
        first, second = all_reduce([s, t], [0, 0])
        first += 1
        return first, second

    (first, second), inputs = run(build, A, B)
    np.testing.assert_allclose(first, A + B + 1, rtol=1e-6)
    np.testing.assert_allclose(second, A + B, rtol=1e-6)
    np.testing.assert_array_equal(inputs, [A, B])


@pytest.mark.parametrize("form", FORMS)
def test_gradients(form):
    """Reduced: every input's gradient is the sum of all; identical gradients: each its own."""
    ir = popxl.Ir()
    graph = ir.create_graph(lambda a, b, c: form([a, b, c], [0, 0, 0]), SPEC, SPEC, SPEC)
    info = popxl.transforms.autodiff(graph)
    assert [op.opType() for op in info.graph._pb_graph.getOps()].count("AllReduceGrad") == 1
    seeds = [random(2, 3, seed=seed) for seed in (5, 6, 7)]
    with ir.main_graph, popxl.in_sequence():
        call = ops.call_with_info(graph, *(popxl.variable(x) for x in (A, B, C)))
        given = [popxl.constant(seed) for seed in seeds]
        streams = []
        for gradient in ops.call(info.graph, given, inputs_dict=info.inputs_dict(call)):
            streams.append(popxl.d2h_stream(gradient.shape, gradient.dtype))
            ops.host_store(streams[-1], gradient)
    with popxl.Session(ir) as session:
        results = session.run()
    wanted = seeds if form is all_reduce_identical_grad_inputs else [sum(seeds)] * 3
    for stream, value in zip(streams, wanted, strict=True):
        np.testing.assert_allclose(results[stream], value, rtol=1e-5)


def test_only_sums_have_a_gradient():
    ir = popxl.Ir()
    for form in FORMS:
        graph = ir.create_graph(lambda a, b, f=form: f([a, b], [0, 1], "max"), SPEC, SPEC)
        with pytest.raises(popart.popart_exception, match=r"only the reduction 'add'.*'max'"):
            popxl.transforms.autodiff(graph)


@pytest.mark.parametrize("form", FORMS)
def test_devices_names_and_errors(form):
    ir = popxl.Ir()
    with ir.main_graph as main:
        unplaced = popxl.variable(A)
        with pytest.raises(ValueError, match="Could not automatically infer the IPU"):
            form([unplaced])
        parts = []
        for device in (0, 2):
            with popxl.ipu(device):
                parts.append(popxl.variable(A) + 1)
        result = form(parts)
        assert isinstance(result, list)
        assert [t.name for t in result] == ["all_reduce_out_0", "all_reduce_out_1"]
        assert [t.ipu for t in result] == [0, 2]
        assert [op.opType() for op in main._pb_graph.getOps()] == ["Add", "Add", "AllReduce"]
        # Given devices are those of the inputs too.
        assert [t.ipu for t in form([unplaced, popxl.variable(A)], [3, 1])] == [3, 1]
        assert unplaced.ipu == 3
        with pytest.raises(ValueError, match="one ipu per tensor"):
            form(parts, [0])
        with pytest.raises(ValueError, match="Not a valid op: local"):
            form(parts, op="local")
        for wrong in (popxl.variable(A[0]), popxl.variable(A.astype(np.float16))):
            with pytest.raises(popart.popart_exception, match="one shape and dtype"):
                form([parts[0], wrong], [0, 1])
        with pytest.raises(popart.popart_exception):
            form([], [])
        with pytest.raises(ValueError, match="not in the current"):
            form([ir.create_graph(lambda a: a, SPEC).inputs[0]], [0])
    assert popxl.Session(ir)._get_ipus_per_replica() == 4
