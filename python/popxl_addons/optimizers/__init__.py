"""Optimisers ready for use."""

from popxl_addons.optimizers.adam import AdamOptimizerStep

__all__ = ["AdamOptimizerStep"]
