from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.frameworks.torch_models import EncoderLayer
from benchmarks.models.gpt2 import Gpt2


class Net(nn.Module):
    def __init__(self, of: Gpt2) -> None:
        super().__init__()
        self.of = of
        sizes = of.decoder
        self.tokens = nn.Parameter(torch.empty(sizes.classes, sizes.hidden))
        self.positions = nn.Parameter(torch.empty(sizes.sequence, sizes.hidden))
        self.layers = nn.ModuleList(EncoderLayer(sizes) for _ in range(of.layers))
        self.norm = nn.LayerNorm(sizes.hidden)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = F.embedding(tokens, self.tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x).flatten(0, 1), self.tokens)
