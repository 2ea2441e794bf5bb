"""Turns the whole content of a graph into a loop."""

from __future__ import annotations

import popxl
from pando import _core
from popxl.context import get_current_context

__all__ = ["repeat_graph"]


def repeat_graph(graph: popxl.Graph, repeat_count: int) -> popxl.Graph:
    """Moves all ops of a graph into a new graph that runs several times in their place.

    Variables keep their changes from one iteration to the next.

    Args:
        graph: The graph; it may be the main graph.
        repeat_count: How many times. A run uses every stream so many times as often.

    Returns:
        The new graph; `graph` itself, unchanged, for a count of 1 or less.
    """
    if repeat_count <= 1:
        return graph
    context = get_current_context()
    repeated: popxl.Graph = popxl.Graph._from_pb(
        _core.repeat_graph(graph._pb, repeat_count, context.op_context("repeat_graph"))
    )
    context._ops_moved(graph._pb, graph._pb.ops[-1])
    return repeated
