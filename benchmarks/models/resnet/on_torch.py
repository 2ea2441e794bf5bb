from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.models.resnet import Block, ResNet


class ConvNorm(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))


class ResidualBlock(nn.Module):
    def __init__(self, of: Block) -> None:
        super().__init__()
        self.count = len(of.convolutions)
        for i, sizes in enumerate(of.convolutions):
            setattr(self, f"conv{i}", ConvNorm(*sizes))
        self.shortcut = (
            ConvNorm(of.inputs, of.outputs, 1, of.stride) if of.projects else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for i in range(self.count):
            y = getattr(self, f"conv{i}")(y)
            if i < self.count - 1:
                y = F.relu(y)
        return F.relu(y + self.shortcut(x))


class Net(nn.Module):
    def __init__(self, of: ResNet) -> None:
        super().__init__()
        self.of = of
        self.stem = ConvNorm(3, of.width, of.stem_kernel, 2 if of.large_stem else 1)
        for i, block in enumerate(of.blocks):
            setattr(self, f"block{i}", ResidualBlock(block))
        self.head = nn.Linear(of.features, of.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.stem(x))
        if self.of.large_stem:
            x = F.max_pool2d(x, 3, 2, 1)
        for i in range(len(self.of.blocks)):
            x = getattr(self, f"block{i}")(x)
        return self.head(x.mean((2, 3)))
