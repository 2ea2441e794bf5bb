"""A module with parameters and buffers, trained by an executor and by torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

import poptorch

X = torch.sin(torch.arange(32.0)).reshape(8, 4)
TARGET = torch.cos(torch.arange(24.0)).reshape(8, 3)
RATE = 0.1


class Norms(nn.Module):
    """Layers with parameters and buffers, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.layer_norm = nn.LayerNorm(3)
        self.batch_norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(3))
        # Norms of numbers that are almost equal would show rounding.
        with torch.no_grad():
            self.fc.weight.copy_(torch.cos(torch.arange(12.0) ** 2).reshape(3, 4))
            self.fc.bias.copy_(torch.linspace(-1, 1, 3))

    def forward(self, x: torch.Tensor, target: torch.Tensor | None = None) -> Any:
        self.calls += 1
        y = self.batch_norm(self.layer_norm(self.fc(x)))
        return y if target is None else (y, functional.mse_loss(y, target))


def train(model: nn.Module, options: poptorch.Options | None = None) -> poptorch.PoplarExecutor:
    return poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=RATE))


def torch_step(model: nn.Module) -> None:
    """A step as `train` makes one."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    optimizer.zero_grad()
    model(X, TARGET)[1].backward()
    optimizer.step()
