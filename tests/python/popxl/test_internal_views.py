"""The internal views of Irs, graphs, ops and tensors that programs look at."""

import json

import numpy as np
import pytest

import popart
import popart._internal.ir as _ir
import popxl
from popxl import ops
from popxl.ops import collectives, var_updates
from popxl.tensor import Tensor

X = np.array([[1.0, 2.0, 3.0]], np.float32)
SPEC = popxl.TensorSpec((1, 3), popxl.float32)


def producer(tensor):
    return tensor._pb_tensor.getProducer()


@pytest.fixture
def main():
    """The main graph of a new Ir, entered."""
    with popxl.Ir().main_graph as graph:
        yield graph


def test_irs(main):
    ir = main.ir
    pb = ir._pb_ir
    assert pb == ir._pb_ir
    assert len({pb, ir._pb_ir, popxl.Ir()._pb_ir}) == 2
    assert popxl.Ir._from_pb(pb) is ir
    assert pb.getId() == ir.id
    assert pb.getMainGraph() == main._pb_graph
    graph = ir.create_empty_graph("f")
    assert pb.getAllGraphs() == [main._pb_graph, graph._pb_graph]
    assert pb.getGraph(graph.id) == graph._pb_graph
    assert pb.hasGraph("f_subgraph(0)")
    assert not pb.hasGraph("g")
    with pytest.raises(popart.popart_exception, match="'g'"):
        pb.getGraph("g")
    unique = pb.createUniqueSubgraphId("f")
    assert unique == "f_subgraph(1)"
    assert not pb.hasGraph(unique)
    made = pb.createGraph(unique)
    assert popxl.Graph._from_pb(made).id == unique
    assert ir.create_empty_graph("f").id == "f_subgraph(2)"
    with pytest.raises(popart.popart_internal_exception):
        pb.createGraph(unique)
    pb.removeGraph(unique)
    assert not pb.hasGraph(unique)


def test_patterns_and_transforms_change_no_values(main):
    pb = main.ir._pb_ir
    levels = _ir.patterns.PatternsLevel
    for level in (levels.NoPatterns, levels.Minimal, levels.Default, levels.All):
        patterns = _ir.patterns.Patterns(level)
        assert patterns.enablePattern("OpToIdentity", False) is patterns
        assert patterns.enableRuntimeAsserts(False) is patterns
        pb.setPatterns(patterns)
    y = popxl.variable(X) * 2
    stream = popxl.d2h_stream(y.shape, y.dtype)
    ops.host_store(stream, y)
    pb.applyPreAliasPatterns(main._pb_graph)
    pb.applyInplacePattern(main._pb_graph)
    pb.applyTransform("Prune", main._pb_graph)
    pb.updateVertices()
    with popxl.Session(main.ir) as session:
        np.testing.assert_array_equal(session.run()[stream], 2 * X)


def test_texts_of_an_ir(main, capsys, tmp_path):
    ops.exp(popxl.variable(X, name="x"))
    logger = popart.getLogger("ir")
    logger.setLevel("INFO")
    main.ir._pb_ir.logIr()
    logger.setLevel("WARN")
    assert "Exp" in capsys.readouterr().err
    (text,) = json.loads(main.ir._pb_ir.serializeToJSON())[""]
    assert (text["type"], text["inputs"], text["outputs"]) == ("Exp", {"0": "x"}, {"0": "exp_out"})
    options = main.ir._pb_ir.getSessionOptions()
    options.logDir = str(tmp_path)
    options.dotChecks = {"MINE"}
    main.ir._pb_ir.dotCheckpoint(main.ir._pb_ir, "Mine")
    assert [path.name for path in tmp_path.iterdir()] == ["Mine_r.dot"]


def test_graphs(main):
    graph = main.ir.create_graph(lambda a: ops.exp(a + a), SPEC)
    pb = graph._pb_graph
    assert pb == graph._pb_graph
    assert popxl.Graph._from_pb(pb) is graph
    assert graph._ir is graph.ir
    assert (pb.id, str(pb.id), pb.id.str()) == (graph.id,) * 3
    assert _ir.GraphId("a") < _ir.GraphId("b")
    assert hash(_ir.GraphId("a")) == hash("a")
    assert pb.getIr() == main.ir._pb_ir
    assert pb.getScope() == graph.id
    assert graph.id in pb.getGraphString()
    kinds = [op.opType() for op in pb.getOps()]
    assert kinds == [op.opType() for op in pb.getOpSchedule(True)] == ["Add", "Exp"]
    assert [pb.getOp(i).opType() for i in pb.getOpIds()] == kinds
    with pytest.raises(popart.popart_exception, match="1"):
        pb.getOp(1)
    assert pb.getTensor(graph.inputs[0].id) == graph.inputs[0]._pb_tensor
    assert graph.inputs[0].id in pb
    assert "nothing" not in pb
    with pytest.raises(popart.popart_exception, match="nothing"):
        pb.getTensor("nothing")
    assert {t.id for t in pb.getTensors()} == {t.id for t in graph.tensors}
    ops.call(graph, popxl.variable(X))
    assert main._pb_graph.getCalledGraphs() == [pb]
    assert pb.canBeRecursivelyAutodiffed()
    pb.setCanBeRecursivelyAutodiffed(False)
    assert not pb.canBeRecursivelyAutodiffed()


def test_tensor_ids_and_references(main):
    with popxl.name_scope("a"):
        first = main._create_tensor_id("x")
        popxl.constant(1.0, name="x")
        assert (first, main._create_tensor_id()) == ("a/x", "a/t")
        assert main._create_tensor_id("x") == "a/x__t0"
    graph = main.ir.create_graph(lambda a: None, SPEC)
    assert graph._create_tensor_id("b") == f"{graph.id}/b"
    assert set(graph._by_ref_inputs) == set()
    graph._by_ref_inputs.add(graph.inputs[0])
    assert set(graph._by_ref_inputs) == {graph.inputs[0]}
    graph._by_ref_inputs.discard(graph.inputs[0])
    assert len(graph._by_ref_inputs) == 0


def test_tensors(main):
    v, c = popxl.variable(X, name="v"), popxl.constant(X, name="c")
    with popxl.ipu(2), popxl.io_tiles():
        y = v + c
        ops.exp(y)
        y * y
    pb = y._pb_tensor
    assert Tensor._from_pb_tensor(pb) is y
    assert type(Tensor._from_pb_tensor(v._pb_tensor)) is type(v)
    assert (pb.id, pb.getGraph(), pb.getIr()) == (y.id, main._pb_graph, main.ir._pb_ir)
    info = pb.info
    assert (info.shape(), info.metaShape(), info.rank()) == ((1, 3), (), 2)
    assert (info.nelms(), info.nbytes()) == (3, 12)
    assert (info.dataType(), info.data_type_lcase()) == (_ir.DataType.FLOAT, "float32")
    assert pb.hasProducer()
    assert pb.getProducer().opType() == "Add"
    # An op that uses a tensor twice is one consumer.
    assert [op.opType() for op in pb.consumers.getOps()] == ["Exp", "Mul"]
    assert not v._pb_tensor.hasProducer()
    with pytest.raises(popart.popart_internal_exception):
        v._pb_tensor.getProducer()
    assert [t._pb_tensor.tensorType() for t in (v, c, y)] == ["Variable", "Const", "ActGrad"]
    assert (pb.isModified(), pb.isAliased()) == (False, False)
    assert not v._pb_tensor.tensorLocationInfo.isRemote()
    assert v._pb_tensor.isInSyncWithIPU()


def test_places_of_tensors(main):
    unused = popxl.variable(X)._pb_tensor
    v = popxl.variable(X)
    with popxl.ipu(2), popxl.io_tiles():
        y = v + 1
    for pb in (v._pb_tensor, y._pb_tensor):
        assert pb.hasVirtualGraphId()
        assert pb.getVirtualGraphId() == pb.getVirtualGraphIdUnsafe() == 2
        assert pb.getVirtualGraphIdAndTileSetUnsafe() == (2, _ir.TileSet.IO)
    moved = ops.ipu_copy(y, 4)._pb_tensor
    assert moved.getVirtualGraphId() == 4
    assert not unused.hasVirtualGraphId()
    assert unused.getVirtualGraphIdUnsafe() == -1
    assert unused.getVirtualGraphIdAndTileSetUnsafe() == (-1, _ir.TileSet.Undefined)
    with pytest.raises(popart.popart_internal_exception):
        unused.getVirtualGraphId()


def test_writes_through_aliases(main):
    v = popxl.variable(X)
    row = ops.reshape_(v, (3,))
    part = ops.slice_(row, 1, 2)
    part += 1
    reader = producer(ops.exp(popxl.variable(X)))
    write = producer(part).getGraph().getOps()[-2]
    assert write.opType() == "AddLhsInplace"
    for tensor in (v, row, part):
        regions = tensor._pb_tensor.modifiedRegionsByOps([reader, write])
        assert regions == [_ir.view.Region.getFull(tensor.shape)]
        assert tensor._pb_tensor.isModified()
        assert tensor._pb_tensor.isAliased()
    joined = ops.concat_([v, popxl.variable(X)])
    assert v._pb_tensor.isAliased()
    assert joined._pb_tensor.modifiedRegionsByOps([write]) == [_ir.view.Region.getFull((2, 3))]


def test_ops(main):
    x, w = popxl.variable(X, name="x"), popxl.variable(X.T.copy(), name="w")
    with popxl.name_scope("layer"), popxl.ipu(1), popxl.io_tiles():
        y = x @ w
    op = producer(y)
    assert op == producer(y)
    assert (op.id, op.debugInfoId) == (100, 100)
    assert (op.opType(), op.opid.type) == ("MatMul", "MatMul")
    assert op.name() == op.getName() == "layer/matmul"
    assert (op.getGraph(), op.getIr()) == (main._pb_graph, main.ir._pb_ir)
    assert op.getInputTensors() == [x._pb_tensor, w._pb_tensor]
    assert op.getInputIndexMap() == {0: x._pb_tensor, 1: w._pb_tensor}
    assert op.getOutputTensors() == [y._pb_tensor]
    assert op.getOutputIndexMap() == {0: y._pb_tensor}
    assert (op.inTensor(1), op.outTensor(0)) == (w._pb_tensor, y._pb_tensor)
    assert (op.inId(0), op.outId(0)) == ("x", y.id)
    assert (op.inInfo(0).shape(), op.outInfo(0).shape()) == ((1, 3), (1, 1))
    assert (op.inTensorCount(), op.outTensorCount()) == (2, 1)
    assert [op.hasInput(i) for i in (-1, 0, 2)] == [False, True, False]
    assert [op.hasOutput(i) for i in (0, 1)] == [True, False]
    assert op.hasInputTensor(w._pb_tensor)
    assert not op.hasInputTensor(y._pb_tensor)
    assert (op.inIndex(w._pb_tensor), op.firstInIndex(w._pb_tensor)) == ([1], 1)
    assert op.outIndex(y._pb_tensor) == [0]
    twice = producer(x + x)
    assert (twice.inIndex(x._pb_tensor), twice.firstInIndex(x._pb_tensor)) == ([0, 1], 0)
    for wrong in (lambda: op.inTensor(2), lambda: op.outTensor(1),
                  lambda: op.firstInIndex(y._pb_tensor)):  # fmt: skip
        with pytest.raises(popart.popart_internal_exception):
            wrong()
    assert (op.getCalledGraphs(), op.getCalledGraphIds()) == ([], [])
    assert not op.hasPipelineStage()


def test_places_of_ops(main):
    v = popxl.variable(X)
    with popxl.ipu(1), popxl.io_tiles():
        op = producer(v + 1)
    with popxl.ipu(None):
        nowhere = producer(popxl.variable(X) + 1)
    assert op.hasVirtualGraphId()
    assert (op.getVirtualGraphId(), op.vgraphId, op.tileSet) == (1, 1, _ir.TileSet.IO)
    assert op.executionContext is _ir.ExecutionContext.Normal
    assert op.getIntrospectionInVirtualGraphId(0) == 1
    settings = op.getSettings()
    assert (settings.name, settings.vgraphId, settings.tileSet) == (
        op.name(),
        1,
        _ir.TileSet.IO,
    )
    settings.inferTensorMappingToFrom[0] = 0
    op.setVirtualGraphId(3)
    assert (op.getVirtualGraphId(), v.ipu) == (3, 3)
    assert not nowhere.hasVirtualGraphId()
    assert nowhere.vgraphId is None
    with pytest.raises(popart.popart_internal_exception):
        nowhere.getVirtualGraphId()


def test_classes_of_ops(main):
    x = popxl.variable(X)
    made = {
        "AddOp": x + x,
        "SubtractOp": x - x,
        "MulOp": x * x,
        "DivOp": x / x,
        "MatMulOp": x @ popxl.variable(X.T.copy()),
        "GeluOp": ops.gelu(x),
        "ReshapeOp": ops.reshape(x, (3,)),
        "TransposeOp": x.T,
        "SplitOp": ops.split(x, 3, axis=1)[0],
        "GatherOp": ops.gather(x, popxl.constant([0])),
        "TiedGatherOp": ops.tied_gather(x, popxl.constant([0])),
        "GroupNormOp": ops.layer_norm(x, popxl.constant(X[0]), popxl.constant(X[0])),
        "InitOp": ops.init((3,), popxl.float32),
        "IpuCopyOp": ops.ipu_copy(x, 1, 0),
        "IoTileCopyOp": ops.io_tile_copy(x),
        "AccumulateOp": var_updates.accumulate_(x, popxl.constant(X)),
        "AddLhsInplaceOp": ops.add_(x, popxl.constant(X)),
    }
    for name, tensor in made.items():
        op = producer(tensor)
        assert type(op) is getattr(_ir.op, name)
        assert isinstance(op, _ir.Op)
        others = [other for other in made if isinstance(op, getattr(_ir.op, other))]
        assert others == (["GatherOp", "TiedGatherOp"] if name == "TiedGatherOp" else [name])
    assert isinstance(producer(made["AccumulateOp"]), _ir.op.AccumulateBaseOp)
    # Kinds that only other compilers make are there to compare with.
    for name in ("MulLhsInplaceOp", "MulRhsInplaceOp", "AddRhsInplaceOp", "SumOp"):
        assert not isinstance(producer(made["MulOp"]), getattr(_ir.op, name))
    with pytest.raises(AttributeError, match="NothingOp"):
        _ir.op.NothingOp  # noqa: B018


def test_kinds_that_the_core_calls_otherwise(main):
    x = popxl.variable(X)
    made = {
        "IpuCopy": ops.ipu_copy(x, 1, 0),
        "PopartTiedGather": ops.tied_gather(x, popxl.constant([0])),
    }
    for name, tensor in made.items():
        op = producer(tensor)
        assert op.opType() == name and op.opid.type == name
        assert type(op).__name__ == f"{name}Op"
        assert type(op) is getattr(_ir.op, f"{name}Op")


@pytest.mark.parametrize(
    ("derived", "base"),
    [
        ("DetachInplaceOp", "DetachOp"),
        ("ConcatInplaceOp", "ConcatOp"),
        ("IdentityInplaceOp", "IdentityOp"),
        ("ScaledAddLhsInplaceOp", "ScaledAddOp"),
        ("ReplicatedAllReduceInplaceOp", "ReplicatedAllReduceOp"),
        ("ScatterOp", "ScatterReduceOp"),
        ("SparseAccumulateOp", "AccumulateBaseOp"),
    ],
)
def test_derived_classes(derived, base):
    assert issubclass(getattr(_ir.op, derived), getattr(_ir.op, base))
    assert not issubclass(_ir.op.ReluInplaceOp, _ir.op.ReluOp)


def test_classes_of_exchanges(main):
    buffer = popxl.remote_buffer((1, 3), popxl.float32)
    seen = []
    main.register_op_created_hook(seen.append)
    x = ops.host_load(popxl.h2d_stream((1, 3), popxl.float32))
    ops.host_store(popxl.d2h_stream((1, 3), popxl.float32), x)
    ops.remote_store(buffer, 0, x)
    ops.remote_load(buffer, 0)
    ops.remote_load_(buffer, 0, x)
    ops.remote_code_load(main.ir.create_empty_graph(), "executable")
    names = [
        "HostLoadOp", "HostStoreOp", "RemoteStoreOp", "RemoteLoadOp", "RemoteLoadInplaceOp",
        "RemoteCodeLoadOp",
    ]  # fmt: skip
    exchanges = [op for op in seen if op.opType() != "Init"]
    assert [type(op) for op in exchanges] == [getattr(_ir.op.exchange, n) for n in names]
    assert issubclass(_ir.op.exchange.RemoteLoadInplaceOp, _ir.op.exchange.RemoteLoadOp)
    assert not any(isinstance(op, _ir.op.exchange.MultiExchangeOp) for op in seen)
    with pytest.raises(AttributeError):
        _ir.op.exchange.AddOp  # noqa: B018


def test_call_sites(main):
    graph = main.ir.create_graph(lambda a, b: (a, b), SPEC, SPEC)
    x, y = popxl.variable(X), popxl.variable(X)
    call = ops.call_with_info(graph, x, y)._op
    loop = ops.repeat_with_info(graph, 2, x, y)._op
    branch = ops.conditional_with_info(popxl.variable(True), graph, graph, (x, y), (y, x))._op
    assert (call.opType(), loop.opType(), branch.opType()) == ("Call", "Loop", "If")
    for op in (call, loop):
        assert op.getCalledGraph() == op.getCalledGraphs()[0]
        assert op.getCalledGraphIds() == [op.getCalledGraph().id]
    assert branch.getCalledGraphs() == [graph._pb_graph] * 2
    for op in (branch, producer(x + y)):
        assert not hasattr(op, "getCalledGraph")
    assert [hasattr(op, "getTripCountValue") for op in (call, loop, branch)] == [False, True, False]
    # (op, graph number, op input of graph input 1, graph output of op output 1)
    for op, number, op_input, graph_output in (
        (call, 0, 1, 1),
        (loop, 0, 1, 2),
        (branch, 0, 2, 1),
        (branch, 1, 4, 1),
    ):
        assert op.subgraphInToOpInIndex(number, 1) == op_input
        assert op.opInToSubgraphInIndex(number, op_input) == 1
        assert op.opOutToSubgraphOutIndex(number, 1) == graph_output
        assert op.subgraphOutToOpOutIndex(number, graph_output) == 1
    for op in (call, loop):
        assert op.subgraphInToOpInIndex(1) == 1
        assert op.opInToSubgraphInIndex(1) == 1
        assert op.opOutToSubgraphOutIndex(0) == (1 if op == loop else 0)
        assert op.subgraphOutToOpOutIndex(1) == (0 if op == loop else 1)


def test_what_some_kinds_can_do(main):
    x = popxl.variable(X)
    copy = producer(ops.ipu_copy(x, 3, 0))
    assert (copy.getSourceIpu(), copy.getSourceIpu(x.id), copy.getDestIpu()) == (0, 0, 3)
    with pytest.raises(popart.popart_internal_exception):
        copy.getSourceIpu("other")
    copy.connectInTensor(0, x.id, 2)
    assert copy.getSourceIpu() == 2
    product = producer(x @ popxl.variable(X.T.copy()))
    assert product.useFullyConnectedPass()
    product.setUseFullyConnectedPass(False)
    assert not product.useFullyConnectedPass()
    gather = producer(ops.gather(x, popxl.constant([0])))
    for op in (product, gather):
        op.setAvailableMemoryProportion(_ir.OptionalFloat(0.5))
    # Views are made anew at every access, what was stored is not lost.
    again = main._pb_graph.getOp(product.id)
    assert again.getAvailableMemoryProportion() == _ir.OptionalFloat(0.5)
    assert not hasattr(copy, "setAvailableMemoryProportion")
    image = popxl.variable(np.ones((1, 1, 3, 3), np.float32))
    conv = producer(ops.conv(image, image))
    options = conv.getConvOptions()
    options.availableMemoryProportions = [0.25]
    conv.setConvOptions(options)
    assert conv.getConvOptions().availableMemoryProportions == [0.25]
    assert not hasattr(product, "getConvOptions")
    shown = producer(ops.print_tensor(x, title="before"))
    assert shown.getTitle() == "before"
    shown.setTitle("after")
    assert shown.getTitle() == "after"


def test_groups_of_collectives():
    ir = popxl.Ir(4)
    with ir.main_graph:
        x = popxl.variable(X)
        for stride, size in ((1, 4), (2, 2)):
            op = producer(
                collectives.replicated_all_reduce(x, group=ir.replica_grouping(stride, size))
            )
            grouping = op.getReplicaGrouping()
            assert (grouping.getStride(), grouping.getGroupSize()) == (stride, size)
            assert grouping.getNumReplicas() == 4
            assert op.getCommSize() == size


def test_predicates(main):
    x = popxl.variable(X)
    seed = popxl.variable(np.array([1, 2], np.uint32))
    made = {
        "exp": ops.exp(x),
        "norm": ops.layer_norm(x, popxl.constant(X[0]), popxl.constant(X[0])),
        "view": ops.reshape_(x, (3,)),
        "copy": ops.reshape(x, (3,)),
        "loss": ops.nll_loss(ops.softmax(x, 1), popxl.constant([0])),
        "update": var_updates.accumulate_(x, popxl.constant(X)),
        "random": ops.dropout(x, seed, 0.5),
        "print": ops.print_tensor(x),
    }
    predicates = {
        "isElementWiseUnary": {"exp"},
        "isNorm": {"norm"},
        "isInplaceViewChange": {"view"},
        "isOutplaceViewChange": {"copy"},
        "isLossOp": {"loss"},
        "isOptimizerOp": {"update"},
        "requiresRandomSeed": {"random"},
        "hasSideEffect": {"print"},
    }
    for predicate, wanted in predicates.items():
        assert {n for n, t in made.items() if getattr(producer(t), predicate)()} == wanted
