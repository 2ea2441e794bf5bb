"""The view that all kinds of ops have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pando import _core
from pando.user_location import user_location
from popart._internal import graph_view
from popart._internal.enums import DataType, ExecutionContext, TileSet
from popart._internal.settings import OperatorIdentifier, Settings
from popart._internal.tensor_view import Tensor, TensorInfo
from popart._internal.view_base import View, view_of

_TO_CORE = {
    ExecutionContext.Normal: _core.ExecutionContext.Normal,
    ExecutionContext.WeightsFromHostFragment: _core.ExecutionContext.WeightsFromHost,
    ExecutionContext.WeightsToHostFragment: _core.ExecutionContext.WeightsToHost,
}
_VIEW_KINDS = {"Concat", "Detach", "Identity", "Reshape", "Slice", "Transpose"}
# What programs know kinds as that the core calls otherwise.
NAMES_OF_KINDS = {
    "DeviceCopy": "IpuCopy",
    "SparseAccumulate": "PopartSparseAccumulate",
    "TiedGather": "PopartTiedGather",
}
_FROM_CORE = {core: internal for internal, core in _TO_CORE.items()}


_kinds: dict[str, _core.OpKind] = {}


def kind_called(name: str) -> _core.OpKind:
    """The registered kind; a library that was loaded may have added it since the last call."""
    if name not in _kinds:
        _kinds.update({kind.name: kind for kind in _core.op_kinds()})
    return _kinds[name]


def _attribute(value: Any) -> Any:
    """An argument of a custom op as the core takes it; None: it is not given."""
    if hasattr(value, "has_value"):
        value = value.value() if value.has_value() else None
    if isinstance(value, DataType):
        return _core.parse_dtype(value.value)
    return value


class Op(View):
    """An op of the core. The class of each kind is in `popart._internal.ir.op`."""

    kind: ClassVar[str] = ""

    @classmethod
    def createOpInGraph(
        cls,
        graph: graph_view.Graph,
        inputs: Mapping[int, str],
        outputs: Mapping[int, str],
        *attributes: Any,
    ) -> Any:
        """A new op between tensors given by index: id; the last argument is the settings.

        The others are the attributes of the kind, in the order of `pando._core.op_kinds()`; those
        at the end may be left out. Outputs get the ids if they are free.
        """
        if not attributes or not isinstance(attributes[-1], Settings):
            raise TypeError(f"{cls.__name__}.createOpInGraph: the last argument must be settings")
        *values, settings = attributes
        names = [name for name, _ in kind_called(cls.kind).attributes]
        if len(values) > len(names):
            raise TypeError(
                f"{cls.__name__}.createOpInGraph: wanted at most the attributes {names}; given "
                f"{values}"
            )
        given = zip(names, map(_attribute, values), strict=False)
        prefix = f"{graph._pb.id}/" if graph._pb.id else ""
        core_op = graph._pb.create_op(
            cls.kind,
            [
                graph.getTensor(inputs[i])._pb if i in inputs else None
                for i in range(max(inputs, default=-1) + 1)
            ],
            {name: value for name, value in given if value is not None},
            _context_of(settings),
            [],
            [outputs[i].removeprefix(prefix) for i in sorted(outputs)],
        )
        return view_of(core_op)

    # What and where it is.

    @property
    def id(self) -> int:
        return int(self._pb.id)

    @property
    def debugInfoId(self) -> int:
        return self.id

    @property
    def opid(self) -> OperatorIdentifier:
        return OperatorIdentifier("ai.pando", self.opType(), 1)

    @property
    def executionContext(self) -> ExecutionContext:
        return _FROM_CORE[self._pb.context.execution]

    @property
    def tileSet(self) -> TileSet:
        return TileSet.IO if self._pb.context.io_tiles else TileSet.Compute

    @property
    def vgraphId(self) -> int | None:
        device: int | None = self._pb.context.device
        return device

    def name(self) -> str:
        return str(self._pb.context.name)

    def getName(self) -> str:
        return self.name()

    def opType(self) -> str:
        return NAMES_OF_KINDS.get(self._pb.kind, str(self._pb.kind))

    def getSettings(self) -> Settings:
        """A copy of what the op was made with."""
        return Settings(
            self.getGraph(), self.name(), self.vgraphId, self.tileSet, self.executionContext
        )

    def getGraph(self) -> graph_view.Graph:
        return graph_view.Graph(self._pb.graph)

    def getIr(self) -> Any:
        return self.getGraph().getIr()

    def getCalledGraphs(self) -> list[graph_view.Graph]:
        return [graph_view.Graph(graph) for graph in self._pb.called_graphs]

    def getCalledGraphIds(self) -> list[str]:
        return [graph.id for graph in self._pb.called_graphs]

    def hasVirtualGraphId(self) -> bool:
        return self._pb.context.device is not None

    def getVirtualGraphId(self) -> int:
        if not self.hasVirtualGraphId():
            raise _core.popart_internal_exception(f"{self._pb.describe()} has no virtual graph id")
        return int(self._pb.context.device)

    def setVirtualGraphId(self, device: int) -> None:
        self._pb.context.device = device

    def getIntrospectionInVirtualGraphId(self, index: int) -> int:
        """The virtual device of input `index`; that of the op when nothing determines it."""
        device = self.inTensor(index).getVirtualGraphIdUnsafe()
        return device if device >= 0 or self.vgraphId is None else self.vgraphId

    def hasPipelineStage(self) -> bool:
        """Never: pipelines are made of graphs, not of marks on ops."""
        return False

    # Tensors by index.

    def getInputTensors(self) -> list[Tensor]:
        return list(self.getInputIndexMap().values())

    def getOutputTensors(self) -> list[Tensor]:
        return list(self.getOutputIndexMap().values())

    def getInputIndexMap(self) -> dict[int, Tensor]:
        return {i: Tensor(t) for i, t in enumerate(self._pb.inputs) if t is not None}

    def getOutputIndexMap(self) -> dict[int, Tensor]:
        return {i: Tensor(t) for i, t in enumerate(self._pb.outputs) if t is not None}

    def hasInput(self, index: int) -> bool:
        return index in self.getInputIndexMap()

    def hasOutput(self, index: int) -> bool:
        return index in self.getOutputIndexMap()

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
        return len(self.getInputIndexMap())

    def outTensorCount(self) -> int:
        return len(self.getOutputIndexMap())

    def hasInputTensor(self, tensor: Tensor) -> bool:
        return bool(self.inIndex(tensor))

    def inIndex(self, tensor: Tensor) -> list[int]:
        return [i for i, other in self.getInputIndexMap().items() if other == tensor]

    def firstInIndex(self, tensor: Tensor) -> int:
        indices = self.inIndex(tensor)
        if not indices:
            raise _core.popart_internal_exception(
                f"tensor '{tensor.id}' is no input of {self._pb.describe()}"
            )
        return indices[0]

    def outIndex(self, tensor: Tensor) -> list[int]:
        return [i for i, other in self.getOutputIndexMap().items() if other == tensor]

    def modifiesIndex(self, index: int) -> bool:
        return index in self._pb.modified_inputs

    def overwritesTensor(self, tensor: Tensor) -> bool:
        return any(self.modifiesIndex(index) for index in self.inIndex(tensor))

    # Rewiring. A session orders and checks the graphs in which this happened.

    def _tensor_named(self, tensor_id: str) -> _core.Tensor:
        return self.getGraph().getTensor(tensor_id)._pb

    def _changed(self) -> None:
        self._owner._rewired.add(self._pb.graph.id)

    def cloneIntoGraph(self, graph: graph_view.Graph) -> Any:
        """A copy in `graph` (of the same Ir) under a new id that is connected to nothing."""
        if graph._owner is not self._owner:
            raise _core.popart_exception(
                f"cloneIntoGraph: {self._pb.describe()} and graph '{graph.id}' are of different Irs"
            )
        clone = view_of(graph._pb.clone_unconnected(self._pb))
        clone._changed()
        return clone

    def connectInTensor(self, index: int, tensor_id: str) -> None:
        """Connects input `index`, in place of what it was connected to."""
        self._pb.set_input(index, self._tensor_named(tensor_id))
        self._changed()

    def disconnectInTensor(self, index: int | Tensor, tensor: Tensor | None = None) -> None:
        """Disconnects one index, or every index of a tensor."""
        indices = self.inIndex(index) if isinstance(index, Tensor) else [index]
        if tensor is not None and not set(indices) <= set(self.inIndex(tensor)):
            raise _core.popart_internal_exception(
                f"input {indices[0]} of {self._pb.describe()} is not '{tensor.id}'"
            )
        for i in indices:
            self._pb.set_input(i, None)
        self._changed()

    def disconnectAllInputs(self) -> None:
        for i in self.getInputIndexMap():
            self._pb.set_input(i, None)
        self._changed()

    def connectOutTensor(self, index: int, tensor_id: str) -> None:
        """Makes a tensor that no op makes output `index`."""
        self._pb.set_output(index, self._tensor_named(tensor_id))
        self._changed()

    def createAndConnectOutTensor(self, index: int, tensor_id: str) -> None:
        """Output `index` becomes a new tensor, whose shape and dtype `setup` finds."""
        info = _core.TensorInfo(_core.DType.float32, [])
        self._pb.set_output(index, self._pb.graph.add_activation(tensor_id, info))
        self._changed()

    def disconnectOutTensor(self, tensor: Tensor) -> None:
        """The tensor stays, and no op makes it."""
        indices = self.outIndex(tensor)
        if not indices:
            raise _core.popart_internal_exception(
                f"tensor '{tensor.id}' is no output of {self._pb.describe()}"
            )
        for index in indices:
            self._pb.set_output(index, None)
        self._changed()

    def disconnectAllOutputs(self) -> None:
        for tensor in self.getOutputTensors():
            self.disconnectOutTensor(tensor)

    def setup(self) -> None:
        """Gives the outputs the shapes and dtypes that follow from the inputs."""
        self._pb.infer_outputs()

    # Kinds.

    def isElementWiseUnary(self) -> bool:
        kind = kind_called(self._pb.kind)
        return bool(kind.is_pointwise and kind.max_inputs == 1)

    def isNorm(self) -> bool:
        kinds = ("GroupNormalization", "BatchNormalization", "BatchNormalizationTraining")
        return self._pb.kind in kinds

    def isInplaceViewChange(self) -> bool:
        return self._pb.kind.endswith("Inplace") and self._is_view()

    def isOutplaceViewChange(self) -> bool:
        return not self._pb.kind.endswith("Inplace") and self._is_view()

    def _is_view(self) -> bool:
        return self._pb.kind.removesuffix("Inplace") in _VIEW_KINDS

    def isLossOp(self) -> bool:
        return self._pb.kind in ("Nll", "NlllWithSoftmaxGradDirect")

    def isOptimizerOp(self) -> bool:
        names = ("Accumulat", "Adam", "CopyVarUpdate", "SparseAccumulate")
        return str(self._pb.kind).startswith(names)

    def requiresRandomSeed(self) -> bool:
        return self._pb.kind in ("Dropout", "ShapedDropout", "RandomNormal", "RandomUniform")

    def hasSideEffect(self) -> bool:
        return bool(kind_called(self._pb.kind).has_side_effects)

    def __repr__(self) -> str:
        return str(self._pb.describe())


def _context_of(settings: Settings) -> _core.OpContext:
    file, line, function = user_location()
    return _core.OpContext(
        name=settings.name,
        file=file,
        line=line,
        function=function,
        device=settings.vgraphId,
        io_tiles=settings.tileSet is TileSet.IO,
        execution=_TO_CORE.get(settings.executionContext, _core.ExecutionContext.Normal),
    )
