"""Layers ready for use."""

from popxl_addons.layers.layer_norm import LayerNorm
from popxl_addons.layers.linear import Linear

__all__ = ["LayerNorm", "Linear"]
