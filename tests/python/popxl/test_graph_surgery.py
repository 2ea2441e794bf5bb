"""Rewiring of ops and graphs by their internal views."""

import numpy as np
import pytest

import popart
import popart._internal.ir as _ir
import popxl
from popxl import ops
from popxl.context import get_current_context
from popxl.tensor import Tensor

X = np.array([1.0, 2.0, 3.0], np.float32)
SPEC = popxl.TensorSpec((3,), popxl.float32)


def producer(tensor):
    return tensor._pb_tensor.getProducer()


def stored(tensor):
    stream = popxl.d2h_stream(tensor.shape, tensor.dtype)
    ops.host_store(stream, tensor)
    return stream


@pytest.fixture
def main():
    """The main graph of a new Ir, entered."""
    with popxl.Ir().main_graph as graph:
        yield graph


def test_connecting_another_input(main):
    x, y = popxl.variable(X), popxl.variable(10 * X)
    total = x + x
    stream = stored(total)
    op = producer(total)
    op.disconnectInTensor(1)
    assert op.getInputTensors() == [x._pb_tensor]
    assert not op.hasInput(1)
    op.connectInTensor(1, y.id)
    assert op.inIndex(y._pb_tensor) == [1]
    assert op in y._pb_tensor.consumers.getOps()
    with popxl.Session(main.ir) as session:
        np.testing.assert_array_equal(session.run()[stream], 11 * X)


def test_disconnecting(main):
    x, y = popxl.variable(X), popxl.variable(X)
    op = producer(x + y)
    with pytest.raises(popart.popart_internal_exception):
        op.disconnectInTensor(0, y._pb_tensor)
    op.disconnectInTensor(x._pb_tensor)
    assert op.getInputIndexMap() == {1: y._pb_tensor}
    op.disconnectAllInputs()
    assert op.getInputIndexMap() == {}
    assert y._pb_tensor.consumers.getOps() == []
    output = op.outTensor(0)
    op.disconnectAllOutputs()
    assert op.outTensorCount() == 0
    assert not output.hasProducer()
    with pytest.raises(popart.popart_internal_exception):
        op.disconnectOutTensor(output)
    main._pb_graph.eraseOp(op.id)
    assert main._pb_graph.getOps() == []
    main._pb_graph.removeIsolatedTensors(retainVar=True)
    assert set(main.tensors) == {x, y}
    main._pb_graph.removeIsolatedTensors()
    assert main.tensors == ()


def test_an_input_made_by_a_later_op(main):
    """A session puts the ops of rewired graphs in an order that works."""
    x = popxl.variable(X)
    first = ops.exp(x)
    stream = stored(first)
    later = ops.negate(x)
    producer(first).connectInTensor(0, later.id)
    kinds = [op.opType() for op in main._pb_graph.getOpSchedule()]
    assert kinds.index("Neg") < kinds.index("Exp")
    with popxl.Session(main.ir) as session:
        np.testing.assert_allclose(session.run()[stream], np.exp(-X), rtol=1e-6)


def test_a_cycle(main):
    first = ops.exp(popxl.variable(X))
    second = ops.negate(first)
    producer(first).connectInTensor(0, second.id)
    with pytest.raises(popart.popart_exception, match="cannot be scheduled"):
        popxl.Session(main.ir)


def test_what_is_left_incomplete(main):
    op = producer(popxl.variable(X) + 1)
    op.disconnectInTensor(0)
    with pytest.raises(popart.popart_exception, match=r"Add.*input 0"):
        popxl.Session(main.ir)


def test_taking_over_an_output(main):
    """A tensor keeps its id and uses while another op comes to make it."""
    x = popxl.variable(X)
    y = ops.exp(x)
    stream = stored(y)
    old, new = producer(y), producer(ops.sin(x))
    unused = new.outTensor(0)
    with pytest.raises(popart.popart_exception, match="no other op makes"):
        new.connectOutTensor(0, y.id)
    old.disconnectOutTensor(y._pb_tensor)
    new.disconnectOutTensor(unused)
    new.connectOutTensor(0, y.id)
    main._pb_graph.eraseOp(old.id)
    assert producer(y) == new
    assert new.outIndex(y._pb_tensor) == [0]
    with popxl.Session(main.ir) as session:
        np.testing.assert_allclose(session.run()[stream], np.sin(X), rtol=1e-6)


def test_setup_finds_shapes(main):
    x = popxl.variable(np.ones((2, 4), np.float16))
    op = producer(ops.transpose(x))
    op.disconnectOutTensor(op.outTensor(0))
    op.createAndConnectOutTensor(0, main._create_tensor_id("made"))
    made = main.get_tensor("made")
    op.setup()
    assert (made.shape, made.dtype, made.name) == ((4, 2), popxl.float16, "made")
    with pytest.raises(popart.popart_internal_exception, match="made"):
        op.createAndConnectOutTensor(1, "made")
    # Another input: setup again.
    op.connectInTensor(0, popxl.variable(np.ones((5, 3), np.float32)).id)
    op.setup()
    assert (made.shape, made.dtype) == ((3, 5), popxl.float32)
    assert op.outInfo(0).shape() == (3, 5)


def test_cloning_into_another_graph(main):
    """The steps by which transforms move ops: clone, connect, set up."""
    with popxl.name_scope("scope"), popxl.ipu(3):
        y = ops.clip(popxl.variable(X), 1.5, 2.5)
    op = producer(y)
    target = main.ir.create_empty_graph("target")
    with target:
        t = popxl.graph_input((3,), popxl.float32, "t")
    clone = op.cloneIntoGraph(target._pb_graph)
    assert type(clone) is type(op)
    assert clone.id > op.id
    assert (clone.name(), clone.getVirtualGraphId()) == (op.name(), 3)
    assert clone.getInputTensors() == clone.getOutputTensors() == []
    assert clone.getGraph() == target._pb_graph
    clone.connectInTensor(0, t.id)
    clone.createAndConnectOutTensor(0, target._create_tensor_id("u"))
    clone.setup()
    u = Tensor._from_pb_tensor(clone.outTensor(0))
    assert (u.id, u.shape) == (f"{target.id}/u", (3,))
    target._pb_graph.markAsOutput(u.id)
    with popxl.ipu(3):
        stream = stored(ops.call(target, popxl.variable(X))[0])
    with popxl.Session(main.ir) as session:
        np.testing.assert_array_equal(session.run()[stream], np.clip(X, 1.5, 2.5))
    with pytest.raises(popart.popart_exception, match="different Irs"):
        op.cloneIntoGraph(popxl.Ir().main_graph._pb_graph)


def test_signature_of_a_graph():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda a, b: (a + b, a * b), SPEC, SPEC)
    pb = graph._pb_graph
    info = _ir.TensorInfo(_ir.DataType.FLOAT, [3])
    pb.addInput(graph._create_tensor_id("last"), info)
    pb.addInput(1, graph._create_tensor_id("middle"), info, False)
    assert [t.name for t in graph.inputs] == ["a", "middle", "b", "last"]
    pb.addInput(1, graph._create_tensor_id("other"), pb.getInputTensor(0).info, True)
    assert [t.name for t in graph.inputs] == ["a", "other", "b", "last"]
    assert graph.inputs[1].shape == (3,)
    pb.removeInput(3)
    pb.removeInput(f"{graph.id}/other")
    assert [t.name for t in graph.inputs] == ["a", "b"]
    with pytest.raises(popart.popart_exception):
        pb.addInput(5, "x", info, False)
    first, second = graph.outputs
    pb.markAsOutput(0, second.id, False)
    assert graph.outputs == (second, first, second)
    pb.markAsOutput(1, second.id, True)
    assert graph.outputs == (second, second, second)
    pb.removeOutput(0)
    pb.markAsOutput(first.id)
    assert pb.getOutputIds() == [second.id, second.id, first.id]
    assert (pb.getOutputIndex(first.id), pb.getOutputId(2)) == (2, first.id)
    assert pb.getOutputTensor(2) == first._pb_tensor
    assert pb.hasOutputId(first.id)
    pb.removeOutput(first.id)
    assert not pb.hasOutputId(first.id)
    assert pb.getInputIds() == [t.id for t in graph.inputs]
    assert (pb.getInputId(1), pb.getInputIndex(pb.getInputId(1))) == (graph.inputs[1].id, 1)
    assert pb.hasInputId(graph.inputs[0].id)


def test_order_beyond_data(main):
    x = popxl.variable(X)
    stream = popxl.d2h_stream((3,), popxl.float32)
    ops.host_store(stream, x)
    ops.host_store(stream, popxl.constant(-X))
    first, second = main._pb_graph.getOps()
    cons = main._pb_graph.topoCons()
    cons.insert(second, first)
    assert main._pb_graph.getOpSchedule() == [second, first]
    with pytest.raises(NotImplementedError, match="tied"):
        cons.insert(second, first, True)
    main.ir.num_host_transfers = 2
    with popxl.Session(main.ir) as session:
        np.testing.assert_array_equal(session.run()[stream], [-X, X])


def test_order_follows_ops_into_a_subgraph(main):
    """before -> (a -> b moved together) -> after becomes before -> call -> after, a' -> b'."""
    x = popxl.variable(X)
    with popxl.in_sequence():
        before, a, b, after = (producer(f(x)) for f in (ops.exp, ops.sin, ops.cos, ops.tanh))
    target = main.ir.create_empty_graph("moved")
    new_a, new_b = (op.cloneIntoGraph(target._pb_graph) for op in (a, b))
    call = ops.call_with_info(main.ir.create_graph(lambda t: None, SPEC), x)._op
    main._pb_graph.topoCons().transferToSubgraph(call, {a: [new_a], b: [new_b]}, True)
    assert new_b._pb.after == [new_a._pb]
    assert new_a._pb.after == []
    assert call._pb.after == [before._pb]
    assert after._pb.after == [call._pb]
    for op in (a, b):
        assert op._pb.after == []
        main._pb_graph.eraseOp(op.id)
    kinds = [op.opType() for op in main._pb_graph.getOpSchedule()]
    assert kinds == ["Exp", "Call", "Tanh"]


def body(carried, fixed):
    return carried * fixed


def test_loop_signature(main):
    """A second value is carried through a loop that exists already."""
    graph = main.ir.create_graph(body, SPEC, SPEC)
    x, y = popxl.variable(X), popxl.variable(2 * np.ones(3, np.float32))
    info = ops.repeat_with_info(graph, 3, x, y)
    loop, wrapper = info._op, info.called_graph
    assert isinstance(loop, _ir.op.LoopOp)
    assert (loop.getNumExplicitInputs(), loop.getTripCountValue()) == (3, 3)
    assert loop.getCalledGraph() == wrapper._pb_graph
    z = popxl.variable(5 * X)
    inner = wrapper._create_tensor_id("z_inside")
    loop.addLoopInput(3, z.id, inner, False)
    assert info.inputs == (x, z, y)
    assert [t.name for t in wrapper.inputs[3:]] == ["z_inside", y.name]
    with wrapper:
        changed = wrapper.get_tensor(inner) + 1
    loop.addLoopOutput(1, main._create_tensor_id("z_outside"), changed.id, False)
    assert loop.getNumExplicitInputs() == 4
    assert wrapper.outputs[2] is changed
    assert [t.name for t in info.outputs][1] == "z_outside"
    streams = [stored(t) for t in info.outputs]
    loop.setTripCountValue(4)
    with popxl.Session(main.ir) as session:
        results = session.run()
    np.testing.assert_array_equal(results[streams[0]], 16 * X)
    np.testing.assert_array_equal(results[streams[1]], 5 * X + 4)


def test_removing_from_a_loop(main):
    """What the loop gained it can lose, also when marks on later inputs move."""
    graph = main.ir.create_graph(body, SPEC, SPEC)
    x, y = popxl.variable(X), popxl.variable(2 * np.ones(3, np.float32))
    info = ops.repeat_with_info(graph, 3, x, y)
    loop, wrapper = info._op, info.called_graph
    loop.addModified(3, [_ir.view.Region.getFull((3,))])
    assert loop.modifiesIndex(3)
    loop.addLoopInput(3, x.id, wrapper._create_tensor_id("extra"), False)
    assert [loop.modifiesIndex(i) for i in (2, 3, 4)] == [False, False, True]
    loop.addLoopInput(3, y.id, wrapper._create_tensor_id("instead"), True)
    assert info.inputs == (x, y, y)
    loop.removeLoopInput(3)
    assert info.inputs == (x, y)
    assert loop.modifiesIndex(3)
    loop.addLoopOutput(1, main._create_tensor_id("same"), wrapper.outputs[1].id, False)
    assert (len(info.outputs), len(wrapper.outputs)) == (2, 3)
    loop.removeLoopOutput(1)
    assert (len(info.outputs), len(wrapper.outputs)) == (1, 2)
    stream = stored(info.outputs[0])
    with pytest.raises(popart.popart_exception, match="at least 2"):
        loop.addLoopInput(1, x.id, "anything", False)
    with popxl.Session(main.ir) as session:
        np.testing.assert_array_equal(session.run()[stream], 8 * X)


def test_modified_inputs_of_a_call(main):
    def increment(t):
        part = ops.slice_(t, 0, 2)
        part += 1

    graph = main.ir.create_graph(increment, SPEC)
    v = popxl.variable(X)
    call = ops.call_with_info(graph, v)._op
    regions = graph.inputs[0]._pb_tensor.modifiedRegionsByOps(graph._pb_graph.getOps())
    assert regions == [_ir.view.Region.getFull((3,))]
    assert graph.inputs[0]._pb_tensor.isModified()
    assert graph.inputs[0]._pb_tensor.isAliased()
    assert v._pb_tensor.modifiedRegionsByOps([call]) == []
    call.addModified(0, [_ir.view.Region.getEmpty(1)])
    assert not call.modifiesIndex(0)
    assert _ir.view.Region.getEmpty(1).isEmpty()
    call.addModified(0, regions)
    assert call.modifiesIndex(0)
    assert call.overwritesTensor(v._pb_tensor)
    assert len(v._pb_tensor.modifiedRegionsByOps([call])) == 1
    with popxl.Session(main.ir) as session:
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), X + np.array([1, 1, 0]))


def test_gradients_of_a_rewired_graph():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda a: ops.exp(a), SPEC)
    op = producer(graph.outputs[0])
    with graph:
        doubled = graph.inputs[0] * 2
    op.connectInTensor(0, doubled.id)
    info = popxl.transforms.autodiff(graph)
    with ir.main_graph:
        call = ops.call_with_info(graph, popxl.variable(X))
        (gradient,) = ops.call(
            info.graph, popxl.constant(np.ones(3, np.float32)), inputs_dict=info.inputs_dict(call)
        )
        stream = stored(gradient)
    with popxl.Session(ir) as session:
        np.testing.assert_allclose(session.run()[stream], 2 * np.exp(2 * X), rtol=1e-5)


def test_factories_of_ops(main):
    """The order that custom ops follow: settings, creation, `_op_created`, tensor."""
    seen = []
    main.register_op_created_hook(seen.append)
    context = get_current_context()
    x = popxl.variable(X)
    with popxl.name_scope("layer"), popxl.ipu(1):
        settings = context._get_op_settings("clip")
        out = main._create_tensor_id("clipped")
        op = _ir.op.ClipOp.createOpInGraph(main._pb_graph, {0: x.id}, {0: out}, 1.5, 2.5, settings)
        context._op_created(op)
    assert seen == [op]
    result = Tensor._from_pb_tensor(op.outTensor(0))
    assert (result.id, op.name(), op.getVirtualGraphId()) == ("layer/clipped", "layer/clip", 1)
    assert isinstance(op, _ir.op.ClipOp)
    assert "test_graph_surgery.py" in repr(op)
    with popxl.ipu(1):
        stream = stored(result)
    with pytest.raises(TypeError, match="settings"):
        _ir.op.ClipOp.createOpInGraph(main._pb_graph, {0: x.id}, {}, 1.5)
    with pytest.raises(TypeError, match="at most the attributes"):
        _ir.op.NegOp.createOpInGraph(main._pb_graph, {0: x.id}, {}, 1.5, settings)
    with popxl.Session(main.ir) as session:
        np.testing.assert_array_equal(session.run()[stream], np.clip(X, 1.5, 2.5))
