"""Lowerings of matrix products."""

from __future__ import annotations

from typing import Any

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops


def product(call: Call, left: popxl.Tensor, right: popxl.Tensor) -> popxl.Tensor:
    """The matrix product in the element type of the result.

    Args:
        call: The call.
        left: The first factor.
        right: The second factor.

    Returns:
        The product.
    """
    if not call.dtype.is_floating_point:
        # Exact in float32 only for small integers: the sum of products by elements is always.
        return _integer_product(cast(left, call.dtype), cast(right, call.dtype))
    return ops.matmul(cast(left, call.dtype), cast(right, call.dtype))


def _integer_product(left: popxl.Tensor, right: popxl.Tensor) -> popxl.Tensor:
    rows = ops.reshape(left, (*left.shape, 1)) if right.rank > 1 else left
    columns = ops.reshape(right, (*right.shape[:-2], 1, *right.shape[-2:]))
    if right.rank == 1:
        return ops.sum(ops.mul(left, right), -1)
    return ops.sum(ops.mul(rows, columns if left.rank > 1 else right), -2)


@lowers("aten::matmul", "aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::linalg_matmul")
def matmul(
    call: Call,
    self: popxl.Tensor,
    other: popxl.Tensor | None = None,
    mat2: popxl.Tensor | None = None,
    vec: popxl.Tensor | None = None,
    tensor: popxl.Tensor | None = None,
    **_out_dtype: Any,
) -> popxl.Tensor:
    """The matrix product."""
    right = next(t for t in (other, mat2, vec, tensor) if t is not None)
    return product(call, self, right)


@lowers("aten::linear")
def linear(
    call: Call, input: popxl.Tensor, weight: popxl.Tensor, bias: popxl.Tensor | None = None
) -> popxl.Tensor:
    """`input @ weight.T + bias`."""
    order = list(range(weight.rank))[::-1]
    result = product(call, input, ops.transpose(weight, order) if weight.rank > 1 else weight)
    return result if bias is None else ops.add(result, cast(bias, call.dtype))


@lowers("aten::addmm", "aten::baddbmm", "aten::addmv", "aten::addbmm")
def addmm(
    call: Call,
    self: popxl.Tensor,
    mat1: popxl.Tensor | None = None,
    mat2: popxl.Tensor | None = None,
    batch1: popxl.Tensor | None = None,
    batch2: popxl.Tensor | None = None,
    mat: popxl.Tensor | None = None,
    vec: popxl.Tensor | None = None,
    beta: float = 1,
    alpha: float = 1,
    **_out_dtype: Any,
) -> popxl.Tensor:
    """`beta * self + alpha * (left @ right)`."""
    left = next(t for t in (mat1, batch1, mat) if t is not None)
    right = next(t for t in (mat2, batch2, vec) if t is not None)
    result = product(call, left, right)
    if call.node.name.startswith("aten::addbmm"):
        result = ops.sum(result, 0)
    if alpha != 1:
        result = ops.mul(result, number(alpha, call.dtype))
    if beta == 0:
        return result
    added = cast(self, call.dtype)
    if beta != 1:
        added = ops.mul(added, number(beta, call.dtype))
    return ops.add(added, result)
