"""How much of a device's memory an op may use as scratch: kept with the ops, without effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import popxl

__all__ = [
    "set_available_memory_proportion_by_ipu",
    "set_graph_available_memory_proportion_by_ipu",
]

_KINDS = ("MatMul", "Conv", "ConvTranspose")


def _set(core_graphs: Any, proportions: Sequence[float]) -> None:
    for graph in core_graphs:
        for op in graph.ops:
            if not op.kind.startswith(_KINDS):
                continue
            if not proportions:
                raise KeyError(
                    f"no memory proportions were given, but {op.describe()} needs one: give at "
                    "least one, for device 0"
                )


def set_available_memory_proportion_by_ipu(ir: popxl.Ir, proportions: Sequence[float]) -> None:
    """Checks the memory proportions of every matrix product and convolution; they have no effect.

    Scratch memory is planned by the compiler.

    Args:
        ir: The program.
        proportions: One per device; missing devices have that of device 0.

    Raises:
        KeyError: There are none and an op needs one.
    """
    _set(ir._pb.graphs, proportions)


def set_graph_available_memory_proportion_by_ipu(
    graph: popxl.Graph, proportions: Sequence[float]
) -> None:
    """As `set_available_memory_proportion_by_ipu`, for a graph and all that it calls.

    Args:
        graph: The graph.
        proportions: One per device.

    Raises:
        KeyError: There are none and an op needs one.
    """
    seen: dict[str, Any] = {}
    waiting = [graph._pb]
    while waiting:
        core_graph = waiting.pop()
        if core_graph.id not in seen:
            seen[core_graph.id] = core_graph
            waiting.extend(core_graph.called_graphs)
    _set(seen.values(), proportions)
