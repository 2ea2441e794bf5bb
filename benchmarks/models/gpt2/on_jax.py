from __future__ import annotations

import jax

from benchmarks.frameworks.jax_layers import Params, encoder_layer, layer_norm
from benchmarks.models.gpt2 import Gpt2


def outputs(of: Gpt2, p: Params, tokens: jax.Array) -> jax.Array:
    x = p["tokens"][tokens] + p["positions"]
    for i in range(of.layers):
        x = encoder_layer(p, f"layer{i}", x, of.decoder)
    return layer_norm(p, "norm", x).reshape(-1, of.decoder.hidden) @ p["tokens"].T
