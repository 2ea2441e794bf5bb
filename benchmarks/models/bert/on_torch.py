from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.frameworks.torch_models import EncoderLayer
from benchmarks.models.bert import Bert


class Net(nn.Module):
    def __init__(self, of: Bert) -> None:
        super().__init__()
        sizes = of.encoder
        self.tokens = nn.Parameter(torch.empty(sizes.classes, sizes.hidden))
        self.positions = nn.Parameter(torch.empty(sizes.sequence, sizes.hidden))
        self.segments = nn.Parameter(torch.empty(of.segments, sizes.hidden))
        self.norm = nn.LayerNorm(sizes.hidden)
        self.layers = nn.ModuleList(EncoderLayer(sizes) for _ in range(of.layers))
        self.transform = nn.Linear(sizes.hidden, sizes.hidden)
        self.head_norm = nn.LayerNorm(sizes.hidden)
        self.head_bias = nn.Parameter(torch.empty(sizes.classes))

    def forward(
        self, tokens: torch.Tensor, segments: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        x = F.embedding(tokens, self.tokens) + self.positions
        x = self.norm(x + F.embedding(segments, self.segments))
        for layer in self.layers:
            x = layer(x)
        x = x.flatten(0, 1).index_select(0, rows)
        x = self.head_norm(F.gelu(self.transform(x), approximate="tanh"))
        return F.linear(x, self.tokens, self.head_bias)
