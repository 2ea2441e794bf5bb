"""Members of Ir, Graph and Module."""

import inspect

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.typing_ import NewAliasAnnotation

SPEC = popxl.TensorSpec((2,), popxl.float32)


def test_replication_factors():
    assert (popxl.Ir().replication_factor, popxl.Ir().instance_replication_factor) == (1, 1)
    ir = popxl.Ir(4)
    assert (ir.replication_factor, ir.instance_replication_factor) == (4, 4)
    ir.replication_factor = 2
    assert (ir.replication_factor, ir.instance_replication_factor) == (2, 2)
    options = ir._pb_ir.getSessionOptions()
    assert (options.replicatedGraphCount, options.enableReplicatedGraphs) == (2, True)
    # One of several instances has a part of the replicas.
    options.enableDistributedReplicatedGraphs = True
    options.globalReplicationFactor = 8
    assert (ir.replication_factor, ir.instance_replication_factor) == (8, 2)
    assert options.getGlobalReplicationFactor() == 8


def test_the_replication_factor_is_fixed_by_a_session():
    ir = popxl.Ir()
    with ir.main_graph:
        popxl.variable(1.0) + 1
    popxl.Session(ir)
    with pytest.raises(RuntimeError, match="once a session exists"):
        ir.replication_factor = 2


def test_streams_in_use():
    ir = popxl.Ir()
    with ir.main_graph:
        x, unused = (popxl.h2d_stream((2,), popxl.float32, name) for name in ("x", "unused"))
        y, never = (popxl.d2h_stream((2,), popxl.float32, name) for name in ("y", "never"))
        assert ir.get_all_h2d_streams() == set()
        assert ir.get_all_d2h_streams() == set()

        def body():
            ops.host_store(y, ops.host_load(x))

        graph = ir.create_graph(body)
        ops.call(graph)
        ops.host_load(x)
    assert ir.get_all_h2d_streams() == {x}
    assert ir.get_all_d2h_streams() == {y}
    assert unused not in ir.get_all_h2d_streams()
    assert never not in ir.get_all_d2h_streams()
    (found,) = ir.get_all_h2d_streams()
    assert isinstance(found, popxl.HostToDeviceStream)
    assert {x: 1}[found] == 1
    assert str(found) == f"HostToDeviceStream {found._stream_tensor!r}"
    with pytest.raises(NotImplementedError):
        popxl.streams.Stream()


def test_called_graphs():
    ir = popxl.Ir()
    inner = ir.create_graph(lambda a: a + 1, SPEC)
    outer = ir.create_graph(lambda a: ops.call(inner, *ops.call(inner, a)), SPEC)
    with ir.main_graph as main:
        x = popxl.variable(np.ones(2, np.float32))
        assert main.called_graphs == ()
        ops.call(outer, x)
        ops.call(outer, x)
        info = ops.repeat_with_info(inner, 2, x)
    assert outer.called_graphs == (inner,)
    # A repeat calls its wrapper, and that the user's graph.
    assert set(main.called_graphs) == {outer, info.called_graph}
    assert info.called_graph.called_graphs == (inner,)
    assert info.called_graph is main.called_graphs[1]


def test_contains():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda a: a + 1, SPEC)
    with ir.main_graph as main:
        v = popxl.variable(1.0)
    assert v in main
    assert v not in graph
    assert graph.inputs[0] in graph
    assert graph.outputs[0] not in main
    for wrong in ("v", 1, None):
        with pytest.raises(TypeError):
            wrong in main  # noqa: B015


def test_entering_again_adds_to_a_graph():
    ir = popxl.Ir()
    graph = ir.create_empty_graph("f")
    with graph as entered:
        assert entered is graph
        a = popxl.graph_input((2,), popxl.float32, "a")
    with graph:
        b = popxl.graph_input((2,), popxl.float32, "b")
        popxl.graph_output(a + b)
    assert graph.inputs == (a, b)
    assert graph.inputs_by_name == {"a": a, "b": b}
    assert ir.main_graph.inputs_by_name == {}
    other = popxl.Ir()
    with other.main_graph, pytest.raises(RuntimeError, match="belongs to"), graph:
        pass
    with other.main_graph:
        assert popxl.get_current_graph() is other.main_graph


def test_inputs_by_name_keeps_scopes():
    ir = popxl.Ir()
    with ir.create_empty_graph() as graph, popxl.name_scope("layer"):
        a = popxl.graph_input((), popxl.float32, "a")
    assert graph.inputs_by_name == {"layer/a": a}


def test_get_tensor_and_comparisons():
    ir = popxl.Ir()
    with ir.main_graph as main:
        v = popxl.variable(1.0, name="v")
    assert main.get_tensor("v") is v
    with pytest.raises(popart.popart_exception, match="w"):
        main.get_tensor("w")
    assert main != popxl.Ir().main_graph
    assert {main: 1}[ir.main_graph] == 1
    assert repr(ir) == f"Ir[id={ir.id}]"
    assert popxl.Ir().id > ir.id


def test_module_build():
    with pytest.raises(NotImplementedError):
        popxl.Module().build()
    with pytest.raises(NotImplementedError):
        popxl.Ir().create_graph(popxl.Module())

    class Scale(popxl.Module):
        def build(self, x: popxl.Tensor, factor: float = 2.0):
            self.shift = popxl.graph_input((), x.dtype, "shift")
            return x * factor + self.shift

    ir = popxl.Ir()
    module = Scale()
    first = ir.create_graph(module, SPEC)
    handle = module.shift
    second = ir.create_graph(module, SPEC, factor=3.0)
    assert (first.inputs[1], second.inputs[1]) == (handle, module.shift)
    assert handle is not module.shift
    with ir.main_graph as main:
        x = popxl.variable(np.array([1.0, 2.0], np.float32))
        stream = popxl.d2h_stream((2,), popxl.float32)
        (y,) = ops.call(first, x, inputs_dict={handle: 1.0})
        (z,) = ops.call(second, y, inputs_dict={module.shift: 0.0})
        ops.host_store(stream, z)
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[stream], [9, 15])
    # Called as a function it adds to the current graph.
    with ir.create_empty_graph() as graph:
        a = popxl.graph_input((2,), popxl.float32)
        assert module(a) in graph
        assert module.shift in graph
    assert len(main.called_graphs) == 2


def test_alias_annotations_are_unique():
    marker, other = (NewAliasAnnotation("Marker", popxl.Tensor) for _ in range(2))
    assert marker is not other
    assert inspect.isfunction(marker)
    assert marker.__name__ == "Marker"
    assert popxl.TensorByRef.__name__ == "TensorByRef"
    for function in (marker, popxl.TensorByRef):
        with pytest.raises(NotImplementedError):
            function(1)


def test_tensor_specs():
    spec = popxl.TensorSpec([2, 3], popxl.float16, [6])
    assert spec.to_tuple() == ((2, 3), popxl.float16, (6,))
    assert spec.to_dict() == {"shape": (2, 3), "dtype": popxl.float16, "meta_shape": (6,)}
    assert dict(spec) == spec.to_dict()
    assert (spec.shape, spec.dtype, spec.meta_shape) == spec.to_tuple()
    assert hash(spec) == hash(spec.to_tuple())
    assert repr(spec) == ("TensorSpec(shape=(2, 3), dtype=popxl.dtypes.float16, meta_shape=(6,))")
    assert SPEC.to_tuple() == ((2,), popxl.float32, ())
    with popxl.Ir().create_empty_graph():
        t = popxl.graph_input(**spec, name="t")
        assert (t.spec, t.name) == (spec, "t")


@pytest.mark.parametrize("replicas", [0, -1, 2**16 + 1, 2**31, 2**80])
def test_a_number_of_replicas_that_cannot_be_is_refused(replicas):
    with pytest.raises(ValueError, match=f"from 1 to 65536.* given {replicas}"):
        popxl.Ir(replicas)
    ir = popxl.Ir(2)
    with pytest.raises(ValueError, match="replication_factor"):
        ir.replication_factor = replicas
    assert ir.replication_factor == 2 and ir._pb.replication_factor == 2


@pytest.mark.parametrize("replicas", [2.0, True, None, [2]])
def test_a_number_of_replicas_is_a_whole_number(replicas):
    with pytest.raises(TypeError, match="whole number"):
        popxl.Ir(replicas)
    assert popxl.Ir(np.int64(3)).replication_factor == 3


def test_a_number_of_replicas_in_the_options_is_checked_too():
    ir = popxl.Ir()
    with ir.main_graph:
        popxl.variable(1.0) + 1
    ir._pb_ir.getSessionOptions().enableReplicatedGraphs = True
    ir._pb_ir.getSessionOptions().replicatedGraphCount = 2**31
    with pytest.raises(ValueError, match=f"from 1 to 65536; given {2**31}"):
        popxl.Session(ir)
