from __future__ import annotations

import jax

from benchmarks.frameworks.jax_layers import Params
from benchmarks.models.graph import GraphNet


def outputs(
    of: GraphNet,
    p: Params,
    x: jax.Array,
    sources: jax.Array,
    targets: jax.Array,
    factors: jax.Array,
) -> jax.Array:
    for name in of.layers:
        sent = (x @ p[f"{name}.weight"])[sources] * factors[:, None]
        x = jax.ops.segment_sum(sent, targets, x.shape[0]) + p[f"{name}.bias"]
        if name != of.layers[-1]:
            x = jax.nn.relu(x)
    return x
