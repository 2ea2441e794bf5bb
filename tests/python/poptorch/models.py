"""Modules for the tests of executors, in a file of their own so that other processes load them."""

from __future__ import annotations

from typing import Any

import torch


class WithLoss(torch.nn.Module):
    """A layer and, in training, its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.loss = torch.nn.MSELoss()

    def forward(self, x: torch.Tensor, target: torch.Tensor | None = None) -> Any:
        y = self.fc(x)
        if self.training and target is not None:
            return y, self.loss(y, target)
        return y


class Scaled(torch.nn.Module):
    """Buffers and a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((), 2.0))
        self.register_buffer("scale", torch.full((), 3.0))
        self.register_buffer("shift", torch.full((), 1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x * self.weight * self.scale + self.shift
        return result


class Counter(torch.nn.Module):
    """A buffer that a run writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


class Log(torch.nn.Module):
    """A weight, the logarithm of the input and, in training, a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.log(x) * self.weight
        return (y, torch.nn.functional.mse_loss(y, x)) if self.training else y
