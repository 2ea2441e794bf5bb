from __future__ import annotations

import jax

from benchmarks.frameworks.jax_layers import Params, dense, encoder_layer, layer_norm
from benchmarks.models.bert import Bert


def outputs(
    of: Bert, p: Params, tokens: jax.Array, segments: jax.Array, rows: jax.Array
) -> jax.Array:
    x = p["tokens"][tokens] + p["positions"] + p["segments"][segments]
    x = layer_norm(p, "norm", x)
    for i in range(of.layers):
        x = encoder_layer(p, f"layer{i}", x, of.encoder)
    x = x.reshape(-1, of.encoder.hidden)[rows]
    x = layer_norm(p, "head_norm", jax.nn.gelu(dense(p, "transform", x), approximate=True))
    return x @ p["tokens"].T + p["head_bias"]
