from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from benchmarks.frameworks.jax_layers import Params, encoder_layer, layer_norm
from benchmarks.models.generation import Decode, Generation

# Keys and values of each layer, (batch, positions, heads, depth).
Caches = list[tuple[jax.Array, jax.Array]]


def _step(
    of: Generation, p: Params, caches: Caches, tokens: jax.Array, position: jax.Array
) -> tuple[Caches, jax.Array]:
    written: Caches = []

    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        start = (0, position, 0, 0)
        keys, values = (
            jax.lax.dynamic_update_slice(cache, new, start)
            for cache, new in zip(caches[len(written)], (k, v), strict=True)
        )
        written.append((keys, values))
        lengths = jnp.full(q.shape[0], position + 1)
        return jax.nn.dot_product_attention(q, keys, values, key_value_seq_lengths=lengths)

    x = p["tokens"][tokens] + p["positions"][position]
    for i in range(of.of.layers):
        x = encoder_layer(p, f"layer{i}", x, of.of.decoder, attend)
    x = layer_norm(p, "norm", x).reshape(-1, of.of.decoder.hidden)
    return written, x @ p["tokens"].T


def decoder(of: Generation, batch: int, p: Params) -> Decode:
    rows, heads, positions, depth = of.cache_shape(batch)
    shape = (rows, positions, heads, depth)
    caches = [(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(of.of.layers)]
    step = jax.jit(lambda *given: _step(of, *given), donate_argnums=1)

    def decode(tokens: npt.NDArray[np.int32], position: int) -> npt.NDArray[np.float32]:
        nonlocal caches
        caches, scores = step(p, caches, tokens, np.int32(position))
        return np.asarray(scores)

    return decode
