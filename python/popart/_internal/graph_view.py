"""Views of graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from pando import _core
from popart._internal.settings import GraphId
from popart._internal.tensor_view import Tensor, TensorInfo
from popart._internal.view_base import View, makes_views_of, view_of

if TYPE_CHECKING:
    from popart._internal import ir, op_view


class TopoCons:
    """The order of the ops of a graph beyond their data."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def insert(self, before: op_view.Op, after: op_view.Op, tied: bool = False) -> None:
        """`before` runs before `after`; `tied` (with nothing between) cannot be promised."""
        if tied:
            raise NotImplementedError("topoCons().insert: tied constraints are not supported")
        after._pb.run_after(before._pb)
        after._changed()

    def transferToSubgraph(
        self,
        replacement: op_view.Op,
        moved: Mapping[op_view.Op, Sequence[op_view.Op]],
        removeTies: bool = True,
    ) -> None:
        """Hands the order of ops that moved to a subgraph over.

        `moved`: each op -> its clones there. Among themselves the order becomes that of the clones,
        towards other ops that of `replacement`, the op that calls the subgraph. Nothing is ever
        tied, so `removeTies` makes no difference.
        """
        clones = {old._pb.id: [new._pb for new in news] for old, news in moved.items()}
        for core_op in self._graph._pb.ops:
            earlier = list(core_op.after)
            outside = [other for other in earlier if other.id not in clones]
            if core_op.id in clones:
                inside = [new for other in earlier for new in clones.get(other.id, ())]
                for new in clones[core_op.id]:
                    new.set_after([*new.after, *inside])
                core_op.set_after([])
                target, wanted = replacement._pb, [o for o in outside if o is not replacement._pb]
            elif len(outside) < len(earlier) and core_op is not replacement._pb:
                core_op.set_after(outside)
                target, wanted = core_op, [replacement._pb]
            else:
                continue
            target.set_after([*target.after, *(o for o in wanted if o not in target.after)])
        for changed in (replacement, *(new for news in moved.values() for new in news)):
            changed._changed()


@makes_views_of(_core.Graph)
class Graph(View):
    """A graph of the core."""

    @property
    def id(self) -> GraphId:
        return GraphId(self._pb.id)

    @property
    def name(self) -> str:
        return str(self._pb.id)

    def getIr(self) -> ir.Ir:
        return view_of(self._owner._pb)

    def getOps(self) -> list[op_view.Op]:
        return [view_of(core_op) for core_op in sorted(self._pb.ops, key=lambda o: o.id)]

    def getOpSchedule(self, requireOptimalSchedule: bool = True) -> list[op_view.Op]:
        """Ops in an order that respects data and sequence constraints.

        Creation order is such an order, except where an op was later told to run before another.
        """
        return [view_of(core_op) for core_op in schedule(list(self._pb.ops))]

    def getOpIds(self) -> list[int]:
        return [core_op.id for core_op in self._pb.ops]

    def getOp(self, op_id: int) -> op_view.Op:
        core_op = self._pb.find_op(op_id)
        if core_op is None:
            raise _core.popart_exception(f"graph '{self._pb.id}' has no op with id {op_id}")
        return view_of(core_op)

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

    @overload
    def addInput(self, tensor_id: str, info: TensorInfo, /) -> None: ...
    @overload
    def addInput(
        self, index: int, tensor_id: str, info: TensorInfo, overwrite: bool, /
    ) -> None: ...
    def addInput(self, *given: Any) -> None:
        """A new input at the end, or at an index. Call sites are left as they are.

        With `overwrite` it takes the place of the input at the index, which nothing may use.
        """
        if len(given) == 2:
            given = (len(self._pb.inputs), *given, False)
        self._insert_input(*given)

    def _insert_input(self, index: int, tensor_id: str, info: TensorInfo, overwrite: bool) -> None:
        count = len(self._pb.inputs)
        if not 0 <= index <= count:
            raise _core.popart_internal_exception(
                f"graph '{self._pb.id}' has {count} inputs: none can be added at index {index}"
            )
        if overwrite and index < count:
            self._pb.remove_input(index)
        self._pb.add_input(tensor_id, info._info)
        inputs = list(self._pb.inputs)
        inputs.insert(index, inputs.pop())
        self._pb.set_input_order(inputs)

    @overload
    def markAsOutput(self, tensor_id: str, /) -> None: ...
    @overload
    def markAsOutput(self, index: int, tensor_id: str, overwrite: bool, /) -> None: ...
    def markAsOutput(self, *given: Any) -> None:
        """Adds an output at the end, or at an index. Call sites are left as they are.

        With `overwrite` it takes the place of the output at the index.
        """
        outputs = list(self._pb.outputs)
        if len(given) == 1:
            given = (len(outputs), *given, False)
        index, tensor_id, overwrite = given
        if not 0 <= index <= len(outputs):
            raise _core.popart_internal_exception(
                f"graph '{self._pb.id}' has {len(outputs)} outputs: none can be added at index "
                f"{index}"
            )
        tensor = self.getTensor(tensor_id)._pb
        outputs[index : index + 1 if overwrite else index] = [tensor]
        self._pb.set_outputs(outputs)

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

    def topoCons(self) -> TopoCons:
        return TopoCons(self)

    def removeIsolatedTensors(
        self,
        retainUsedIO: bool = False,
        retainAllIO: bool = False,
        retainVar: bool = False,
        retainConst: bool = False,
    ) -> None:
        """Drops tensors without producer and consumers; streams and graph outputs stay.

        The inputs and outputs of a graph are its signature, so they stay without being asked for.
        """
        keep = {tensor.id for tensor in (*self._pb.inputs, *self._pb.outputs)}
        kinds = {"Stream"} | ({"Variable"} if retainVar else set())
        kinds |= {"Constant"} if retainConst else set()
        for tensor in self._pb.tensors:
            used = tensor.producer is not None or tensor.is_used
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


def schedule(ops: list[_core.Op]) -> list[_core.Op]:
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
