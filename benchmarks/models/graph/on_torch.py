from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.models.graph import GraphNet


class Net(nn.Module):
    def __init__(self, of: GraphNet) -> None:
        super().__init__()
        self.of = of
        for name, sizes in zip(of.layers, itertools.pairwise(of.widths), strict=True):
            setattr(self, name, nn.Linear(*sizes))

    def forward(
        self,
        x: torch.Tensor,
        sources: torch.Tensor,
        targets: torch.Tensor,
        factors: torch.Tensor,
    ) -> torch.Tensor:
        for name in self.of.layers:
            layer = getattr(self, name)
            sent = F.linear(x, layer.weight).index_select(0, sources) * factors[:, None]
            received = sent.new_zeros((x.shape[0], sent.shape[1])).index_add(0, targets, sent)
            x = received + layer.bias
            if name != self.of.layers[-1]:
                x = F.relu(x)
        return x
