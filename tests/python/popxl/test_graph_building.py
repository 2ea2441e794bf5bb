"""Names, ids, reprs, identity and the rules of graph building."""

import functools
import weakref

import numpy as np
import pytest

import popxl
from popxl.context import create_op
from popxl.tensor import Constant, Tensor, Variable


def add(a, b):
    op = create_op("Add", [a, b], {}, names=["add_out"], settings_name="add")
    return Tensor._from_pb(op.outputs[0])


def scalar_input(name):
    return popxl.graph_input((), popxl.float32, name)


def test_top_level_names():
    for name in popxl.__all__:
        assert hasattr(popxl, name)
    assert not hasattr(popxl, "Variable")
    assert callable(popxl.remote_buffer)
    assert callable(popxl.transforms.autodiff)


def test_collisions_count_per_ir():
    for _ in range(2):
        ir = popxl.Ir()
        with ir.main_graph:
            names = [popxl.variable(0.0, name="tensor").name for _ in range(3)]
        assert names == ["tensor", "tensor__t0", "tensor__t1"]


def test_scopes_ids_and_op_names():
    ir = popxl.Ir()
    ops = []
    ir.main_graph.register_op_created_hook(ops.append)
    with ir.main_graph, popxl.name_scope("a"), popxl.name_scope("b"):
        x = popxl.variable(1.0, name="x")
        y = add(x, x)
    assert x.id == "a/b/x"
    assert y.id == "a/b/add_out"
    assert ops[0].name() == "a/b/add"
    assert ops[0].id == 100
    assert ops[0].opType() == "Add"


def test_graph_ids_and_reprs():
    ir = popxl.Ir()
    graph = ir.create_empty_graph()
    assert graph.id == graph.name == "graph_subgraph(0)"
    assert repr(graph) == "Graph[id=graph_subgraph(0) name=graph_subgraph(0)]"
    assert ir.main_graph.id == ""
    with ir.main_graph:
        bob = popxl.variable([1], name="bob")
        two = popxl.constant(2.0, name="two")
    assert repr(bob) == "Variable[bob popxl.dtypes.int32 (1,)]"
    assert repr(two) == "Constant[two popxl.dtypes.float32 ()]"
    assert str(bob) == f"{bob}" == "Tensor[bob popxl.dtypes.int32 (1,)]"
    assert str(two) == "Tensor[two popxl.dtypes.float32 ()]"
    inner = ir.create_graph(lambda a: a, bob)
    assert inner.id == "test_graph_ids_and_reprs.<lambda>_subgraph(1)"
    assert repr(inner.inputs[0]) == f"Tensor[{inner.id}/a popxl.dtypes.int32 (1,)]"
    assert inner.inputs[0].name == "a"
    assert inner.inputs[0].scope == inner.id


def test_one_python_object_per_tensor():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones(3), name="v")
        c = popxl.constant(2)
    assert ir.main_graph.get_tensor("v") is v
    assert ir.main_graph.tensors == (c, v)
    assert ir.main_graph.variables == (v,)
    assert ir.main_graph.constants == (c,)
    assert isinstance(v, Variable)
    assert isinstance(c, Constant)
    assert v != 1
    assert len({v, c, ir.main_graph, ir}) == 4


def test_ir_is_freed_with_its_last_handle():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones(3))
    reference = weakref.ref(ir)
    del ir
    alive = v.ir is reference()
    assert alive
    del v
    assert reference() is None


def test_create_graph_arguments():
    ir = popxl.Ir()
    spec = popxl.TensorSpec((2,), popxl.float16)
    seen = {}

    def build(a, xs, n, by_ref: popxl.TensorByRef, refs: list[popxl.TensorByRef], *rest, **named):
        seen.update(xs=xs, n=n, rest=rest, named=named)
        return [a, *xs]

    graph = ir.create_graph(build, spec, [spec, spec], 3, spec, (spec,), spec, key=spec)
    names = [t.name for t in graph.inputs]
    assert names == ["a", "xs_0", "xs_1", "by_ref", "refs_0", "rest_0", "key"]
    assert isinstance(seen["xs"], list)
    assert seen["n"] == 3
    assert list(seen["named"]) == ["key"]
    assert {t.name for t in graph._by_ref_inputs} == {"by_ref", "refs_0"}
    assert graph.outputs == graph.inputs[:3]
    graph._by_ref_inputs.add(graph.inputs[0])
    assert graph.inputs[0] in graph._by_ref_inputs


def test_create_graph_errors():
    ir = popxl.Ir()
    spec = popxl.TensorSpec((2,), popxl.float32)
    with pytest.raises(TypeError, match="__qualname__"):
        ir.create_graph(functools.partial(lambda a: a, spec))
    with pytest.raises(ValueError, match="do not fit"):
        ir.create_graph(lambda a: a)
    with pytest.raises(TypeError, match="mixes"):
        ir.create_graph(lambda xs: None, [spec, 1])
    with pytest.raises(ValueError, match="must return"):
        ir.create_graph(lambda a: 3, spec)
    with ir.main_graph:
        outer = popxl.variable(1.0)
    with pytest.raises(ValueError, match="not in the current graph"):
        ir.create_graph(lambda a: outer, spec)


def test_module_names_its_graph():
    class Linear(popxl.Module):
        def build(self, x):
            self.w = popxl.graph_input(x.shape, x.dtype, "w")
            return add(x, self.w)

    ir = popxl.Ir()
    layer = Linear()
    graph = ir.create_graph(layer, popxl.TensorSpec((2,), popxl.float32))
    assert graph.id == "test_module_names_its_graph.Linear_subgraph(0)"
    assert graph.inputs[1] is layer.w


def test_contexts():
    with pytest.raises(RuntimeError, match="no graph has been selected"):
        popxl.gcg()
    ir, other = popxl.Ir(), popxl.Ir()
    graph = ir.create_empty_graph()
    with ir.main_graph as main, graph:
        assert popxl.gcg() is graph
        assert popxl.gmg() is main
        assert popxl.gir() is ir
        with pytest.raises(RuntimeError), other.main_graph:
            pass
        with pytest.raises(ValueError, match="main graph"):
            popxl.variable(1.0)
    with pytest.raises(RuntimeError):
        popxl.constant(1.0)


def test_direct_construction_is_refused():
    for kind, error in (
        (popxl.Tensor, RuntimeError),
        (popxl.Graph, TypeError),
        (popxl.dtype, TypeError),
        (popxl.ReplicaGrouping, RuntimeError),
    ):
        with pytest.raises(error):
            kind()
    with pytest.raises(TypeError):
        popxl.Ir() == 1  # noqa: B015
    with pytest.raises(TypeError):
        popxl.Ir().main_graph == 1  # noqa: B015


def test_tensor_protocol():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones((3, 4)))
        s = popxl.variable(1.0)
    assert (v.rank, v.nelms, len(v), v.shape) == (2, 12, 3, (3, 4))
    assert v.strides() == np.ones((3, 4), np.float32).strides
    with pytest.raises(ValueError, match="length"):
        len(s)
    with pytest.raises(TypeError):
        iter(v)
    with pytest.raises(TypeError):
        1 in v  # noqa: B015
    spec = v.spec
    assert dict(**spec) == {"shape": (3, 4), "dtype": popxl.float32, "meta_shape": ()}


def test_op_knows_the_user_line():
    ir = popxl.Ir()
    ops = []
    ir.main_graph.register_op_created_hook(ops.append)
    with ir.main_graph:
        v = popxl.variable(1.0)
        add(v, v)
    assert "test_graph_building.py" in repr(ops[0])


def test_hooks():
    ir = popxl.Ir()
    seen = []
    handle = ir.main_graph.register_op_created_hook(seen.append)
    with ir.main_graph:
        v = popxl.variable(1.0)
        add(v, v)
        ir.main_graph.remove_op_created_hook(handle)
        add(v, v)
    assert len(seen) == 1
    with pytest.raises(ValueError):
        ir.main_graph.remove_op_created_hook(handle)


def test_a_hook_sees_the_tensor_that_the_op_returns():
    ir = popxl.Ir()
    seen = []
    ir.main_graph.register_op_created_hook(
        lambda op: seen.append(Tensor._from_pb(op._pb.outputs[0]))
    )
    with ir.main_graph:
        v = popxl.variable(1.0)
        result = v + v
    assert seen[0] is result


def test_an_op_keeps_its_own_context():
    ir = popxl.Ir()
    ops = []
    ir.main_graph.register_op_created_hook(lambda op: ops.append(op._pb))
    with ir.main_graph:
        v = popxl.variable(1.0)
        for device in (0, 1, 0):
            with popxl.ipu(device), popxl.name_scope(f"scope{device}"):
                add(v, v)
            ops[-1].context.name += str(len(ops))
    # Ops of one line: what is changed in one shows in no other.
    assert [op.context.name for op in ops] == ["scope0/add1", "scope1/add2", "scope0/add3"]
    assert [op.context.device for op in ops] == [0, 1, 0]
    assert len({op.context.line for op in ops}) == 1


def previous(op):
    return {earlier.id for earlier in op._pb.after}


def test_in_sequence():
    ir = popxl.Ir()
    ops = []
    ir.main_graph.register_op_created_hook(ops.append)
    with ir.main_graph:
        v = popxl.variable(1.0)
        with popxl.in_sequence():
            add(v, v)  # 0
            with popxl.in_sequence(False):
                add(v, v)  # 1
                add(v, v)  # 2
            add(v, v)  # 3
            with popxl.in_sequence("pass") as mode:
                assert mode is None
                add(v, v)  # 4
            add(v, v)  # 5
    ids = [op.id for op in ops]
    assert [previous(op) for op in ops] == [
        set(),
        {ids[0]},
        {ids[0]},
        {ids[0], ids[1], ids[2]},
        set(),
        set(),
    ]
    with pytest.raises(TypeError), popxl.in_sequence(None):
        pass
    with pytest.raises(ValueError), popxl.in_sequence("yes"):
        pass


def test_ipu_and_tile_set():
    ir = popxl.Ir()
    with ir.main_graph:
        unused = popxl.variable(1.0)
        v = popxl.variable(1.0)
        with popxl.ipu(2) as device, popxl.io_tiles():
            assert device == 2
            y = add(v, v)
    assert (y.ipu, v.ipu, y.tile_set) == (2, 2, "io")
    with pytest.raises(popxl.errors.UndefinedValue):
        unused.ipu  # noqa: B018


def test_internal_views():
    import popart._internal.ir as _ir

    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(1.0)
        y = add(v, v)
    (op,) = ir.main_graph._pb_graph.getOpSchedule(True)
    assert isinstance(op, _ir.op.AddOp)
    assert not isinstance(op, _ir.op.MulOp)
    assert not hasattr(op, "getCalledGraph")
    assert Tensor._from_pb_tensor(op.outTensor(0)) is y
    assert v._pb_tensor.consumers.getOps() == [op]
    assert y._pb_tensor.info.data_type_lcase() == "float32"
    assert popxl.Graph._from_pb(op.getGraph()) is ir.main_graph
    assert [graph.id for graph in ir._pb_ir.getAllGraphs()] == [""]
    with pytest.raises(AttributeError):
        ir._pb_ir.getSessionOptions().noSuchOption = 1
