from __future__ import annotations

from functools import partial

import numpy as np

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks.frameworks.popxl_models import Linear, normal
from benchmarks.models.resnet import Block, ResNet


class Filters(addons.Module):
    def __init__(self, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.outputs, self.kernel, self.stride = outputs, kernel, stride

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        shape = (self.outputs, x.shape[1], self.kernel, self.kernel)
        w = self.add_variable_input("weight", partial(normal, 0.1, shape), x.dtype)
        return ops.conv(x, w, (self.stride,) * 2, (self.kernel // 2,) * 4)


class BatchNorm(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        weight, bias, mean, variance = (
            self.add_variable_input(name, partial(fill, x.shape[1]), x.dtype)
            for name, fill in (
                ("weight", np.ones),
                ("bias", np.zeros),
                ("running_mean", np.zeros),
                ("running_var", np.ones),
            )
        )
        return ops.batch_norm_inference(x, weight, bias, mean, variance, epsilon=1e-5)


class ConvNorm(addons.Module):
    def __init__(self, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv, self.norm = Filters(outputs, kernel, stride), BatchNorm()

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.norm(self.conv(x))


class ResidualBlock(addons.Module):
    def __init__(self, of: Block) -> None:
        super().__init__()
        self.of = of
        for i, (_, outputs, kernel, stride) in enumerate(of.convolutions):
            setattr(self, f"conv{i}", ConvNorm(outputs, kernel, stride))
        if of.projects:
            self.shortcut = ConvNorm(of.outputs, 1, of.stride)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        y = x
        count = len(self.of.convolutions)
        for i in range(count):
            y = getattr(self, f"conv{i}")(y)
            if i < count - 1:
                y = ops.relu(y)
        return ops.relu(y + (self.shortcut(x) if self.of.projects else x))


class Net(addons.Module):
    def __init__(self, of: ResNet) -> None:
        super().__init__()
        self.of = of
        self.stem = ConvNorm(of.width, of.stem_kernel, 2 if of.large_stem else 1)
        for i, block in enumerate(of.blocks):
            setattr(self, f"block{i}", ResidualBlock(block))
        self.head = Linear(of.classes)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        x = ops.relu(self.stem(x))
        if self.of.large_stem:
            x = ops.max_pool(x, (3, 3), stride=(2, 2), padding=(1, 1, 1, 1))
        for i in range(len(self.of.blocks)):
            x = getattr(self, f"block{i}")(x)
        return self.head(ops.mean(x.reshape((*x.shape[:2], -1)), axis=2))
