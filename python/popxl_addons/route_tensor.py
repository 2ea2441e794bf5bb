"""Bringing a tensor into graphs that are called, directly or not, from its own graph."""

from __future__ import annotations

import popxl
from pando import _core
from popxl_addons.graph_common import GraphLike, plain_graph

__all__ = ["is_subgraph", "route_tensor_into_graph"]


def is_subgraph(parent: GraphLike, subgraph: GraphLike) -> bool:
    """Whether one graph is called from another.

    Args:
        parent: The graph where the search begins.
        subgraph: The graph that is looked for.

    Returns:
        True if `subgraph` is `parent` or is called from it, directly or through other graphs.
    """
    wanted = plain_graph(subgraph)
    seen: set[popxl.Graph] = set()
    waiting = [plain_graph(parent)]
    while waiting:
        graph = waiting.pop()
        if graph == wanted:
            return True
        if graph not in seen:
            seen.add(graph)
            waiting.extend(graph.called_graphs)
    return False


def route_tensor_into_graph(
    tensor: popxl.Tensor, graph: GraphLike | None = None, modified: bool = False
) -> popxl.Tensor:
    """A tensor of one graph for use in a graph that is called from it.

    Every call and loop on every path from the tensor's graph gets an input for it, unless it has
    one.

    Args:
        tensor: A tensor of any graph.
        graph: The graph where it is needed; None means the current one.
        modified: Whether the graph writes it, so that the calls pass it by reference.

    Returns:
        The graph's input for it, or `tensor` itself where that is in `graph` already.

    Raises:
        ValueError: `graph` cannot be reached from the tensor's graph.
    """
    target = popxl.gcg() if graph is None else plain_graph(graph)
    core = _core.route_tensor(tensor._pb, target._pb, modified)
    routed: popxl.Tensor = popxl.Tensor._from_pb(core)
    return routed
