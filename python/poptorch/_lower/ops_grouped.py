"""Lowerings of products of groups of rows."""

from __future__ import annotations

from typing import Any

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_linear import product
from poptorch._lower.ops_linear_algebra import turned
from poptorch._lower.registry import lowers
from popxl import ops


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
        return ops.grouped_outer(turned(left), right, offs)
    if left.rank == 2:
        return ops.grouped_matmul(left, right, offs)
    return turned(ops.grouped_matmul(turned(right), turned(left), offs))


@lowers("transformers::grouped_mm_fallback")
def grouped_mm_of_transformers(
    call: Call, input: popxl.Tensor, weight: popxl.Tensor, offs: popxl.Tensor
) -> popxl.Tensor:
    """What transformers calls in place of torch's own operator in programs that are compiled."""
    return grouped_mm(call, input, weight, offs)
