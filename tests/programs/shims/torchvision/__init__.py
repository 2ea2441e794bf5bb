"""The few names of torchvision that the tutorial programs use, without its download.

`datasets.MNIST` reads a local MNIST-format folder.
"""

from torchvision import datasets, transforms

__all__ = ["datasets", "transforms"]
