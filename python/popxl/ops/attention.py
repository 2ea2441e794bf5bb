"""Attention as one op: no matrix of scores is ever written."""

from __future__ import annotations

from collections.abc import Sequence

from popxl.ops.random_seed import check_seed
from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor

_ALIGNMENTS = ("top_left", "bottom_right")


def _window(causal: bool, window: Sequence[int | None] | None) -> list[int]:
    left, right = (None, None) if window is None else window
    sides = [-1 if side is None else int(side) for side in (left, right)]
    if any(side is not None and side < 0 for side in (left, right)):
        raise ValueError(
            "scaled_dot_product_attention: wanted a window of two numbers from 0 on, or None for "
            f"no limit; given {window!r}"
        )
    if causal:
        sides[1] = 0
    return sides


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    alignment: str = "top_left",
    scale: float | None = None,
    p: float = 0.0,
    seed_tensor: Tensor | None = None,
    length: Tensor | None = None,
) -> Tensor:
    """Average values, weighted by the softmax of products of queries and keys.

    softmax(scale * q k^T + mask) v, as the function of that name in PyTorch, computed in float32 in
    blocks: memory grows with the number of tokens, not with its square, and blocks that `causal`,
    `window` and `length` hide are not computed. It is not part of the original popxl.

    A query that sees no key gives zeros, and no gradients. Hidden keys and values must be finite,
    but for those from `length` on, which are not read.

    Args:
        q: Queries of shape (..., heads, queries, depth), or (queries, depth); float16, bfloat16
            or float32.
        k: Keys of shape (..., kv_heads, keys, depth), with the dtype of `q`. `heads` is a multiple
            of `kv_heads`: query head h uses head h // (heads // kv_heads) of `k` and `v`.
        v: Values of shape (..., kv_heads, keys, value_depth), with the dtype of `q`.
        mask: A tensor that broadcasts to (..., heads, queries, keys): bool, where False hides a
            key, or of the dtype of `q`, which is added to the scores and has a gradient. None: no
            mask.
        causal: Whether query i sees no keys after key i + s; `alignment` says what s is.
        window: How many keys before and after key i + s query i sees; None: no limit. With `causal`
            the second number is 0.
        alignment: `top_left`: s is 0. `bottom_right`: the last query stands at the last key, s is
            the number of keys (`length` if given) minus that of queries.
        scale: The factor of the products; None: 1 / sqrt(depth).
        p: The probability, in [0, 1), that a weight is set to 0; the others are divided by 1 - p.
            The weights that `dropout` with the same seed would drop of a tensor of that shape.
        seed_tensor: The seed of dropout, a uint32 tensor of shape (2,); needed if `p` is not 0.
        length: The number of keys and values that are there, an integer tensor with one element,
            for caches that fill up while a program runs. None: all.

    Returns:
        A new tensor of shape (..., heads, queries, value_depth) with the dtype of `q`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; it is no seed; `p`, `window` or `alignment` is out of range.
        popart_exception: Shapes or dtypes do not fit, here or when a session is made.
    """
    optional = {"mask": mask, "seed_tensor": seed_tensor, "length": length}
    check_inputs(q=q, k=k, v=v, **{name: t for name, t in optional.items() if t is not None})
    if seed_tensor is not None:
        check_seed(seed_tensor)
    if alignment not in _ALIGNMENTS:
        raise ValueError(f"alignment: wanted one of {', '.join(_ALIGNMENTS)}; given {alignment!r}")
    attributes: dict[str, object] = {"alignment": alignment, "p": float(p)}
    sides = _window(causal, window)
    if sides != [-1, -1]:
        attributes["window"] = sides
    if scale is not None:
        attributes["scale"] = float(scale)
    inputs = [q, k, v, mask, seed_tensor, length]
    while inputs[-1] is None:
        inputs.pop()
    name = "scaled_dot_product_attention"
    return make("ScaledDotProductAttention", inputs, attributes, name=f"{name}_out", settings=name)
