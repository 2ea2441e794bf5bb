"""Turns the whole content of a graph into a loop."""

from __future__ import annotations

import popxl
from pando import _core
from popxl.context import get_current_context

__all__ = ["repeat_graph"]


def repeat_graph(graph: popxl.Graph, repeat_count: int) -> popxl.Graph:
    """Moves all ops of `graph` into a new graph that runs `repeat_count` times in their place.

    Returns the new graph; `graph` itself, unchanged, for a count of 1 or less. Variables keep their
    changes from one iteration to the next. Every stream is used `repeat_count` times as often.
    """
    if repeat_count <= 1:
        return graph
    context = get_current_context()
    repeated: popxl.Graph = popxl.Graph._from_pb(
        _core.repeat_graph(graph._pb, repeat_count, context.op_context("repeat_graph"))
    )
    context._ops_moved(graph._pb, graph._pb.ops[-1])
    return repeated
