"""Views of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pando import _core
from popart._internal.enums import DataType, TileSet
from popart._internal.tensor_devices import find_device, find_tile_set
from popart._internal.view import Region
from popart._internal.view_base import View, makes_views_of, view_of

if TYPE_CHECKING:
    from popart._internal import graph_view, op_view


class TensorInfo:
    """Shape and element type of a tensor: of the core's, or of a DataType and shapes."""

    def __init__(
        self,
        info: _core.TensorInfo | DataType,
        shape: Sequence[int] = (),
        meta_shape: Sequence[int] = (),
    ) -> None:
        if isinstance(info, DataType):
            info = _core.TensorInfo(_core.parse_dtype(info.value), list(shape), list(meta_shape))
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


class Consumers:
    """The ops that use a tensor."""

    def __init__(self, ops: list[op_view.Op]) -> None:
        self._ops = ops

    def getOps(self) -> list[op_view.Op]:
        return self._ops


def _aliased_inputs(core_op: _core.Op, output: int) -> list[int]:
    """The inputs whose storage an output has."""
    if core_op.kind == "ConcatInplace":
        return list(range(len(core_op.inputs)))
    index = core_op.aliased_input(output)
    return [index] if index >= 0 else []


def _neighbours(core_tensor: _core.Tensor) -> Iterable[_core.Tensor]:
    """Tensors that share storage with this one by the op that makes or uses it."""
    producer = core_tensor.producer
    if producer is not None:
        for index in _aliased_inputs(producer, core_tensor.producer_index):
            if producer.inputs[index] is not None:
                yield producer.inputs[index]
    for use, index in core_tensor.uses:
        for number, output in enumerate(use.outputs):
            if output is not None and index in _aliased_inputs(use, number):
                yield output


def _aliases(core_tensor: _core.Tensor) -> set[str]:
    """The ids of the tensors of the graph in the storage of this one, itself included."""
    found, waiting = {core_tensor.id}, [core_tensor]
    while waiting:
        for other in _neighbours(waiting.pop()):
            if other.id not in found:
                found.add(other.id)
                waiting.append(other)
    return found


@makes_views_of(_core.Tensor)
class Tensor(View):
    """A tensor of the core."""

    @property
    def id(self) -> str:
        return str(self._pb.id)

    @property
    def info(self) -> TensorInfo:
        return TensorInfo(self._pb.info)

    @property
    def consumers(self) -> Consumers:
        ops = {use.id: use for use, _ in self._pb.uses}
        return Consumers([view_of(core_op) for core_op in ops.values()])

    @property
    def _popxl(self) -> Any:
        return self._owner._tensor(self._pb)

    @property
    def tensorLocationInfo(self) -> Any:
        return self._popxl.location_info

    def getGraph(self) -> graph_view.Graph:
        return view_of(self._pb.graph)

    def getIr(self) -> Any:
        return self.getGraph().getIr()

    def hasProducer(self) -> bool:
        return self._pb.producer is not None

    def getProducer(self) -> op_view.Op:
        if self._pb.producer is None:
            raise _core.popart_internal_exception(f"tensor '{self.id}' has no producer")
        return view_of(self._pb.producer)

    def tensorType(self) -> str:
        names = {"Activation": "ActGrad", "GraphInput": "ActGrad", "Constant": "Const"}
        return names.get(self._pb.kind.name, self._pb.kind.name)

    def isModified(self) -> bool:
        """Whether an op writes the tensor or an alias of it."""
        ops = self.getGraph().getOps()
        return bool(self.modifiedRegionsByOps(ops))

    def isAliased(self) -> bool:
        """Whether another tensor has the same storage."""
        return len(_aliases(self._pb)) > 1

    def modifiedRegionsByOps(self, ops: Iterable[op_view.Op]) -> list[Region]:
        """One region for each of the ops that writes the tensor or an alias of it, in order.

        It is the whole tensor, also where an op writes a part.
        """
        aliases = _aliases(self._pb)
        full = Region.getFull(self._pb.shape)
        return [
            full
            for one in ops
            if any(
                one._pb.inputs[i] is not None and one._pb.inputs[i].id in aliases
                for i in one._pb.modified_inputs
            )
        ]

    def isInSyncWithIPU(self) -> bool:
        return bool(self._popxl.in_sync_with_ipu)

    def getVirtualGraphIdUnsafe(self) -> int:
        """The virtual device; -1 when nothing determines it."""
        device = find_device(self._pb, set())
        return -1 if device is None else device

    def hasVirtualGraphId(self) -> bool:
        return self.getVirtualGraphIdUnsafe() >= 0

    def getVirtualGraphId(self) -> int:
        device = self.getVirtualGraphIdUnsafe()
        if device < 0:
            raise _core.popart_internal_exception(f"tensor '{self.id}' has no virtual graph id")
        return device

    def getVirtualGraphIdAndTileSetUnsafe(self) -> tuple[int, TileSet]:
        """The virtual device (or -1) and tile set (or Undefined)."""
        found = find_tile_set(self._pb, set())
        tile_set = TileSet.Undefined
        if found is not None:
            tile_set = TileSet.IO if found == "io" else TileSet.Compute
        return self.getVirtualGraphIdUnsafe(), tile_set
