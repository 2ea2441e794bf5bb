"""The contract of autodiff, exchanges and decompose_sum."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from popxl.transforms import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
    autodiff,
    decompose_sum,
    io_tile_exchange,
    merge_exchange,
)
from tests.python.popxl.ops.op_testing import random

SPEC = popxl.TensorSpec((2, 3), popxl.float32)
X, W = random(2, 3), random(2, 3, seed=1)


def forward(x, w):
    return ops.tanh(x * w)


def stored(tensor):
    stream = popxl.d2h_stream(tensor.shape, tensor.dtype)
    ops.host_store(stream, tensor)
    return stream


def test_gradient_graph():
    """Inputs: seeds, then forward tensors in order of their ids; outputs as asked."""
    ir = popxl.Ir()
    graph = ir.create_graph(forward, SPEC, SPEC)
    info = autodiff(graph)
    assert info.forward_graph is graph
    assert info.graph.id == f"{graph.id}_bwd"
    assert info.graph.inputs[0].name == "Gradient___tanh_out"
    kinds = [connection.connection_type for connection in info.expected_inputs]
    assert kinds[0] is ExpectedConnectionType.FwdGrad
    assert set(kinds[1:]) == {ExpectedConnectionType.Fwd}
    ids = [connection.fwd_tensor.id for connection in info.expected_inputs[1:]]
    assert ids == sorted(ids)
    assert all(t in graph.inputs or t in graph.outputs for t in info.inputs)
    assert info.inputs[0] is graph.outputs[0]
    assert info.outputs == graph.inputs
    assert [c.connection_type.value for c in info.expected_outputs] == ["FwdGrad", "FwdGrad"]
    assert len(info.graph.inputs) == len(info.expected_inputs)
    assert autodiff(graph).graph.id.startswith(f"{graph.id}_bwd_")


def test_values_by_every_mapping():
    ir = popxl.Ir()
    graph = ir.create_graph(forward, SPEC, SPEC)
    info = autodiff(graph)
    with ir.main_graph:
        x, w = popxl.variable(X), popxl.variable(W)
        call = ops.call_with_info(graph, x, w)
        seed = popxl.constant(np.ones((2, 3), np.float32))
        given = info.inputs_dict(call)
        assert set(given) == set(info.graph.inputs[1:])
        assert set(given.values()) <= {x, w, *call.outputs}
        grad_call = ops.call_with_info(info.graph, seed, inputs_dict=given)
        by_graph = info.fwd_graph_ins_to_grad_parent_outs(grad_call)
        by_parent = info.fwd_parent_ins_to_grad_parent_outs(call, grad_call)
        assert list(by_graph) == list(graph.inputs)
        assert by_graph[graph.inputs[0]] is by_parent[x] is grad_call.outputs[0]
        assert by_graph[graph.inputs[1]] is by_parent[w] is grad_call.outputs[1]
        assert by_parent[x].name == "Gradient___x"
        streams = [stored(by_parent[t]) for t in (x, w)]
        other = ops.call_with_info(ir.create_graph(forward, SPEC, SPEC), x, w)
        for use in (
            info.inputs_dict,
            lambda wrong: info.fwd_parent_ins_to_grad_parent_outs(wrong, grad_call),
        ):
            with pytest.raises(TypeError):
                use(other)
    tensors = [torch.from_numpy(a.copy()).requires_grad_() for a in (X, W)]
    torch.tanh(tensors[0] * tensors[1]).sum().backward()
    with popxl.Session(ir) as session:
        results = session.run()
    for stream, tensor in zip(streams, tensors, strict=True):
        np.testing.assert_allclose(results[stream], tensor.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_provided_and_required():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda x, w: (x * w, ops.sin(x)), SPEC, SPEC)
    first, second = graph.outputs
    info = autodiff(graph, grads_provided=[second, first], grads_required=[graph.inputs[1]])
    assert info.inputs[:2] == (second, first)
    assert [t.name for t in info.graph.inputs[:2]] == ["Gradient___sin_out", "Gradient___mul_out"]
    assert info.outputs == (graph.inputs[1],)
    for arguments, text in (
        ({"grads_required": []}, "empty"),
        ({"grads_provided": [second], "grads_required": [graph.inputs[1]]}, "Unable to provide"),
    ):
        with pytest.raises(popart.popart_exception, match=text):
            autodiff(graph, **arguments)
    stranger = ir.create_graph(lambda a: a + 1, SPEC).inputs[0]
    with pytest.raises(popart.popart_exception, match=stranger.name):
        autodiff(graph, grads_required=[stranger])


def test_called_graphs():
    ir = popxl.Ir()
    inner = ir.create_graph(forward, SPEC, SPEC)
    outer = ir.create_graph(lambda x, w: ops.call(inner, *ops.call(inner, x, w), w), SPEC, SPEC)
    infos = autodiff(outer, return_all_grad_graphs=True)
    assert set(infos) == {inner, outer}
    assert all(info.forward_graph is graph for graph, info in infos.items())
    again = ir.create_graph(lambda x, w: ops.call(inner, x, w)[0], SPEC, SPEC)
    known = autodiff(again, called_graphs_grad_info={inner: infos[inner]})
    assert known.graph.called_graphs == (infos[inner].graph,)
    inner._pb_graph.setCanBeRecursivelyAutodiffed(False)
    third = ir.create_graph(lambda x, w: ops.call(inner, x, w)[0], SPEC, SPEC)
    with pytest.raises(popart.popart_exception, match="has been marked as unsafe to autodiff"):
        autodiff(third)
    assert autodiff(third, called_graphs_grad_info={inner: infos[inner]}).forward_graph is third


def test_modifying_ops_and_views():
    ir = popxl.Ir()

    def modifying(x):
        x += 1
        return x

    wrong = ir.create_graph(modifying, SPEC)
    with pytest.raises(popart.popart_exception) as error:
        autodiff(wrong)
    assert f"The graph {wrong.id} contains a modifying op" in str(error.value)
    for view in (lambda x: ops.reshape_(x, (6,)), ops.flatten_, ops.transpose_, ops.detach_):

        def viewing(x, make_view=view):
            make_view(x)
            return ops.sin(x)

        allowed = ir.create_graph(viewing, SPEC)
        assert autodiff(allowed).outputs == allowed.inputs


def test_infos_and_connections_as_objects():
    ir = popxl.Ir()
    graph = ir.create_graph(forward, SPEC, SPEC)
    info = autodiff(graph)
    for kind in (GradGraphInfo, ExpectedConnection):
        with pytest.raises(TypeError):
            kind()
    connection = info.expected_inputs[0]
    assert repr(connection) == f"({connection.connection_type}, {graph.outputs[0]!r})"
    text = repr(info)
    assert text.startswith(f"GradGraphInfo[\n  graph={info.graph.id}\n  expected_inputs=[\n    (")
    assert text.endswith("  ]\n]")
    assert text.count("\n    (") == len(info.expected_inputs) + len(info.expected_outputs)
    copy = GradGraphInfo._from_pb(ir._pb_ir, graph._pb_graph, info._pb_bwd_info)
    assert (copy.graph, copy.forward_graph) == (info.graph, graph)
    assert copy.expected_inputs == info.expected_inputs
    assert copy.expected_outputs == info.expected_outputs
    made = ExpectedConnection._from_pb(graph._pb_graph, connection._pb_ec)
    assert made == connection
    assert made.fwd_tensor is graph.outputs[0]


# --- exchanges -----------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", [merge_exchange, io_tile_exchange])
def test_transfers_in_an_exchange(exchange):
    """Loads, a store and the tensors made in the block stay valid; values do not change."""
    ir = popxl.Ir()
    with ir.main_graph:
        a, b = (popxl.h2d_stream((3,), popxl.float32, name) for name in "ab")
        buffer = popxl.remote_buffer((3,), popxl.float32, 1)
        popxl.remote_variable(np.full(3, 5, np.float32), buffer, 0)
        ready = popxl.variable(np.ones(3, np.float32)) + 1.0
        out = popxl.d2h_stream((3,), popxl.float32, "early")
        with popxl.in_sequence(), exchange():
            x, y, z = ops.host_load(a), ops.host_load(b), ops.remote_load(buffer, 0)
            ops.host_store(out, ready)
        if exchange is io_tile_exchange:
            assert x.tile_set == y.tile_set == z.tile_set == "io"
            with pytest.raises(ValueError, match="different tile sets"):
                x + ready
            x, y, z = (ops.io_tile_copy(t) for t in (x, y, z))
        total = stored(x + y * z)
    assert ir.get_all_h2d_streams() == {a, b}
    with popxl.Session(ir) as session:
        results = session.run({a: np.arange(3.0), b: np.full(3, 2.0)})
    np.testing.assert_array_equal(results[total], np.arange(3) + 10)
    np.testing.assert_array_equal(results[out], [2, 2, 2])


def test_exchanges_need_a_graph():
    for exchange in (merge_exchange, io_tile_exchange):
        with pytest.raises(RuntimeError, match="no graph"), exchange():
            pass


def test_transfers_that_cannot_overlap():
    ir = popxl.Ir()
    with ir.main_graph:
        a, out = popxl.h2d_stream((3,), popxl.float32), popxl.d2h_stream((3,), popxl.float32)

        def dependent():
            ops.host_store(out, ops.host_load(a))

        with pytest.raises(RuntimeError, match="More than one Op remained"), io_tile_exchange():
            dependent()
        with pytest.raises(RuntimeError, match="More than one Op remained"), io_tile_exchange():
            ops.host_load(a) + 1
        with io_tile_exchange(verify_overlap=False):
            dependent()
        with merge_exchange():
            dependent()
        with io_tile_exchange():
            ops.host_load(a)
            ops.host_load(a)
        # The error of the body comes through, not that of the check.
        with pytest.raises(KeyError), io_tile_exchange():
            dependent()
            raise KeyError
        assert (popxl.variable(1.0) + 1).tile_set == "compute"


# --- sums ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_decompose_sum(count):
    """A zero and one addition for each tensor, in the place of sums of more than two."""
    ir = popxl.Ir()
    graph = ir.create_graph(lambda x: [ops.tanh(x * float(i + 1)) for i in range(count)], SPEC)
    info = autodiff(graph)

    def kinds_and_sums():
        schedule = info.graph._pb_graph.getOpSchedule()
        sums = [op.inTensorCount() for op in schedule if op.opType() == "Sum"]
        return [op.opType() for op in schedule], sums

    before, sums = kinds_and_sums()
    assert sums.count(count) >= 1
    outputs = info.graph.outputs
    assert decompose_sum(info.graph) is info.graph
    kinds, left = kinds_and_sums()
    if count > 2:
        assert left == [n for n in sums if n <= 2]
        assert kinds.count("Add") == before.count("Add") + count
        assert kinds.count("Init") == before.count("Init") + 1
    else:
        assert kinds == before
        assert info.graph.outputs == outputs
    with ir.main_graph:
        call = ops.call_with_info(graph, popxl.variable(X))
        seeds = [popxl.constant(np.ones((2, 3), np.float32)) for _ in range(count)]
        (gradient,) = ops.call(info.graph, seeds, inputs_dict=info.inputs_dict(call))
        stream = stored(gradient)
    x = torch.from_numpy(X.copy()).requires_grad_()
    sum(torch.tanh(x * (i + 1)).sum() for i in range(count)).backward()
    with popxl.Session(ir) as session:
        given = session.run()[stream]
    np.testing.assert_allclose(given, x.grad.numpy(), rtol=1e-5, atol=1e-6)
