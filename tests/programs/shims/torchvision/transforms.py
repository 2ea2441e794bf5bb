"""Transforms of single images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch


class Compose:
    """One transform after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self._transforms = list(transforms)

    def __call__(self, image: Any) -> Any:
        for transform in self._transforms:
            image = transform(image)
        return image


class ToTensor:
    """(height, width) uint8 to (1, height, width) float32 from 0 to 1."""

    def __call__(self, image: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(image).unsqueeze(0).float() / 255


class Normalize:
    """(x - mean) / std for each channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self._mean = torch.tensor(mean).reshape(-1, 1, 1)
        self._std = torch.tensor(std).reshape(-1, 1, 1)

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self._mean) / self._std
