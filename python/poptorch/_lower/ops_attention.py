"""Lowerings of attention."""

from __future__ import annotations

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops


@lowers("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    call: Call,
    query: popxl.Tensor,
    key: popxl.Tensor,
    value: popxl.Tensor,
    attn_mask: popxl.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> popxl.Tensor:
    """Means of values, weighted by the softmax of products of queries and keys."""
    q, k, v = (cast(t, call.dtype) for t in (query, key, value))
    batch = call.shape[:-2]
    if enable_gqa:
        k, v = (_broadcast_batch(t, (*batch[:-1], t.shape[-3])) for t in (k, v))
        if k.shape[-3] != v.shape[-3]:
            k, v = (_repeated_heads(t, q.shape[-3]) for t in (k, v))
    else:
        k, v = (_broadcast_batch(t, batch) for t in (k, v))
    q = _broadcast_batch(q, batch)
    if attn_mask is not None and attn_mask.dtype != popxl.bool:
        attn_mask = cast(attn_mask, call.dtype)
    dropped = dropout_p == 1
    result = ops.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask,
        causal=is_causal,
        scale=scale,
        p=0.0 if dropped else dropout_p,
        seed_tensor=call.seed() if 0 < dropout_p < 1 else None,
    )
    return ops.mul(result, number(0, result.dtype)) if dropped else result


def _broadcast_batch(t: popxl.Tensor, batch: tuple[int, ...]) -> popxl.Tensor:
    return broadcast_to(t, (*batch, *t.shape[-2:]))


def _repeated_heads(t: popxl.Tensor, heads: int) -> popxl.Tensor:
    """Each head several times, one after another."""
    *batch, given, length, depth = t.shape
    repeats = (*batch, given, heads // given, length, depth)
    separate = t.reshape((*batch, given, 1, length, depth))
    return broadcast_to(separate, repeats).reshape((*batch, heads, length, depth))
