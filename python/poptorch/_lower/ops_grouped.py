"""Lowerings of products of groups of rows, and of triangular systems."""

from __future__ import annotations

from typing import Any

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_linear import product
from poptorch._lower.registry import lowers
from popxl import ops


def _turned(t: popxl.Tensor) -> popxl.Tensor:
    axes = list(range(t.rank))
    return ops.transpose(t, [*axes[:-2], axes[-1], axes[-2]])


@lowers("aten::_grouped_mm")
def grouped_mm(
    call: Call,
    self: popxl.Tensor,
    mat2: popxl.Tensor,
    offs: popxl.Tensor | None = None,
    bias: popxl.Tensor | None = None,
    **_out_dtype: Any,
) -> popxl.Tensor:
    """Products of groups: of rows, of columns, or of terms of the sums."""
    assert bias is None  # torch has it in the schema, and refuses it
    if offs is None:
        return product(call, self, mat2)
    left, right = cast(self, call.dtype), cast(mat2, call.dtype)
    if left.rank == right.rank:
        return ops.grouped_outer(_turned(left), right, offs)
    if left.rank == 2:
        return ops.grouped_matmul(left, right, offs)
    return _turned(ops.grouped_matmul(_turned(right), _turned(left), offs))


@lowers("transformers::grouped_mm_fallback")
def grouped_mm_of_transformers(
    call: Call, input: popxl.Tensor, weight: popxl.Tensor, offs: popxl.Tensor
) -> popxl.Tensor:
    """What transformers calls in place of torch's own operator in programs that are compiled."""
    return grouped_mm(call, input, weight, offs)


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
    turned = ops.triangular_solve(
        matrix, _turned(right), upper, transpose=True, unit_diagonal=unitriangular
    )
    return _turned(turned)
