"""camelCase views of the core's graphs for code that inspects or edits them.

A view holds nothing but the core object; two views of one object are equal.
"""

# Fields such as `fwdId` have the names that programs know.
# ruff: noqa: N815

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pando import _core
from pando.missing_names import missing_names
from popart._internal import op, patterns, view
from popart._internal.enums import DataType, ExecutionContext, ExpectedConnectionType, TileSet
from popart._internal.graph_view import Graph, schedule
from popart._internal.op import view_of as op_view
from popart._internal.op_arguments import (
    AccumulationType,
    AdamMode,
    CollectiveOperator,
    InitType,
    OptionalDataType,
    OptionalFloat,
    OptionalInt,
)
from popart._internal.op_view import Op
from popart._internal.options import SessionOptions, VirtualGraphMode
from popart._internal.owners import IrOwner, owner_of
from popart._internal.replica_grouping import ReplicaGrouping
from popart._internal.settings import GraphId, NumInputs, OperatorIdentifier, Settings
from popart._internal.tensor_view import Tensor, TensorInfo
from popart._internal.view_base import makes_views_of
from popart.logging_ import getLogger

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
    "NumInputs",
    "Op",
    "OperatorIdentifier",
    "OptionalDataType",
    "OptionalFloat",
    "OptionalInt",
    "ReplicaGrouping",
    "SessionOptions",
    "Settings",
    "Tensor",
    "TensorInfo",
    "TileSet",
    "VirtualGraphMode",
    "op",
    "op_view",
    "patterns",
    "schedule",
    "view",
]


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


class Ir:
    """The Ir of the core together with its session options."""

    def __init__(self, owner: IrOwner) -> None:
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

    def createUniqueSubgraphId(self, base: str) -> GraphId:
        """`<base>_subgraph(<n>)`, which no graph has and no later one gets by itself."""
        graph = self._pb.create_graph(base)
        unique = GraphId(graph.id)
        self._pb.erase_graph(graph)
        return unique

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

    def dotCheckpoint(self, ir: Ir, name: str) -> None:
        """Draws the graphs of `ir` if checkpoint `name` is active."""
        ir._owner.dot_checkpoint(name)

    def serializeToJSON(self) -> str:
        """Every op of every graph, by graph id."""
        return json.dumps(
            {
                graph.id: [
                    {
                        "id": op.id,
                        "type": op.opType(),
                        "name": op.name(),
                        "inputs": {i: t.id for i, t in op.getInputIndexMap().items()},
                        "outputs": {i: t.id for i, t in op.getOutputIndexMap().items()},
                    }
                    for op in graph.getOps()
                ]
                for graph in self.getAllGraphs()
            }
        )

    def logIr(self) -> None:
        """Writes every op to the logger at INFO."""
        logger = getLogger("ir")
        for graph in self._pb.graphs:
            logger.info(f"graph '{graph.id}'")
            for core_op in graph.ops:
                logger.info(f"  {core_op.describe()}")


@makes_views_of(_core.Ir)
def _view_of_ir(core_ir: _core.Ir) -> Ir:
    return Ir(owner_of(core_ir.id))


if not TYPE_CHECKING:
    __getattr__ = missing_names(__name__)
