"""What names graphs and ops, and where new ops are made."""

# Fields such as `numInputs` have the names that programs know.
# ruff: noqa: N815

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from popart._internal.enums import ExecutionContext, TileSet

if TYPE_CHECKING:
    from popart._internal.graph_view import Graph


class GraphId(str):
    """The id of a graph."""

    def str(self) -> str:
        return str(self)


@dataclass(frozen=True)
class NumInputs:
    """How many inputs a kind of custom op takes."""

    min: int = 0
    max: int = 0


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
    # Kept only: there are no tiles to map tensors to.
    inferTensorMappingToFrom: dict[int, int] = field(default_factory=dict)

    @property
    def vgraphId(self) -> int | None:
        return self.virtual_graph_id

    @property
    def tileSet(self) -> TileSet:
        return self.tile_set

    @property
    def executionContext(self) -> ExecutionContext:
        return self.execution_context
