"""Views of the kinds of ops that can do more than any op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pando import _core
from popart._internal import graph_view
from popart._internal.op_view import Op
from popart._internal.replica_grouping import ReplicaGrouping
from popart._internal.tensor_view import TensorInfo
from popart._internal.view import Region


class CallSiteOp(Op):
    """An op that runs other graphs: relates its indices to those of the graphs.

    The index functions take the number of the graph and the index; the number may be left out.
    """

    def _first_input(self, graph: int) -> int:
        """Op input index of input 0 of a called graph."""
        return 0

    # The first output of a loop's graph is its condition.
    _first_output = 0

    def opInToSubgraphInIndex(self, *graph_and_index: int) -> int:
        graph, index = (0, *graph_and_index)[-2:]
        return index - self._first_input(graph)

    def subgraphInToOpInIndex(self, *graph_and_index: int) -> int:
        graph, index = (0, *graph_and_index)[-2:]
        return index + self._first_input(graph)

    def opOutToSubgraphOutIndex(self, *graph_and_index: int) -> int:
        return graph_and_index[-1] + self._first_output

    def subgraphOutToOpOutIndex(self, *graph_and_index: int) -> int:
        return graph_and_index[-1] - self._first_output


class IfOp(CallSiteOp):
    """A conditional."""

    def _first_input(self, graph: int) -> int:
        return 1 + (int(self._pb.attributes["num_then_inputs"]) if graph else 0)


class CallOp(CallSiteOp):
    """A call."""

    def getCalledGraph(self) -> graph_view.Graph:
        return graph_view.Graph(self._pb.called_graphs[0])

    def addModified(self, index: int, regions: Sequence[Region]) -> None:
        """The final value of input `index` is written back, unless all regions are empty."""
        if all(region.isEmpty() for region in regions):
            return
        self._set_modified({*self._modified(), index})

    def _modified(self) -> set[int]:
        return set(self._pb.attributes.get("modified", ()))

    def _set_modified(self, indices: set[int]) -> None:
        self._pb.set_attribute("modified", sorted(indices))

    # Moves by one of everything from an index on.

    def _shift_inputs(self, index: int, step: int) -> None:
        inputs = list(self._pb.inputs)
        kept = inputs[:index] + ([None] if step > 0 else []) + inputs[index - min(step, 0) :]
        modified = self._modified()
        for i in range(len(inputs)):
            self._pb.set_input(i, None)
        self._pb.resize_inputs(len(kept))
        for i, tensor in enumerate(kept):
            self._pb.set_input(i, tensor)
        gone = {index} if step < 0 else set()
        self._set_modified({m + (step if m >= index else 0) for m in modified - gone})

    def _shift_outputs(self, index: int, step: int) -> None:
        outputs = list(self._pb.outputs)
        kept = outputs[:index] + ([None] if step > 0 else []) + outputs[index - min(step, 0) :]
        for i in reversed(range(len(outputs))):
            self._pb.set_output(i, None)
        for i, tensor in enumerate(kept):
            if tensor is not None:
                self._pb.set_output(i, tensor)


class LoopOp(CallOp):
    """A repeat. Inputs 0 and 1 of op and graph are the iteration number and the condition."""

    _first_output = 1

    def getTripCountValue(self) -> int:
        return int(self._pb.attributes["trip_count"])

    def setTripCountValue(self, count: int) -> None:
        self._pb.set_attribute("trip_count", count)

    def getNumExplicitInputs(self) -> int:
        """Inputs that each iteration gets from the one before, and the two of the loop itself."""
        return 2 + len(self.getCalledGraph()._pb.outputs) - 1

    def addLoopInput(self, index: int, tensor_id: str, graph_id: str, overwrite: bool) -> None:
        """Passes a tensor in at `index`, to a new input `graph_id` of the graph at that index.

        Later inputs move up; with `overwrite` what is at the index is replaced.
        """
        if index < 2:
            raise _core.popart_internal_exception(
                f"addLoopInput: wanted an index of at least 2, after the iteration number and the "
                f"condition; given {index}"
            )
        tensor = self._tensor_named(tensor_id)
        if not overwrite:
            self._shift_inputs(index, 1)
        graph = self.getCalledGraph()
        graph._insert_input(index, graph_id, TensorInfo(tensor.info), overwrite)
        self._pb.set_input(index, tensor)
        self._changed()

    def addLoopOutput(self, index: int, tensor_id: str, graph_id: str, overwrite: bool) -> None:
        """Returns tensor `graph_id` of the graph as a new tensor `tensor_id` at `index`.

        Later outputs move up; with `overwrite` the one at the index is replaced.
        """
        graph = self.getCalledGraph()
        info = graph.getTensor(graph_id)._pb.info
        if not overwrite:
            self._shift_outputs(index, 1)
        graph.markAsOutput(index + self._first_output, graph_id, overwrite)
        self._pb.set_output(index, self._pb.graph.add_activation(tensor_id, info))
        self._changed()

    def removeLoopInput(self, index: int) -> None:
        """Removes an input of the op and of its graph, where nothing may use it."""
        self.getCalledGraph().removeInput(index)
        self._shift_inputs(index, -1)
        self._changed()

    def removeLoopOutput(self, index: int) -> None:
        """Removes an output of the op and of its graph; its tensor is left without a producer."""
        self.getCalledGraph().removeOutput(index + self._first_output)
        self._shift_outputs(index, -1)
        self._changed()


class IpuCopyOp(Op):
    """A copy between virtual devices."""

    def connectInTensor(self, index: int, tensor_id: str, source: int | None = None) -> None:
        """Connects the input, which is on virtual device `source`."""
        super().connectInTensor(index, tensor_id)
        if source is not None:
            self._pb.set_attribute("source", source)

    def getSourceIpu(self, tensor_id: str | None = None) -> int:
        """The virtual device that the input comes from."""
        if tensor_id is not None and tensor_id not in [t.id for t in self.getInputTensors()]:
            raise _core.popart_internal_exception(
                f"tensor '{tensor_id}' is no input of {self._pb.describe()}"
            )
        return int(self._pb.attributes["source"])

    def getDestIpu(self) -> int:
        return int(self._pb.attributes["destination"])


class CollectiveOp(Op):
    """An exchange between replicas."""

    def getReplicaGrouping(self) -> ReplicaGrouping:
        values = self._pb.attributes
        return ReplicaGrouping(
            self._owner.replication_factor, int(values["stride"]), int(values["group_size"])
        )

    def getCommSize(self) -> int:
        """Replicas of a group."""
        return self.getReplicaGrouping().getGroupSize()


class PrintTensorOp(Op):
    """A print."""

    def getTitle(self) -> str:
        return str(self._pb.attributes["title"])

    def setTitle(self, title: str) -> None:
        self._pb.set_attribute("title", title)


class TunableOp(Op):
    """An op with a share of memory for its temporary values: kept, without another effect."""

    def getAvailableMemoryProportion(self) -> Any:
        return self._notes.get("available_memory_proportion")

    def setAvailableMemoryProportion(self, proportion: Any) -> None:
        self._notes["available_memory_proportion"] = proportion

    @property
    def _notes(self) -> dict[str, Any]:
        """What programs attach to the op: views themselves are made anew at every access."""
        notes: dict[str, Any] = self._owner._op_notes.setdefault(self.id, {})
        return notes


class MatMulOp(TunableOp):
    """A matrix product."""

    def useFullyConnectedPass(self) -> bool:
        return bool(self._notes.get("fully_connected_pass", True))

    def setUseFullyConnectedPass(self, use: bool) -> None:
        self._notes["fully_connected_pass"] = use


class ConvOptions:
    """Options of a convolution: kept, without another effect."""

    def __init__(self) -> None:
        self.availableMemoryProportions: list[float] = []


class ConvOp(TunableOp):
    """A convolution."""

    def getConvOptions(self) -> ConvOptions:
        options: ConvOptions = self._notes.setdefault("conv_options", ConvOptions())
        return options

    def setConvOptions(self, options: ConvOptions) -> None:
        self._notes["conv_options"] = options


# The class of the kinds that have one of their own here.
CLASSES: dict[str, type[Op]] = {
    "Call": CallOp,
    "Loop": LoopOp,
    "If": IfOp,
    "DeviceCopy": IpuCopyOp,
    "PrintTensor": PrintTensorOp,
    "MatMul": MatMulOp,
    **dict.fromkeys(("Conv", "ConvTranspose"), ConvOp),
    **dict.fromkeys(("Gather", "Scatter", "ScatterReduce", "TopK", "SparseAccumulate"), TunableOp),
    **dict.fromkeys(
        ("ReplicatedAllReduce", "ReplicatedAllGather", "ReplicatedReduceScatter"), CollectiveOp
    ),
}
