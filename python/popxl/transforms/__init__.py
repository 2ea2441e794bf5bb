"""Transforms of graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pando.missing_names import missing_names
from popxl.transforms.autodiff import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
    autodiff,
)
from popxl.transforms.decompose_sum import decompose_sum
from popxl.transforms.exchange import io_tile_exchange, merge_exchange
from popxl.transforms.fuse_attention import fuse_attention

__all__ = [
    "ExpectedConnection",
    "ExpectedConnectionType",
    "GradGraphInfo",
    "autodiff",
    "decompose_sum",
    "fuse_attention",
    "io_tile_exchange",
    "merge_exchange",
]

if not TYPE_CHECKING:
    __getattr__ = missing_names(__name__)
