"""Products of groups of rows with a matrix for each group."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor


def grouped_matmul(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    """Multiply each group of rows by a matrix of its own, as a layer of experts does.

    The rows of group g go from the end of the group before up to `ends[g]`, where the program
    computes the ends. An end below the one before counts as that one, an end beyond the rows as
    their number.

    Args:
        x: The rows (rows, k), sorted by group; float16 or bfloat16 (computed in float32), float32
            or float64.
        w: The matrices (groups, k, n), with the dtype of `x`.
        ends: The end of each group (groups,), integers.

    Returns:
        A new tensor (rows, n) with the dtype of `x`; rows behind the last end are 0.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph.
        popart_exception: The shapes do not fit; dtypes do not fit, found when a session is made.
    """
    check_inputs(x=x, w=w, ends=ends)
    return make("GroupedMatMul", [x, w, ends], name="grouped_matmul_out", settings="grouped_matmul")


def grouped_outer(x: Tensor, y: Tensor, ends: Tensor) -> Tensor:
    """Add the outer products of the rows of each group.

    Args:
        x: The left rows (rows, k), sorted by group; float16 or bfloat16 (computed in float32),
            float32 or float64.
        y: The right rows (rows, n), with the dtype of `x`.
        ends: The end of each group (groups,), integers, as for `grouped_matmul`.

    Returns:
        A new tensor (groups, k, n) with the dtype of `x`: for each group the sum of
        `outer(x[i], y[i])` over its rows, 0 for an empty one.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph.
        popart_exception: The shapes do not fit; dtypes do not fit, found when a session is made.
    """
    check_inputs(x=x, y=y, ends=ends)
    return make("GroupedOuter", [x, y, ends], name="grouped_outer_out", settings="grouped_outer")
