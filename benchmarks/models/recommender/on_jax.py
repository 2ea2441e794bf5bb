from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import data
from benchmarks.frameworks.jax_layers import Params, binary_cross_entropy, dense
from benchmarks.models.recommender import Recommender


def _layers(of: Recommender, p: Params, part: str, x: jax.Array) -> jax.Array:
    names = [name for name in of.dense_layers if name.startswith(part)]
    for name in names:
        x = dense(p, name, x)
        if part == "bottom" or name != names[-1]:
            x = jax.nn.relu(x)
    return x


def _interact(
    of: Recommender, p: Params, features: jax.Array, looked_up: Sequence[jax.Array]
) -> jax.Array:
    x = _layers(of, p, "bottom", features)
    vectors = jnp.stack([x, *looked_up], axis=1)
    first, second = map(jnp.array, of.pairs)
    products = (vectors @ vectors.transpose(0, 2, 1))[:, first, second]
    return _layers(of, p, "top", jnp.concatenate([x, products], axis=1))[:, 0]


def _look_up(of: Recommender, p: Params, rows: jax.Array) -> list[jax.Array]:
    return [p[name][ids] for name, ids in zip(of.table_names, rows, strict=True)]


def outputs(of: Recommender, p: Params, features: jax.Array, rows: jax.Array) -> jax.Array:
    return _interact(of, p, features, _look_up(of, p, rows))


def step(
    of: Recommender,
    p: Params,
    features: jax.Array,
    rows: jax.Array,
    labels: jax.Array,
) -> tuple[Params, jax.Array]:
    """The whole SGD step: gradients of the rows that were read, which are added to their tables."""

    def loss_of(values: Params, looked_up: list[jax.Array]) -> jax.Array:
        return binary_cross_entropy(_interact(of, values, features, looked_up), labels)

    layers = {name: value for name, value in p.items() if name not in of.table_names}
    differentiate: Any = jax.value_and_grad(loss_of, (0, 1))
    loss, (gradients, row_gradients) = differentiate(layers, _look_up(of, p, rows))
    new = {name: w - data.LEARNING_RATE * gradients[name] for name, w in layers.items()}
    for name, ids, gradient in zip(of.table_names, rows, row_gradients, strict=True):
        new[name] = p[name].at[ids].add(-data.LEARNING_RATE * gradient)
    return new, loss
