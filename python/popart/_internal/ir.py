"""camelCase views of the core's graphs for code that inspects or edits them.

A view holds nothing but the core object; two views of one object are equal.
"""

# Fields such as `fwdId` have the names that programs know.
# ruff: noqa: N815

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pando import _core
from popart._internal import op, patterns, view
from popart._internal.op_arguments import (
    AccumulationType,
    AdamMode,
    CollectiveOperator,
    InitType,
    OptionalDataType,
    OptionalFloat,
    OptionalInt,
)
from popart._internal.options import SessionOptions, VirtualGraphMode

if TYPE_CHECKING:
    from popxl.ir import Ir as PopxlIr

__all__ = [
    "AccumulationType",
    "AdamMode",
    "BwdGraphInfo",
    "CollectiveOperator",
    "DataType",
    "ExecutionContext",
    "ExpectedConnection",
    "ExpectedConnectionType",
    "Graph",
    "GraphId",
    "InitType",
    "Ir",
    "Op",
    "OperatorIdentifier",
    "OptionalDataType",
    "OptionalFloat",
    "OptionalInt",
    "ReplicaGrouping",
    "SessionOptions",
    "Settings",
    "Tensor",
    "TileSet",
    "VirtualGraphMode",
    "op",
    "op_view",
    "patterns",
    "view",
]


class DataType(enum.Enum):
    """Element types under their internal names."""

    UINT8 = "uint8"
    INT8 = "int8"
    UINT16 = "uint16"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    FLOAT = "float32"
    FLOAT16 = "float16"
    DOUBLE = "float64"
    FLOAT8_143 = "float8_143"
    FLOAT8_152 = "float8_152"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"


class ExecutionContext(enum.Enum):
    """The program an op belongs to."""

    Normal = 0
    AccumulateOuterFragment = 1
    WeightsFromHostFragment = 2
    WeightsToHostFragment = 3
    OptimizerFromHostFragment = 4
    Subgraph = 5


class TileSet(enum.Enum):
    """Which tiles of a device an op uses; metadata here."""

    Compute = 0
    IO = 1
    Undefined = 2
    N = 3


class ExpectedConnectionType(enum.Enum):
    """What an input or output of a gradient graph stands for."""

    Fwd = "Fwd"
    FwdGrad = "FwdGrad"


@dataclass(frozen=True)
class ExpectedConnection:
    """The forward tensor (by id) behind an input or output of a gradient graph."""

    fwdId: str
    type: ExpectedConnectionType


@dataclass(frozen=True)
class BwdGraphInfo:
    """The interface of a gradient graph."""

    bwdGraphId: GraphId | str
    expectedInputs: Sequence[ExpectedConnection]
    expectedOutputs: Sequence[ExpectedConnection]


class GraphId(str):
    """The id of a graph."""

    def str(self) -> str:
        return str(self)


@dataclass(frozen=True)
class OperatorIdentifier:
    """Names a kind of custom op."""

    domain: str
    type: str
    version: int
    numInputs: Any = None
    numOutputs: int = 0


@dataclass
class Settings:
    """Where and under which name a new op is made."""

    graph: Graph
    name: str
    virtual_graph_id: int | None
    tile_set: TileSet
    execution_context: ExecutionContext

    @property
    def vgraphId(self) -> int | None:
        return self.virtual_graph_id

    @property
    def tileSet(self) -> TileSet:
        return self.tile_set

    @property
    def executionContext(self) -> ExecutionContext:
        return self.execution_context


class ReplicaGrouping:
    """`numReplicas` replicas in groups of `groupSize`, members `stride` apart."""

    def __init__(self, numReplicas: int, stride: int = 1, groupSize: int | None = None) -> None:
        size = numReplicas // stride if groupSize is None else groupSize
        if numReplicas <= 0 or stride <= 0 or size <= 0 or numReplicas % (stride * size) != 0:
            raise ValueError(
                f"replica grouping: {numReplicas} replicas cannot be split into groups of {size} "
                f"with stride {stride}; stride * group size must divide the number of replicas"
            )
        self._num_replicas = numReplicas
        self._stride = 1 if size == 1 else stride
        self._group_size = size

    def getNumReplicas(self) -> int:
        return self._num_replicas

    def getStride(self) -> int:
        return self._stride

    def getGroupSize(self) -> int:
        return self._group_size

    def getNumGroups(self) -> int:
        return self._num_replicas // self._group_size


class _View:
    """Equality and hash by the core object. Keeps the Ir, which owns the object, alive."""

    def __init__(self, core: Any) -> None:
        from popxl.ir import Ir as PopxlIr

        self._pb = core
        graph = core if isinstance(core, _core.Graph) else core.graph
        self._owner = PopxlIr._from_core_id(graph.ir_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _View) and self._pb is other._pb

    def __hash__(self) -> int:
        return hash(id(self._pb))


class TensorInfo:
    """Shape and element type of a tensor."""

    def __init__(self, info: _core.TensorInfo) -> None:
        self._info = info

    def shape(self) -> tuple[int, ...]:
        return tuple(self._info.shape)

    def metaShape(self) -> tuple[int, ...]:
        return tuple(self._info.meta_shape)

    def rank(self) -> int:
        return len(self._info.shape)

    def nelms(self) -> int:
        return int(self._info.num_elements)

    def nbytes(self) -> int:
        return int(self._info.bytes)

    def data_type_lcase(self) -> str:
        return self._info.dtype.name.lower()

    def dataType(self) -> DataType:
        return DataType(self.data_type_lcase())


class _Consumers:
    def __init__(self, ops: list[Op]) -> None:
        self._ops = ops

    def getOps(self) -> list[Op]:
        return self._ops


class Tensor(_View):
    """A tensor of the core."""

    @property
    def id(self) -> str:
        return str(self._pb.id)

    @property
    def info(self) -> TensorInfo:
        return TensorInfo(self._pb.info)

    @property
    def consumers(self) -> _Consumers:
        ops = {use.id: use for use, _ in self._pb.uses}
        return _Consumers([op_view(core_op) for core_op in ops.values()])

    def getGraph(self) -> Graph:
        return Graph(self._pb.graph)

    def getIr(self) -> Ir:
        return self.getGraph().getIr()

    def hasProducer(self) -> bool:
        return self._pb.producer is not None

    def getProducer(self) -> Op:
        if self._pb.producer is None:
            raise _core.popart_internal_exception(f"tensor '{self.id}' has no producer")
        return op_view(self._pb.producer)

    def tensorType(self) -> str:
        names = {"Activation": "ActGrad", "GraphInput": "ActGrad", "Constant": "Const"}
        return names.get(self._pb.kind.name, self._pb.kind.name)

    def isModified(self) -> bool:
        return any(index in use.modified_inputs for use, index in self._pb.uses)

    def hasVirtualGraphId(self) -> bool:
        return self.hasProducer() and self._pb.producer.context.device is not None

    def getVirtualGraphId(self) -> int:
        if not self.hasVirtualGraphId():
            raise _core.popart_internal_exception(f"tensor '{self.id}' has no virtual graph id")
        return int(self._pb.producer.context.device)


class Op(_View):
    """An op of the core. Subclasses per kind are in `popart._internal.ir.op`."""

    @property
    def id(self) -> int:
        return int(self._pb.id)

    @property
    def opid(self) -> OperatorIdentifier:
        return OperatorIdentifier("ai.pando", self._pb.kind, 1)

    @property
    def executionContext(self) -> ExecutionContext:
        names = {
            "WeightsFromHost": ExecutionContext.WeightsFromHostFragment,
            "WeightsToHost": ExecutionContext.WeightsToHostFragment,
        }
        return names.get(self._pb.context.execution.name, ExecutionContext.Normal)

    @property
    def tileSet(self) -> TileSet:
        return TileSet.IO if self._pb.context.io_tiles else TileSet.Compute

    @property
    def vgraphId(self) -> int | None:
        device: int | None = self._pb.context.device
        return device

    def name(self) -> str:
        return str(self._pb.context.name)

    def opType(self) -> str:
        return str(self._pb.kind)

    def getGraph(self) -> Graph:
        return Graph(self._pb.graph)

    def getIr(self) -> Ir:
        return self.getGraph().getIr()

    def getCalledGraphs(self) -> list[Graph]:
        return [Graph(graph) for graph in self._pb.called_graphs]

    def getCalledGraphIds(self) -> list[str]:
        return [graph.id for graph in self._pb.called_graphs]

    def getInputTensors(self) -> list[Tensor]:
        return [Tensor(tensor) for tensor in self._pb.inputs if tensor is not None]

    def getOutputTensors(self) -> list[Tensor]:
        return [Tensor(tensor) for tensor in self._pb.outputs]

    def getInputIndexMap(self) -> dict[int, Tensor]:
        return {i: Tensor(t) for i, t in enumerate(self._pb.inputs) if t is not None}

    def getOutputIndexMap(self) -> dict[int, Tensor]:
        return {i: Tensor(t) for i, t in enumerate(self._pb.outputs)}

    def hasInput(self, index: int) -> bool:
        return 0 <= index < len(self._pb.inputs) and self._pb.inputs[index] is not None

    def hasOutput(self, index: int) -> bool:
        return 0 <= index < len(self._pb.outputs)

    def inTensor(self, index: int) -> Tensor:
        if not self.hasInput(index):
            raise _core.popart_internal_exception(
                f"{self._pb.describe()} has no input at index {index}"
            )
        return Tensor(self._pb.inputs[index])

    def outTensor(self, index: int) -> Tensor:
        if not self.hasOutput(index):
            raise _core.popart_internal_exception(
                f"{self._pb.describe()} has no output at index {index}"
            )
        return Tensor(self._pb.outputs[index])

    def inId(self, index: int) -> str:
        return self.inTensor(index).id

    def outId(self, index: int) -> str:
        return self.outTensor(index).id

    def inInfo(self, index: int) -> TensorInfo:
        return self.inTensor(index).info

    def outInfo(self, index: int) -> TensorInfo:
        return self.outTensor(index).info

    def inTensorCount(self) -> int:
        return len(self.getInputTensors())

    def outTensorCount(self) -> int:
        return len(self._pb.outputs)

    def hasInputTensor(self, tensor: Tensor) -> bool:
        return bool(self.inIndex(tensor))

    def inIndex(self, tensor: Tensor) -> list[int]:
        return [i for i, other in enumerate(self._pb.inputs) if other is tensor._pb]

    def firstInIndex(self, tensor: Tensor) -> int:
        indices = self.inIndex(tensor)
        if not indices:
            raise _core.popart_internal_exception(
                f"tensor '{tensor.id}' is no input of {self._pb.describe()}"
            )
        return indices[0]

    def outIndex(self, tensor: Tensor) -> list[int]:
        return [i for i, other in enumerate(self._pb.outputs) if other is tensor._pb]

    def modifiesIndex(self, index: int) -> bool:
        return index in self._pb.modified_inputs

    def overwritesTensor(self, tensor: Tensor) -> bool:
        return any(self.modifiesIndex(index) for index in self.inIndex(tensor))

    def hasVirtualGraphId(self) -> bool:
        return self._pb.context.device is not None

    def getVirtualGraphId(self) -> int:
        if not self.hasVirtualGraphId():
            raise _core.popart_internal_exception(f"{self._pb.describe()} has no virtual graph id")
        return int(self._pb.context.device)

    def setVirtualGraphId(self, device: int) -> None:
        self._pb.context.device = device

    def disconnectInTensor(self, index: int | Tensor) -> None:
        indices = self.inIndex(index) if isinstance(index, Tensor) else [index]
        for i in indices:
            self._pb.set_input(i, None)

    def disconnectAllInputs(self) -> None:
        for i in range(len(self._pb.inputs)):
            self._pb.set_input(i, None)

    def connectInTensor(self, index: int, tensor_id: str) -> None:
        self._pb.set_input(index, self.getGraph().getTensor(tensor_id)._pb)

    def _map_input(self, branch: int, index: int, to_subgraph: bool) -> int:
        """Op input index <-> called graph input index."""
        offset = 0
        if self._pb.kind == "If":
            num_then = self._pb.attributes["num_then_inputs"]
            offset = 1 if branch == 0 else 1 + num_then
        return index - offset if to_subgraph else index + offset

    def opInToSubgraphInIndex(self, *args: int) -> int:
        branch, index = args if len(args) == 2 else (0, args[0])
        return self._map_input(branch, index, to_subgraph=True)

    def subgraphInToOpInIndex(self, *args: int) -> int:
        branch, index = args if len(args) == 2 else (0, args[0])
        return self._map_input(branch, index, to_subgraph=False)

    def opOutToSubgraphOutIndex(self, *args: int) -> int:
        return args[-1] + (1 if self._pb.kind == "Loop" else 0)

    def subgraphOutToOpOutIndex(self, *args: int) -> int:
        return args[-1] - (1 if self._pb.kind == "Loop" else 0)

    def __repr__(self) -> str:
        return str(self._pb.describe())


class _TopoCons:
    def __init__(self, graph: _core.Graph) -> None:
        self._graph = graph

    def insert(self, before: Op, after: Op, tied: bool = False) -> None:
        """`before` runs before `after`; `tied` (with nothing between) cannot be promised."""
        if tied:
            raise NotImplementedError("topoCons().insert: tied constraints are not supported")
        after._pb.run_after(before._pb)


class Graph(_View):
    """A graph of the core."""

    @property
    def id(self) -> GraphId:
        return GraphId(self._pb.id)

    @property
    def name(self) -> str:
        return str(self._pb.id)

    def getIr(self) -> Ir:
        return Ir(self._owner)

    def getOps(self) -> list[Op]:
        return [op_view(core_op) for core_op in sorted(self._pb.ops, key=lambda o: o.id)]

    def getOpSchedule(self, requireOptimalSchedule: bool = True) -> list[Op]:
        """Ops in an order that respects data and sequence constraints.

        Creation order is such an order, except where an op was later told to run before another.
        """
        return [op_view(core_op) for core_op in _schedule(list(self._pb.ops))]

    def getOpIds(self) -> list[int]:
        return [core_op.id for core_op in self._pb.ops]

    def getOp(self, op_id: int) -> Op:
        core_op = self._pb.find_op(op_id)
        if core_op is None:
            raise _core.popart_exception(f"graph '{self._pb.id}' has no op with id {op_id}")
        return op_view(core_op)

    def eraseOp(self, op_id: int) -> None:
        self._pb.erase_op(self.getOp(op_id)._pb)

    def getInputIds(self) -> list[str]:
        return [tensor.id for tensor in self._pb.inputs]

    def getOutputIds(self) -> list[str]:
        return [tensor.id for tensor in self._pb.outputs]

    def getInputId(self, index: int) -> str:
        return str(self._pb.inputs[index].id)

    def getOutputId(self, index: int) -> str:
        return str(self._pb.outputs[index].id)

    def getInputIndex(self, tensor_id: str) -> int:
        return self.getInputIds().index(tensor_id)

    def getOutputIndex(self, tensor_id: str) -> int:
        return self.getOutputIds().index(tensor_id)

    def getInputTensor(self, index: int) -> Tensor:
        return Tensor(self._pb.inputs[index])

    def getOutputTensor(self, index: int) -> Tensor:
        return Tensor(self._pb.outputs[index])

    def hasInputId(self, tensor_id: str) -> bool:
        return tensor_id in self.getInputIds()

    def hasOutputId(self, tensor_id: str) -> bool:
        return tensor_id in self.getOutputIds()

    def removeInput(self, index: int | str) -> None:
        self._pb.remove_input(self.getInputIndex(index) if isinstance(index, str) else index)

    def removeOutput(self, index: int | str) -> None:
        self._pb.remove_output(self.getOutputIndex(index) if isinstance(index, str) else index)

    def markAsOutput(self, tensor_id: str) -> None:
        self._pb.mark_output(self.getTensor(tensor_id)._pb)

    def getTensor(self, tensor_id: str) -> Tensor:
        tensor = self._pb.find_tensor(tensor_id)
        if tensor is None:
            raise _core.popart_exception(f"graph '{self._pb.id}' has no tensor '{tensor_id}'")
        return Tensor(tensor)

    def __contains__(self, tensor_id: str) -> bool:
        return self._pb.find_tensor(tensor_id) is not None

    def getTensors(self) -> list[Tensor]:
        return [Tensor(tensor) for tensor in self._pb.tensors]

    def getCalledGraphs(self) -> list[Graph]:
        return [Graph(graph) for graph in self._pb.called_graphs]

    def topoCons(self) -> _TopoCons:
        return _TopoCons(self._pb)

    def removeIsolatedTensors(
        self,
        retainUsedIO: bool = False,
        retainAllIO: bool = False,
        retainVar: bool = False,
        retainConst: bool = False,
    ) -> None:
        """Drops tensors without producer and consumers; streams and graph outputs stay."""
        keep = {tensor.id for tensor in (*self._pb.inputs, *self._pb.outputs)}
        kinds = {"Stream"} | ({"Variable"} if retainVar else set())
        kinds |= {"Constant"} if retainConst else set()
        for tensor in self._pb.tensors:
            used = tensor.producer is not None or tensor.uses
            if not used and tensor.id not in keep and tensor.kind.name not in kinds:
                self._pb.erase_tensor(tensor)

    def setCanBeRecursivelyAutodiffed(self, value: bool) -> None:
        self._pb.differentiable = value

    def canBeRecursivelyAutodiffed(self) -> bool:
        return bool(self._pb.differentiable)

    def getScope(self) -> str:
        return str(self._pb.id)

    def getGraphString(self) -> str:
        return f"graph '{self._pb.id}'" if self._pb.id else "the main graph"


def _schedule(ops: list[_core.Op]) -> list[_core.Op]:
    """Creation order, with ops pulled forward only where a constraint demands it."""
    done: dict[int, _core.Op] = {}
    known = {core_op.id for core_op in ops}

    def needed(core_op: _core.Op) -> Iterable[_core.Op]:
        yield from core_op.after
        for tensor in core_op.inputs:
            if tensor is not None and tensor.producer is not None:
                yield tensor.producer

    for first in ops:
        stack = [first]
        visiting: set[int] = set()
        while stack:
            core_op = stack[-1]
            if core_op.id in done:
                stack.pop()
                continue
            missing = [o for o in needed(core_op) if o.id in known and o.id not in done]
            if not missing:
                done[core_op.id] = core_op
                stack.pop()
            elif core_op.id in visiting:
                raise _core.popart_exception(
                    f"the ops of graph '{core_op.graph.id}' cannot be scheduled: "
                    f"{core_op.describe()} must run before itself"
                )
            else:
                visiting.add(core_op.id)
                stack.extend(reversed(missing))
    return list(done.values())


class Ir:
    """The Ir of the core together with its session options."""

    def __init__(self, owner: PopxlIr) -> None:
        self._owner = owner
        self._pb = owner._pb

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ir) and self._pb is other._pb

    def __hash__(self) -> int:
        return hash(self._pb.id)

    def getId(self) -> int:
        return int(self._pb.id)

    def getSessionOptions(self) -> SessionOptions:
        return self._owner._options

    def getMainGraph(self) -> Graph:
        return Graph(self._pb.main_graph)

    def getAllGraphs(self) -> list[Graph]:
        return [Graph(graph) for graph in self._pb.graphs]

    def getGraph(self, graph_id: str) -> Graph:
        graph = self._pb.find_graph(graph_id)
        if graph is None:
            raise _core.popart_exception(f"there is no graph '{graph_id}'")
        return Graph(graph)

    def hasGraph(self, graph_id: str) -> bool:
        return self._pb.find_graph(graph_id) is not None

    def createGraph(self, graph_id: str) -> Graph:
        return Graph(self._pb.create_graph_with_id(graph_id))

    def removeGraph(self, graph_id: str) -> None:
        self._pb.erase_graph(self.getGraph(graph_id)._pb)

    def setPatterns(self, chosen: patterns.Patterns) -> None:
        """Stored; the compiler chooses its own simplifications."""
        self._owner._patterns = chosen

    def applyPreAliasPatterns(self, graph: Graph) -> None:
        """The compiler simplifies every graph when a session is made, so nothing is left to do."""

    def applyInplacePattern(self, graph: Graph) -> None:
        """The compiler decides itself which ops work in place."""

    def applyTransform(self, name: str, graph: Graph) -> None:
        """The compiler applies its transforms when a session is made."""

    def updateVertices(self) -> None:
        """Views are always up to date."""

    def logIr(self) -> None:
        """Writes every op to the logger at INFO."""
        from popart.logging_ import getLogger

        logger = getLogger("ir")
        for graph in self._pb.graphs:
            logger.info(f"graph '{graph.id}'")
            for core_op in graph.ops:
                logger.info(f"  {core_op.describe()}")


op_view: Callable[[_core.Op], Op] = op.bind(Op, Graph)
