from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.frameworks.jax_layers import Params, dense
from benchmarks.models.resnet import ResNet


def prepare(p: Params) -> Params:
    """Filters as (kh, kw, in, out): XLA's convolution on CPUs wants channels last."""
    return {name: w.transpose(2, 3, 1, 0) if w.ndim == 4 else w for name, w in p.items()}


def _batch_norm(p: Params, name: str, y: jax.Array, running: Params | None) -> jax.Array:
    """``running``: training, which puts the new running statistics there."""
    mean, variance = p[f"{name}.running_mean"], p[f"{name}.running_var"]
    if running is not None:
        new, biased = y.mean((0, 1, 2)), y.var((0, 1, 2))
        count = y.size // y.shape[-1]
        running[f"{name}.running_mean"] = 0.9 * mean + 0.1 * new
        running[f"{name}.running_var"] = 0.9 * variance + 0.1 * biased * (count / (count - 1))
        mean, variance = new, biased
    scale = p[f"{name}.weight"] * jax.lax.rsqrt(variance + 1e-5)
    return (y - mean) * scale + p[f"{name}.bias"]


def _convolution(
    p: Params, name: str, x: jax.Array, stride: int, running: Params | None
) -> jax.Array:
    filters = p[f"{name}.conv.weight"]
    pad = filters.shape[0] // 2
    y = jax.lax.conv_general_dilated(
        x,
        filters,
        (stride, stride),
        [(pad, pad), (pad, pad)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return _batch_norm(p, f"{name}.norm", y, running)


def training_outputs(of: ResNet, p: Params, images: jax.Array) -> tuple[jax.Array, Params]:
    """The outputs, and what running statistics are after this batch."""
    running: Params = {}
    return outputs(of, p, images, running), running


def outputs(of: ResNet, p: Params, images: jax.Array, running: Params | None = None) -> jax.Array:
    x = images.transpose(0, 2, 3, 1)
    x = jax.nn.relu(_convolution(p, "stem", x, 2 if of.large_stem else 1, running))
    if of.large_stem:
        pads = ((0, 0), (1, 1), (1, 1), (0, 0))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
    for i, block in enumerate(of.blocks):
        y = x
        for j, (_, _, _, stride) in enumerate(block.convolutions):
            y = _convolution(p, f"block{i}.conv{j}", y, stride, running)
            if j < len(block.convolutions) - 1:
                y = jax.nn.relu(y)
        if block.projects:
            x = _convolution(p, f"block{i}.shortcut", x, block.stride, running)
        x = jax.nn.relu(x + y)
    return dense(p, "head", x.mean((1, 2)))
