from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.frameworks.jax_layers import Params, dense
from benchmarks.models.lstm import Lstm

State = tuple[jax.Array, jax.Array]


def prepare(p: Params) -> Params:
    """Weights of the gates as (read, gates): the products of a step then read rows."""
    return {name: w.T if name.startswith("lstm.weight") else w for name, w in p.items()}


def _layer(p: Params, layer: int, x: jax.Array) -> jax.Array:
    bias = p[f"lstm.bias_ih_l{layer}"] + p[f"lstm.bias_hh_l{layer}"]
    recurrent = p[f"lstm.weight_hh_l{layer}"]
    # One product for the inputs of all steps.
    parts = x @ p[f"lstm.weight_ih_l{layer}"] + bias

    def step(state: State, part: jax.Array) -> tuple[State, jax.Array]:
        h, c = state
        i, f, g, o = jnp.split(part + h @ recurrent, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[1], recurrent.shape[0]), x.dtype)
    return jax.lax.scan(step, (zeros, zeros), parts)[1]


def outputs(of: Lstm, p: Params, x: jax.Array) -> jax.Array:
    for layer in range(of.layers):
        x = _layer(p, layer, x)
    return dense(p, "head", x[-1])
