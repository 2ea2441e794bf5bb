"""Lowerings of triangular systems and of the Cholesky factor."""

from __future__ import annotations

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.registry import lowers
from popxl import ops


def turned(t: popxl.Tensor) -> popxl.Tensor:
    """Transpose matrices.

    Args:
        t: The matrices, (..., m, n).

    Returns:
        (..., n, m).
    """
    axes = list(range(t.rank))
    return ops.transpose(t, [*axes[:-2], axes[-1], axes[-2]])


@lowers("aten::cholesky", "aten::linalg_cholesky")
def cholesky(call: Call, self: popxl.Tensor, upper: bool = False) -> popxl.Tensor:
    """The factor of symmetric positive definite matrices; NaN, where torch raises, for others."""
    return ops.cholesky(cast(self, call.dtype), upper)


@lowers("aten::linalg_solve_triangular")
def solve_triangular(
    call: Call,
    self: popxl.Tensor,
    B: popxl.Tensor,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> popxl.Tensor:
    """The solution of `self x = B`, or of `x self = B`."""
    batch = call.shape[:-2]
    matrix = broadcast_to(cast(self, call.dtype), (*batch, *self.shape[-2:]))
    right = broadcast_to(cast(B, call.dtype), (*batch, *B.shape[-2:]))
    if left:
        return ops.triangular_solve(matrix, right, upper, unit_diagonal=unitriangular)
    solved = ops.triangular_solve(
        matrix, turned(right), upper, transpose=True, unit_diagonal=unitriangular
    )
    return turned(solved)
