"""Data sets on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from pando.datasets import DEFAULT_FOLDER, load_mnist_format

# Limits the number of images of either set, for tests.
LIMIT_VARIABLE = "TORCHVISION_SHIM_IMAGES"


class MNIST(torch.utils.data.Dataset[tuple[Any, int]]):
    """The images of the installed MNIST-format data set; `root` and `download` do nothing."""

    def __init__(
        self,
        root: str,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        download: bool = False,
    ) -> None:
        data = load_mnist_format(DEFAULT_FOLDER)
        chosen = data.train if train else data.test
        limit = int(os.environ.get(LIMIT_VARIABLE, len(chosen)))
        self._images = chosen.images[:limit]
        self._labels = chosen.labels[:limit]
        self._transform = transform
        self._target_transform = target_transform

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = self._images[index]
        label: Any = int(self._labels[index])
        if self._transform is not None:
            image = self._transform(image)
        if self._target_transform is not None:
            label = self._target_transform(label)
        return image, label
