"""The few names of torchvision that the tutorial programs use, without its download.

`datasets.MNIST` reads a local MNIST-format folder. Importing this module seeds torch, because the
programs shuffle their data and seed NumPy alone.
"""

import os
import sys

import torch

from torchvision import datasets, transforms

# The order of the images: a number, so that another order can be tried.
SEED_VARIABLE = "TORCHVISION_SHIM_SEED"

_seed = int(os.environ.get(SEED_VARIABLE, "1"))
torch.manual_seed(_seed)
print(f"torch.manual_seed({_seed})", file=sys.stderr)

__all__ = ["datasets", "transforms"]
