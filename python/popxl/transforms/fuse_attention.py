"""Attention that is written with several ops, as one."""

from __future__ import annotations

from pando import _core
from popxl.graph import Graph


def fuse_attention(graph: Graph) -> Graph:
    """Replace the products and the softmax of attention by `ops.scaled_dot_product_attention`.

    It finds softmax(q @ k^T * scale + mask) @ v over the last axis, in float16, bfloat16 or
    float32. The scale is a constant factor or divisor, and may be missing. The mask may be
    missing, added, `ops.where` with -infinity, or a constant of 0 and -1e8 or less that keeps a
    band of diagonals; such a band, a causal mask for one, is not computed at all. Dropout of the
    weights is kept, with the same bits. What other ops read, or write in place, stays as it is.

    Results differ by rounding; a row of which everything is hidden becomes 0. Called before
    `autodiff`, it spares both directions the matrices of scores; afterwards gradients need the
    weights, and nothing is replaced. It is not part of the original popxl.

    Args:
        graph: The graph, which is changed; graphs that it calls are not.

    Returns:
        The same graph.
    """
    graph.ir._settle()
    _core.find_attention(graph._pb)
    return graph
