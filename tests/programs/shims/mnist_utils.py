"""The helper module that the user guide's MNIST program imports."""

from __future__ import annotations

import time
from typing import Any

import torch
import torchvision


class Timer:
    """Context manager: prints how long its body took."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._title = str(args[0]) if args else "Elapsed"

    def __enter__(self) -> Timer:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        print(f"{self._title}: {time.perf_counter() - self._start:.2f} s")


def get_mnist_data(test_batch_size: int, batch_size: int) -> tuple[Any, Any]:
    """Loaders of the training and the test images, shuffled, in whole batches."""
    transform = torchvision.transforms.Compose(
        [
            torchvision.transforms.ToTensor(),
            torchvision.transforms.Normalize((0.1307,), (0.3081,)),
        ]
    )

    def loader(train: bool, size: int) -> Any:
        images = torchvision.datasets.MNIST("", train=train, transform=transform)
        return torch.utils.data.DataLoader(images, batch_size=size, shuffle=True, drop_last=True)

    return loader(True, batch_size), loader(False, test_batch_size)
