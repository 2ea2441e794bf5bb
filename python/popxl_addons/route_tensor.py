"""Which graphs can be reached from a graph."""

from __future__ import annotations

import popxl
from popxl_addons.graph_common import GraphLike, plain_graph


def is_subgraph(parent: GraphLike, subgraph: GraphLike) -> bool:
    """Whether `subgraph` is `parent` or is called from it, directly or through other graphs."""
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
