"""ResNet: the stem of small images (3x3) or of large ones (7x7 and max pool), batch norm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.data import Batch
from benchmarks.models import values


@dataclass(frozen=True)
class Block:
    """One residual block: channels read, inside and written, and the stride."""

    inputs: int
    inner: int
    outputs: int
    stride: int
    bottleneck: bool

    @property
    def convolutions(self) -> list[tuple[int, int, int, int]]:
        """(channels read, written, kernel, stride), in order; the stride is that of a 3x3 one."""
        if self.bottleneck:
            return [
                (self.inputs, self.inner, 1, 1),
                (self.inner, self.inner, 3, self.stride),
                (self.inner, self.outputs, 1, 1),
            ]
        return [(self.inputs, self.inner, 3, self.stride), (self.inner, self.outputs, 3, 1)]

    @property
    def projects(self) -> bool:
        """Whether the shortcut is a 1x1 convolution."""
        return self.stride != 1 or self.inputs != self.outputs


@dataclass(frozen=True)
class ResNet:
    side: int  # of the images, which have 3 channels
    large_stem: bool
    bottleneck: bool
    depths: tuple[int, ...]  # blocks of each stage
    width: int  # channels of the stem and inside the first stage; each stage doubles them
    classes: int
    loss: ClassVar[str] = "cross_entropy"

    @property
    def stem_kernel(self) -> int:
        return 7 if self.large_stem else 3

    @property
    def blocks(self) -> list[Block]:
        return list(self._blocks())

    @property
    def features(self) -> int:
        return self.blocks[-1].outputs

    def _blocks(self) -> Iterator[Block]:
        inputs = self.width
        for stage, depth in enumerate(self.depths):
            inner = self.width * 2**stage
            outputs = 4 * inner if self.bottleneck else inner
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                yield Block(inputs, inner, outputs, stride, self.bottleneck)
                inputs = outputs

    @property
    def norms(self) -> list[str]:
        """The names of all batch norms, in the order in which the network computes them."""
        names = ["stem"]
        for i, block in enumerate(self.blocks):
            names += [f"block{i}.conv{j}" for j in range(len(block.convolutions))]
            names += [f"block{i}.shortcut"] if block.projects else []
        return [f"{name}.norm" for name in names]

    def weights(self) -> dict[str, values.Array]:
        result = _convolution("stem", 3, self.width, self.stem_kernel)
        for i, block in enumerate(self.blocks):
            for j, (inputs, outputs, kernel, _) in enumerate(block.convolutions):
                result |= _convolution(f"block{i}.conv{j}", inputs, outputs, kernel)
            if block.projects:
                result |= _convolution(f"block{i}.shortcut", block.inputs, block.outputs, 1)
        return result | values.dense("head", self.features, self.classes)

    def batch(self, rng: np.random.Generator, size: int) -> Batch:
        images = rng.standard_normal((size, 3, self.side, self.side), dtype=np.float32)
        return Batch(images, rng.integers(0, self.classes, size, dtype=np.int32))


def _convolution(name: str, inputs: int, outputs: int, kernel: int) -> dict[str, values.Array]:
    """A convolution without bias and the batch norm behind it, whose statistics are not trivial."""
    scale = (2 / (inputs * kernel**2)) ** 0.5
    mean, variance = (values.normal(f"{name}.{part}", (outputs,), 0.1) for part in ("mean", "var"))
    return {
        f"{name}.conv.weight": values.normal(name, (outputs, inputs, kernel, kernel), scale),
        f"{name}.norm.weight": np.ones(outputs, np.float32),
        f"{name}.norm.bias": np.zeros(outputs, np.float32),
        f"{name}.norm.running_mean": mean,
        f"{name}.norm.running_var": 1 + np.abs(variance),
    }


SIZES = {
    "tiny": ResNet(16, False, False, (1, 1), 8, 10),
    "tiny_bottleneck": ResNet(32, True, True, (1, 1), 8, 10),
    "18": ResNet(32, False, False, (2, 2, 2, 2), 64, 10),
    "50": ResNet(224, True, True, (3, 4, 6, 3), 64, 1000),
}
