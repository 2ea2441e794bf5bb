"""Types for the many forms in which graphs and their gradients are handed around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

import popxl
from popxl.transforms.autodiff import GradGraphInfo

if TYPE_CHECKING:
    from popxl_addons.graph import BoundGraph, GraphWithNamedArgs

GraphLike = Union[popxl.Graph, "GraphWithNamedArgs", "BoundGraph"]
GradGraphInfoLike = Union[GradGraphInfo, "GraphWithNamedArgs"]
CalledGraphsGradInfoLike = Mapping[Any, Any]
CalledGraphsGradInfo = dict[popxl.Graph, GradGraphInfo]


def plain_graph(graph: GraphLike) -> popxl.Graph:
    """The popxl graph behind a wrapper.

    Args:
        graph: A popxl.Graph, GraphWithNamedArgs or BoundGraph.

    Returns:
        The popxl.Graph.
    """
    return graph if isinstance(graph, popxl.Graph) else graph.graph


def called_graphs_grad_info_of(
    info: CalledGraphsGradInfoLike | None,
) -> CalledGraphsGradInfo:
    """A mapping of graphs to gradients with wrappers replaced by what they wrap.

    Args:
        info: Graph or wrapper -> GradGraphInfo or gradient graph; None means no gradients.

    Returns:
        popxl.Graph -> GradGraphInfo.
    """
    return {
        plain_graph(graph): grad if isinstance(grad, GradGraphInfo) else grad.grad_graph_info
        for graph, grad in (info or {}).items()
    }
