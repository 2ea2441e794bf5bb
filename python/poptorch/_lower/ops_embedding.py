"""Lowerings of embeddings."""

from __future__ import annotations

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops


def check_dense(call: Call, scale_grad_by_freq: bool, sparse: bool) -> None:
    """Raise for options of gradients that no program computes.

    Args:
        call: The call.
        scale_grad_by_freq: Whether gradients are divided by counts of rows.
        sparse: Whether gradients are sparse tensors.
    """
    asked = {"scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    names = [f"{name}=True" for name, value in asked.items() if value]
    if names and call.node.from_grad:
        raise createPoptorchError(
            f"{call.node.name.removeprefix('aten::')} at {call.node.location}: {', '.join(names)} "
            "is not supported; leave it away"
        )


@lowers("aten::embedding")
def embedding(
    call: Call,
    weight: popxl.Tensor,
    indices: popxl.Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> popxl.Tensor:
    """Rows of a table. The row of `padding_idx` gets no gradient."""
    check_dense(call, scale_grad_by_freq, sparse)
    rows = cast(ops.gather(weight, indices, 0), call.dtype)
    if padding_idx < 0 or not call.node.requires_grad[0]:
        return rows
    is_padding = ops.equal(indices, number(padding_idx, indices.dtype))
    mask = broadcast_to(ops.reshape(is_padding, (*indices.shape, 1)), rows.shape)
    return ops.where(mask, ops.detach(rows), rows)
