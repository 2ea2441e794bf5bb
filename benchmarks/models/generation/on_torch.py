from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from benchmarks.models.generation import Decode, Generation
from benchmarks.models.gpt2 import on_torch

Caches = list[tuple[torch.Tensor, torch.Tensor]]


class Net(on_torch.Net):
    def __init__(self, of: Generation) -> None:
        super().__init__(of.of)

    def forward(
        self, tokens: torch.Tensor, position: Any, caches: Caches, attend: Callable[..., Any]
    ) -> torch.Tensor:
        x = F.embedding(tokens, self.tokens) + self.positions[position]
        for layer, (keys, values) in zip(self.layers, caches, strict=True):
            x = layer.around(x, partial(attend, keys=keys, values=values, position=position))
        return F.linear(self.norm(x).flatten(0, 1), self.tokens)


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    position: int,
) -> torch.Tensor:
    """Reads what is in the caches."""
    keys[:, :, position], values[:, :, position] = k[:, :, 0], v[:, :, 0]
    return F.scaled_dot_product_attention(
        q, keys[:, :, : position + 1], values[:, :, : position + 1]
    )


def _attend_masked(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    position: torch.Tensor,
) -> torch.Tensor:
    """Reads the whole caches: compiled code then has one shape for all positions."""
    keys.index_copy_(2, position, k)
    values.index_copy_(2, position, v)
    seen = torch.arange(keys.shape[2]) <= position
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen[None])


def _caches(of: Generation, batch: int) -> Caches:
    shape = of.cache_shape(batch)
    return [(torch.zeros(shape), torch.zeros(shape)) for _ in range(of.of.layers)]


def decoder(of: Generation, batch: int, net: Net) -> Decode:
    caches = _caches(of, batch)

    def decode(tokens: npt.NDArray[np.int32], position: int) -> npt.NDArray[np.float32]:
        with torch.no_grad():
            return net(torch.from_numpy(tokens), position, caches, _attend).numpy()

    return decode


def compiled_decoder(of: Generation, batch: int, net: Net, **options: Any) -> Decode:
    caches = _caches(of, batch)
    compiled = torch.compile(net, options=options or None)

    def decode(tokens: npt.NDArray[np.int32], position: int) -> npt.NDArray[np.float32]:
        at = torch.tensor([position])
        with torch.no_grad():
            return compiled(torch.from_numpy(tokens), at, caches, _attend_masked).numpy()

    return decode
