"""call, repeat and conditional."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check_gradient, outputs, random, run

X = random(2, 3)


def scale_graph(ir, by_ref=False):
    """(x, w) -> x * w; with by_ref also w += 1."""
    graph = ir.create_empty_graph("scale")
    with graph, popxl.in_sequence():
        x = popxl.graph_input((2, 3), popxl.float32, "x")
        w = popxl.graph_input((), popxl.float32, "w", by_ref=by_ref)
        y = ops.mul(x, w)
        if by_ref:
            ops.add_(w, popxl.constant(1.0, popxl.float32))
        popxl.graph_output(y)
    return graph


@pytest.mark.parametrize("by_ref", [False, True])
def test_call(by_ref):
    def build(x, w):
        graph = scale_graph(popxl.gcg().ir, by_ref)
        (first,) = ops.call(graph, x, w)
        (second,) = ops.call(graph, inputs_dict={graph.inputs[1]: w, graph.inputs[0]: first})
        return second

    (y,), (_, w) = run(build, X, np.array(2.0, np.float32))
    np.testing.assert_allclose(y, X * (6 if by_ref else 4), rtol=1e-6)
    assert w == (4 if by_ref else 2)


def test_set_parent_input_modified():
    def build(w):
        graph = popxl.gcg().ir.create_empty_graph("increment")
        with graph:
            t = popxl.graph_input((), popxl.float32)
            ops.add_(t, popxl.constant(1.0, popxl.float32))
        info = ops.call_with_info(graph, w)
        info.set_parent_input_modified(w)
        assert info.outputs == ()
        with pytest.raises(popart.popart_internal_exception):
            info.set_parent_input_modified(popxl.constant(0.0))

    assert run(build, np.array(2.0, np.float32))[1][0] == 3


def test_call_site_info():
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X, name="x"), popxl.variable(2.0, name="w")
        graph = scale_graph(ir)
        info = ops.call_with_info(graph, x, w)
        assert info.called_graph == graph
        assert info.inputs == (x, w)
        assert info.graph_to_parent(graph.inputs[1]) == w
        assert info.graph_to_parent(graph.outputs[0]) == info.outputs[0]
        assert info.parent_to_graph(x) == graph.inputs[0]
        assert info.parent_input(1) == w
        assert info.outputs[0].name == graph.outputs[0].name
        assert info._op.opType() == "Call"
        with pytest.raises(IndexError):
            info.parent_input(2)
        with pytest.raises(ValueError, match="not an input or output"):
            info.graph_to_parent(x)


def test_call_errors():
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X, name="x"), popxl.variable(2.0, name="w")
        graph = scale_graph(ir)
        a, b = graph.inputs
        with pytest.raises(ValueError, match="Too many inputs"):
            ops.call(graph, x, w, w)
        with pytest.raises(ValueError, match="Not enough inputs"):
            ops.call(graph, x)
        with pytest.raises(ValueError, match="specified twice"):
            ops.call(graph, x, w, inputs_dict={b: w})
        with pytest.raises(ValueError, match="not in the called graph"):
            ops.call(graph, x, inputs_dict={x: w})
        with pytest.raises(ValueError, match="not in the current graph"):
            ops.call(graph, a, w)
        with pytest.raises(popart.popart_exception, match="does not match callee input"):
            ops.call(graph, w, w)
        with pytest.raises(TypeError, match="could not be coerced"):
            ops.call(graph, x, "text")
        (y,) = ops.call(graph, x, 3)
        assert y.shape == (2, 3)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_repeat(count):
    def build(x, w):
        return ops.repeat(scale_graph(popxl.gcg().ir), count, x, w)

    np.testing.assert_allclose(outputs(build, X, np.array(2.0, np.float32))[0], X * 2**count)


def test_repeat_by_reference():
    def build(x, w):
        return ops.repeat(scale_graph(popxl.gcg().ir, True), 3, x, w)

    (y,), (_, w) = run(build, X, np.array(2.0, np.float32))
    np.testing.assert_allclose(y, X * 2 * 3 * 4, rtol=1e-6)
    assert w == 5


def test_repeat_info_and_errors():
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X, name="x"), popxl.variable(2.0, name="w")
        graph = scale_graph(ir)
        info = ops.repeat_with_info(graph, 3, x, w)
        wrapper = info.called_graph
        assert wrapper.id.startswith(f"{graph.id}__loop_wrapper_subgraph")
        assert [t.name for t in wrapper.inputs] == ["Iterator___", "LoopCond___", "x", "w"]
        assert info.parent_input(2) == x
        assert info.inputs == (x, w)
        assert info.graph_to_parent(wrapper.inputs[3]) == w
        assert info.graph_to_parent(wrapper.outputs[1]) == info.outputs[0]
        assert info._op.getTripCountValue() == 3
        for index in (0, 1):
            with pytest.raises(IndexError):
                info.parent_input(index)
        with pytest.raises(ValueError):
            info.graph_to_parent(graph.inputs[0])
        with pytest.raises(ValueError, match="Repeat count must be >= 0"):
            ops.repeat(graph, -1, x, w)


@pytest.mark.parametrize("choice", [True, False])
def test_conditional(choice):
    def build(cond, x, w):
        ir = popxl.gcg().ir
        then_graph = scale_graph(ir)
        else_graph = ir.create_empty_graph("negate")
        with else_graph:
            popxl.graph_output(ops.negate(popxl.graph_input((2, 3), popxl.float32)))
        info = ops.conditional_with_info(cond, then_graph, else_graph, (x, w), (x,))
        assert info.parent_input(0) == cond
        assert info.is_parent_index_in_then_branch(2)
        assert not info.is_parent_index_in_then_branch(3)
        assert info.graph_to_parent(else_graph.inputs[0]) == x
        assert info.outputs[0].name == "mul_out_or_negate_out"
        return info.outputs

    (y,) = outputs(build, np.array(choice), X, np.array(2.0, np.float32))
    np.testing.assert_array_equal(y, 2 * X if choice else -X)


def test_conditional_errors():
    ir = popxl.Ir()
    with ir.main_graph:
        x, w, cond = popxl.variable(X), popxl.variable(2.0), popxl.variable(True)
        graph, by_ref, empty = scale_graph(ir), scale_graph(ir, True), ir.create_empty_graph()
        with pytest.raises(ValueError, match="equally many outputs"):
            ops.conditional(cond, graph, empty, (x, w))
        with pytest.raises(NotImplementedError, match="by-reference"):
            ops.conditional(cond, graph, by_ref, (x, w), (x, w))
        info = ops.conditional_with_info(cond, graph, graph, (x, w), (x, w))
        with pytest.raises(NotImplementedError):
            info.set_parent_input_modified(x)
        with pytest.raises(IndexError):
            info.is_parent_index_in_then_branch(0)


def forward_of_branch(kind):
    """cond, x, w, b -> a conditional of sin(x) * w and x * x + b, within a larger graph."""

    def build(cond, x, w, b):
        ir = popxl.gcg().ir

        def then_branch(x, w):
            return ops.sin(x) * w

        def else_branch(x, b):
            return x * x + b

        inner = x * 2.0 if kind == "hidden" else x
        then_graph = ir.create_graph(then_branch, inner, w)
        else_graph = ir.create_graph(else_branch, inner, b)
        (y,) = ops.conditional(cond, then_graph, else_graph, (inner, w), (inner, b))
        return ops.tanh(y) + x if kind == "hidden" else y

    def reference(cond, x, w, b):
        inner = x * 2.0 if kind == "hidden" else x
        # The other branch's private input has gradient zero, not none.
        y = torch.where(cond, torch.sin(inner) * w, inner * inner + b)
        return torch.tanh(y) + x if kind == "hidden" else y

    return build, reference


@pytest.mark.parametrize("kind", ["visible", "hidden"])
@pytest.mark.parametrize("choice", [True, False])
def test_conditional_gradient(choice, kind):
    build, reference = forward_of_branch(kind)
    arrays = (random(2, 3, seed=1), random(2, 3, seed=2), random(3, seed=3))
    check_gradient(build, reference, np.array(choice), *arrays)


def test_condition_has_no_gradient():
    ir = popxl.Ir()
    with ir.main_graph:
        graph = scale_graph(ir)

        def forward(cond, x, w):
            return ops.conditional(cond, graph, graph, (x, w), (x, w))

        outer = ir.create_graph(
            forward,
            popxl.TensorSpec((), popxl.bool),
            popxl.TensorSpec(X.shape, popxl.float32),
            popxl.TensorSpec((), popxl.float32),
        )
        with pytest.raises(popart.popart_exception, match="Unable to provide required gradient"):
            popxl.transforms.autodiff(outer)
        infos = popxl.transforms.autodiff(
            outer, grads_required=outer.inputs[1:], return_all_grad_graphs=True
        )
    assert set(infos) == {outer, graph}
    assert [c.fwd_tensor for c in infos[outer].expected_outputs] == list(outer.inputs[1:])
