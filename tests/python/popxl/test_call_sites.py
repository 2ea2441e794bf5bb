"""The indices and names of call sites."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops

X = np.array([1.0, 2.0], np.float32)
SPEC = popxl.TensorSpec((2,), popxl.float32)


@pytest.fixture
def site():
    """An Ir with its main graph entered, and (a, b) -> (a + b, a)."""
    ir = popxl.Ir()
    with ir.main_graph:
        x, y = popxl.variable(X, name="x"), popxl.variable(X, name="y")
        yield ir.create_graph(lambda a, b: (a + b, a * b), SPEC, SPEC), x, y


def test_indices_of_a_call(site):
    graph, x, y = site
    info = ops.call_with_info(graph, x, y)
    for index in (0, 1):
        assert info.graph_to_parent_input_index(index) == index
        assert info.parent_to_graph_input_index(index) == index
        assert info.graph_to_parent_output_index(index) == index
        assert info.parent_to_graph_output_index(index) == index
        assert info.parent_output(index) is info.outputs[index]
        assert info.parent_output(index) is info.graph_to_parent(graph.outputs[index])
    for wrong in (-1, 2):
        with pytest.raises(IndexError):
            info.parent_output(wrong)
        with pytest.raises(IndexError):
            info.parent_input(wrong)
    with pytest.raises(ValueError):
        info.parent_to_graph(info.outputs[0])


def test_a_tensor_given_twice(site):
    graph, x, _ = site
    info = ops.call_with_info(graph, x, x)
    assert info.inputs == (x, x)
    assert info.parent_to_graph(x) is graph.inputs[0]
    with pytest.raises(popart.popart_internal_exception):
        info.set_parent_input_modified(x)


def test_indices_of_a_repeat(site):
    graph, x, y = site
    info = ops.repeat_with_info(graph, 3, x, y)
    wrapper = info.called_graph
    assert info.inputs == (x, y)
    assert len(info.outputs) == 2
    for index in (2, 3):
        assert info.graph_to_parent_input_index(index) == index
        assert info.parent_to_graph_input_index(index) == index
        assert info.parent_input(index) is info.graph_to_parent(wrapper.inputs[index])
        assert info.parent_to_graph(info.parent_input(index)) is wrapper.inputs[index]
    for index in (1, 2):
        assert info.graph_to_parent_output_index(index) == index - 1
        assert info.parent_to_graph_output_index(index - 1) == index
        assert info.graph_to_parent(wrapper.outputs[index]) is info.parent_output(index - 1)
    # The condition is no output of the op.
    with pytest.raises(IndexError):
        info.parent_output(info.graph_to_parent_output_index(0))


def test_names_of_a_repeat(site):
    graph, x, y = site
    info = ops.repeat_with_info(graph, 3, x, y)
    wrapper = info.called_graph
    assert graph.id.endswith("<lambda>_subgraph(0)")
    assert wrapper.id == f"{graph.id}__loop_wrapper_subgraph(1)"
    # A repeat's outputs always have a number of their own.
    assert [t.name for t in info.outputs] == ["add_out__t0", "mul_out__t1"]
    assert info._op.name() == f"__loop__{wrapper.id}"
    (inner,) = wrapper._pb_graph.getOps()
    assert inner.name() == f"{wrapper.id}__call__{graph.id}"
    # The inner call is created first.
    assert inner.id < info._op.id


def test_names_of_a_call(site):
    graph, x, y = site
    first, second = (ops.call_with_info(graph, x, y) for _ in range(2))
    assert [t.name for t in first.outputs] == ["add_out", "mul_out"]
    assert [t.name for t in second.outputs] == ["add_out__t0", "mul_out__t1"]
    assert first._op.name() == f"--call--{graph.id}"
    with popxl.name_scope("layer"):
        scoped = ops.call_with_info(graph, x, y)
    assert scoped.outputs[0].name == "layer/add_out"
    assert scoped._op.name() == f"layer/--call--{graph.id}"


def test_outputs_are_read_live(site):
    graph, x, y = site
    info = ops.call_with_info(graph, x, y)
    before = info.outputs
    deep = graph.ir.create_graph(lambda a: ops.sin(ops.exp(a)), SPEC)
    deep_info = ops.call_with_info(deep, x)
    taken = deep_info.outputs
    popxl.transforms.autodiff(deep)
    assert len(taken) == 1
    assert len(deep_info.outputs) == len(deep.outputs) > 1
    assert deep_info.outputs[0] is taken[0]
    assert info.outputs == before


def test_indices_of_a_conditional(site):
    graph, x, y = site
    negate = graph.ir.create_graph(lambda a: (ops.negate(a), a * 2), SPEC)
    cond = popxl.variable(True)
    info = ops.conditional_with_info(cond, graph, negate, (x, y), (y,))
    assert info.called_graph == (graph, negate)
    then_inputs, else_inputs = {0: 1, 1: 2}, {0: 3}
    for index, parent in then_inputs.items():
        assert info.graph_to_parent_input_index(index) == parent
        assert info.parent_to_graph_input_index(parent) == index
        assert info.is_parent_index_in_then_branch(parent)
    for index, parent in else_inputs.items():
        assert info.graph_to_parent_input_index(index, then_branch=False) == parent
        assert info.parent_to_graph_input_index(parent) == index
        assert not info.is_parent_index_in_then_branch(parent)
    for index in (0, 1):
        for branch in (True, False):
            assert info.graph_to_parent_output_index(index, branch) == index
            assert info.parent_to_graph_output_index(index, branch) == index
        assert info.graph_to_parent(negate.outputs[index]) is info.parent_output(index)
    assert info.parent_to_graph(y) is graph.inputs[1]
    for wrong in (lambda: info.graph_to_parent_input_index(2),
                  lambda: info.graph_to_parent_input_index(1, False),
                  lambda: info.parent_to_graph_input_index(0),
                  lambda: info.parent_to_graph_input_index(4),
                  lambda: info.graph_to_parent_output_index(2),
                  lambda: info.parent_to_graph_output_index(-1, False)):  # fmt: skip
        with pytest.raises(IndexError):
            wrong()


def test_inputs_may_be_connected_later(site):
    graph, x, y = site
    with pytest.raises(ValueError, match="Not enough inputs") as error:
        ops.call_with_info(graph, x)
    text = str(error.value)
    assert "b" in text.split("Missing inputs")[1].split("Connected inputs")[0]
    assert "x" in text.split("Connected inputs")[1]
    info = ops.call_with_info(graph, x, check_inputs=False)
    assert info.inputs == (x,)
    info._op.connectInTensor(1, y.id)
    assert info.inputs == (x, y)
    stream = popxl.d2h_stream((2,), popxl.float32)
    ops.host_store(stream, info.outputs[0])
    with popxl.Session(graph.ir) as session:
        np.testing.assert_array_equal(session.run()[stream], 2 * X)


def test_set_parent_input_modified_of_a_part():
    """Marking with inferred regions writes back the same values as marking all."""
    for infer in (False, True):
        ir = popxl.Ir()
        with ir.main_graph:
            v = popxl.variable(np.zeros(4, np.float32))

            def body(t):
                ops.add_(ops.slice_(t, 1, 3), popxl.constant([5.0, 5.0]))

            graph = ir.create_graph(body, v)
            info = ops.call_with_info(graph, v)
            assert not info._op.modifiesIndex(0)
            info.set_parent_input_modified(v, infer_modified_regions=infer)
            assert info._op.modifiesIndex(0)
        with popxl.Session(ir) as session:
            session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), [0, 5, 5, 0])
