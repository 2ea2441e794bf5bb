"""Names that programs look tensors and ops up by."""

import pytest

import popart
import popxl
from popxl import ops

SPEC = popxl.TensorSpec((2,), popxl.float32)
ZERO = [0.0, 0.0]


@pytest.fixture
def main():
    """The main graph of a new Ir, entered."""
    with popxl.Ir().main_graph as graph:
        yield graph


def names(*tensors):
    return [t.name for t in tensors]


def test_streams_and_their_transfers(main):
    x, y = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
    again, named = popxl.h2d_stream((), popxl.int32), popxl.h2d_stream((), popxl.int32, "labels")
    assert [s.tensor_id for s in (x, y, again, named)] == [
        "h2d_stream",
        "d2h_stream",
        "h2d_stream__t0",
        "labels",
    ]
    with popxl.name_scope("in"):
        loaded, other = ops.host_load(x), ops.host_load(named, "batch")
    assert names(loaded, other) == ["in/h2d_stream_hostload", "in/batch_hostload"]
    assert {"in/h2d_stream_init", "in/batch_init"} <= {t.name for t in main.tensors}
    # Streams belong to the main graph wherever they are made.
    with main.ir.create_empty_graph():
        inner = popxl.d2h_stream((), popxl.float32, "inner")
    assert inner.tensor_id == "inner"
    assert str(y) == f"DeviceToHostStream {y._stream_tensor!r}"


def test_remote_loads(main):
    buffer = popxl.remote_buffer((2,), popxl.float32, 4)
    slot = popxl.constant(1, popxl.uint32, name="slot")
    first, second, third = (
        ops.remote_load(buffer, 0),
        ops.remote_load(buffer, slot),
        ops.remote_load(buffer, 2, "mine"),
    )
    assert names(first, second, third) == [
        "id_1_offset_offset_remote_loaded",
        "id_1_offset_slot_remote_loaded",
        "mine_remote_loaded",
    ]
    assert "mine_remote_load" in {t.name for t in main.tensors}
    offsets = {t.name: t.dtype for t in main.constants}
    assert offsets == dict.fromkeys(("slot", "offset", "offset__t0"), popxl.uint32)
    assert ops.remote_load_(buffer, 0, first).name == "remote_load_inplace_out"


def test_sharded_variables():
    with popxl.Ir(2).main_graph:
        handle, shard = popxl.replica_sharded_variable(ZERO, name="w")
    assert names(handle, shard) == ["w", "w_rts_remote_loaded"]


def test_copies(main):
    v = popxl.variable(ZERO, name="v")
    assert names(ops.ipu_copy(v, 3, 0), ops.io_tile_copy(v)) == ["v_c3", "v_iotilecopy"]


def test_conditionals(main):
    x, cond = popxl.variable(ZERO), popxl.variable(True)
    then_graph = main.ir.create_graph(lambda a: (ops.exp(a), a + a), SPEC)
    else_graph = main.ir.create_graph(lambda a: (ops.sin(a), a * a), SPEC)
    made = ops.conditional(cond, then_graph, else_graph, (x,), (x,))
    assert names(*made) == ["exp_out_or_sin_out", "add_out_or_mul_out"]


def test_gradients(main):
    graph = main.ir.create_graph(lambda x: ops.sin(ops.exp(x)), SPEC)
    call = ops.call_with_info(graph, popxl.variable(ZERO))
    info = popxl.transforms.autodiff(graph)
    assert info.graph.id == f"{graph.id}_bwd"
    assert info.graph.inputs[0].id == f"{info.graph.id}/Gradient___sin_out"
    assert info.graph.outputs[0].id == f"{info.graph.id}/Gradient___x"
    # What the gradient needs of the forward graph became an output of it and of its call.
    (_, extra) = graph.outputs
    assert extra.name == "exp_out"
    assert call.outputs[1].name.startswith("autodiff_output__t")
    (gradient,) = ops.call(info.graph, popxl.constant(ZERO), inputs_dict=info.inputs_dict(call))
    assert gradient.name == "Gradient___x"


def test_numbers_restart_for_each_ir():
    def build():
        ir = popxl.Ir()
        with ir.main_graph as main:
            x = popxl.variable(ZERO)
            graph = ir.create_graph(lambda a: (a + 1, a + 2), SPEC)
            ops.repeat(graph.ir.create_graph(lambda a: a * 2, SPEC), 2, *ops.call(graph, x)[:1])
            popxl.transforms.autodiff(graph)
        return [
            (g.id, [t.id for t in g.tensors], [(op.id, op.name()) for op in g._pb_graph.getOps()])
            for g in (main, *map(popxl.Graph._from_pb, ir._pb_ir.getAllGraphs()))
        ]

    assert build() == build()


def test_default_and_taken_names(main):
    assert names(popxl.variable(0.0), popxl.constant(0.0)) == ["t", "t__t0"]
    a, b = popxl.variable(0.0, name="a"), popxl.variable(0.0, name="a")
    with popxl.name_scope("a"):
        inside = popxl.variable(0.0, name="a")
    assert names(a, b, inside) == ["a", "a__t1", "a/a"]
    with pytest.raises(popart.popart_internal_exception, match="'a'"):
        main._pb.add_input("a", a._pb.info)
