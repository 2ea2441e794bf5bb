"""Layers ready for use. Those not named here are in modules of their own."""

from popxl_addons.layers.conv2d import Conv2D
from popxl_addons.layers.embedding import Embedding
from popxl_addons.layers.group_norm import GroupNorm
from popxl_addons.layers.layer_norm import LayerNorm
from popxl_addons.layers.linear import Linear

__all__ = ["Conv2D", "Embedding", "GroupNorm", "LayerNorm", "Linear"]
