"""Ctrl-C, and disks that are full, at the worst places: a module is plain torch afterwards."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import torch
from torch import nn

import poptorch

X = torch.linspace(-1, 1, 16).reshape(4, 4)


class Watched(nn.Module):
    """Ctrl-C comes while a parameter is put back after the trace."""

    def __init__(self) -> None:
        super().__init__()
        self.is_armed = False
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 2.0))
        self.shift = nn.Parameter(torch.ones(4))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "scale" and self.is_armed and value.device.type == "cpu":
            signal.raise_signal(signal.SIGINT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_armed:
            signal.raise_signal(signal.SIGINT)
        result: torch.Tensor = self.fc(x) * self.scale + self.shift
        return result


def test_parameters_are_put_back_whatever_comes() -> None:
    model = Watched()
    weights = dict(model.named_parameters())
    executor = poptorch.inferenceModel(model)
    model.is_armed = executor.model.is_armed = True
    with pytest.raises(KeyboardInterrupt):
        executor(X)
    model.is_armed = executor.model.is_armed = False
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert all(weights[name] is one for name, one in model.named_parameters())
    torch.testing.assert_close(executor(X), model(X).detach())
