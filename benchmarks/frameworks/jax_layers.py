"""Layers and losses as JAX functions of a dictionary of weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from benchmarks import data

Params = dict[str, jax.Array]
Attend = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def dense(p: Params, name: str, x: jax.Array) -> jax.Array:
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def layer_norm(p: Params, name: str, x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    scaled = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
    return scaled * p[f"{name}.weight"] + p[f"{name}.bias"]


def encoder_layer(
    p: Params, name: str, x: jax.Array, of: data.Sizes, attend: Attend | None = None
) -> jax.Array:
    """``attend``: attention of q, k and v (batch, tokens, heads, depth) instead of the usual."""
    attend = attend or partial(jax.nn.dot_product_attention, is_causal=of.causal)

    def norm(which: str, y: jax.Array) -> jax.Array:
        return layer_norm(p, f"{name}.{which}", y)

    batch, sequence, hidden = x.shape
    qkv = dense(p, f"{name}.qkv", x if of.post_norm else norm("norm1", x))
    q, k, v = jnp.moveaxis(qkv.reshape(batch, sequence, 3, of.heads, -1), 2, 0)
    x = x + dense(p, f"{name}.proj", attend(q, k, v).reshape(batch, sequence, hidden))
    if of.post_norm:
        x = norm("norm1", x)
    inner = dense(p, f"{name}.ff1", x if of.post_norm else norm("norm2", x))
    x = x + dense(p, f"{name}.ff2", jax.nn.gelu(inner, approximate=True))
    return norm("norm2", x) if of.post_norm else x


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_probs, labels[:, None], axis=1).mean()


def binary_cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    positive = jnp.maximum(logits, 0) - logits * labels
    return (positive + jnp.log1p(jnp.exp(-jnp.abs(logits)))).mean()


LOSSES = {"cross_entropy": cross_entropy, "binary": binary_cross_entropy}
