from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.frameworks.jax_layers import Params, dense
from benchmarks.models.resnet import ResNet


def prepare(p: Params) -> Params:
    """Filters as (kh, kw, in, out): XLA's convolution on CPUs wants channels last."""
    return {name: w.transpose(2, 3, 1, 0) if w.ndim == 4 else w for name, w in p.items()}


def _convolution(p: Params, name: str, x: jax.Array, stride: int) -> jax.Array:
    filters = p[f"{name}.conv.weight"]
    pad = filters.shape[0] // 2
    y = jax.lax.conv_general_dilated(
        x,
        filters,
        (stride, stride),
        [(pad, pad), (pad, pad)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    scale = p[f"{name}.norm.weight"] * jax.lax.rsqrt(p[f"{name}.norm.running_var"] + 1e-5)
    return (y - p[f"{name}.norm.running_mean"]) * scale + p[f"{name}.norm.bias"]


def outputs(of: ResNet, p: Params, images: jax.Array) -> jax.Array:
    x = images.transpose(0, 2, 3, 1)
    x = jax.nn.relu(_convolution(p, "stem", x, 2 if of.large_stem else 1))
    if of.large_stem:
        pads = ((0, 0), (1, 1), (1, 1), (0, 0))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
    for i, block in enumerate(of.blocks):
        y = x
        for j, (_, _, _, stride) in enumerate(block.convolutions):
            y = _convolution(p, f"block{i}.conv{j}", y, stride)
            if j < len(block.convolutions) - 1:
                y = jax.nn.relu(y)
        if block.projects:
            x = _convolution(p, f"block{i}.shortcut", x, block.stride)
        x = jax.nn.relu(x + y)
    return dense(p, "head", x.mean((1, 2)))
