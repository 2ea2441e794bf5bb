"""Sums of many tensors as chains of additions."""

from __future__ import annotations

from pando import _core
from popxl.graph import Graph


def decompose_sum(graph: Graph) -> Graph:
    """Replace every sum of more than two tensors by a zero and one addition for each of them.

    Args:
        graph: The graph, which is changed.

    Returns:
        The same graph.
    """
    for op in list(graph._pb.ops):
        if op.kind == "Sum" and len(op.inputs) > 2:
            _decompose(graph._pb, op)
    return graph


def _decompose(graph: _core.Graph, op: _core.Op) -> None:
    output = op.outputs[0]
    graph.set_insertion_point(op)
    try:
        total = graph.create_op(
            "Init",
            [],
            {"shape": list(output.shape), "dtype": output.dtype, "init_type": "zero"},
            op.context,
        ).outputs[0]
        for tensor in op.inputs:
            total = graph.create_op("Add", [total, tensor], {}, op.context).outputs[0]
    finally:
        graph.set_insertion_point(None)
    graph.replace_uses(output, total)
    graph.erase_op(op)
