from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks import data
from benchmarks.frameworks.popxl_models import Linear, normal
from benchmarks.models.resnet import Block, ResNet

# Means and variances, alternately.
Statistics = list[popxl.Tensor]
PARAMETERS, RUNNING = ("weight", "bias"), ("running_mean", "running_var")
FILLS = {"weight": np.ones, "bias": np.zeros, "running_mean": np.zeros, "running_var": np.ones}


class Filters(addons.Module):
    def __init__(self, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.outputs, self.kernel, self.stride = outputs, kernel, stride

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        shape = (self.outputs, x.shape[1], self.kernel, self.kernel)
        w = self.add_variable_input("weight", partial(normal, 0.1, shape), x.dtype)
        return ops.conv(x, w, (self.stride,) * 2, (self.kernel // 2,) * 4)


class BatchNorm(addons.Module):
    def __init__(self, statistics: Statistics | None) -> None:
        super().__init__()
        self.statistics = statistics

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        names = PARAMETERS if self.statistics is not None else (*PARAMETERS, *RUNNING)
        given = [
            self.add_variable_input(name, partial(FILLS[name], x.shape[1]), x.dtype)
            for name in names
        ]
        if self.statistics is None:
            return ops.batch_norm_inference(x, *given, epsilon=1e-5)
        y, *found = ops.batch_norm_training(x, *given, epsilon=1e-5)
        self.statistics += found
        return y


class ConvNorm(addons.Module):
    def __init__(
        self, outputs: int, kernel: int, stride: int, statistics: Statistics | None
    ) -> None:
        super().__init__()
        self.conv, self.norm = Filters(outputs, kernel, stride), BatchNorm(statistics)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.norm(self.conv(x))


class ResidualBlock(addons.Module):
    def __init__(self, of: Block, statistics: Statistics | None) -> None:
        super().__init__()
        self.of = of
        for i, (_, outputs, kernel, stride) in enumerate(of.convolutions):
            setattr(self, f"conv{i}", ConvNorm(outputs, kernel, stride, statistics))
        if of.projects:
            self.shortcut = ConvNorm(of.outputs, 1, of.stride, statistics)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        y = x
        count = len(self.of.convolutions)
        for i in range(count):
            y = getattr(self, f"conv{i}")(y)
            if i < count - 1:
                y = ops.relu(y)
        return ops.relu(y + (self.shortcut(x) if self.of.projects else x))


class Net(addons.Module):
    """``statistics``: where training puts mean and variance of each norm; None: inference."""

    def __init__(self, of: ResNet, statistics: Statistics | None = None) -> None:
        super().__init__()
        self.of = of
        self.stem = ConvNorm(of.width, of.stem_kernel, 2 if of.large_stem else 1, statistics)
        for i, block in enumerate(of.blocks):
            setattr(self, f"block{i}", ResidualBlock(block, statistics))
        self.head = Linear(of.classes)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        x = ops.relu(self.stem(x))
        if self.of.large_stem:
            x = ops.max_pool(x, (3, 3), stride=(2, 2), padding=(1, 1, 1, 1))
        for i in range(len(self.of.blocks)):
            x = getattr(self, f"block{i}")(x)
        return self.head(ops.mean(x.reshape((*x.shape[:2], -1)), axis=2))


class TrainingNet(Net):
    """Gives the statistics of the batch as well."""

    def __init__(self, of: ResNet) -> None:
        self.statistics: Statistics = []
        super().__init__(of, self.statistics)

    def build(self, x: popxl.Tensor) -> tuple[popxl.Tensor, ...]:
        return super().build(x), *self.statistics


def after_step(
    of: ResNet, statistics: Sequence[popxl.Tensor], weights: dict[str, data.Array]
) -> None:
    """Moves the running statistics a tenth of the way, as PyTorch does by default."""
    names = [f"{norm}.{part}" for norm in of.norms for part in RUNNING]
    for name, new in zip(names, statistics, strict=True):
        running = popxl.variable(weights.pop(name), popxl.float32, name)
        ops.var_updates.accumulate_moving_average_(running, new, f=0.9)
