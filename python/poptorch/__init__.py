"""Training and inference of PyTorch modules as compiled programs."""

from poptorch import optim

__all__ = ["optim"]
