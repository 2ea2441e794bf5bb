"""The layout of a tensor on the tiles of a device, which other devices do not have."""

from __future__ import annotations

import popxl
from popxl import ops

__all__ = ["linear_layout"]


def linear_layout(t: popxl.Tensor, bs: int = 1) -> popxl.Tensor:
    """The values of `t`; the block size has no effect."""
    return ops.identity(t)
