from __future__ import annotations

import torch
from torch import nn

from benchmarks.models.lstm import Lstm


class Net(nn.Module):
    def __init__(self, of: Lstm) -> None:
        super().__init__()
        self.lstm = nn.LSTM(of.features, of.hidden, of.layers)
        self.head = nn.Linear(of.hidden, of.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(x)
        return self.head(states[-1])
