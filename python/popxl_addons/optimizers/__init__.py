"""Optimisers ready for use."""

from popxl_addons.optimizers.adam import AdamOptimizerStep
from popxl_addons.optimizers.lamb import LAMBOptimizerStep
from popxl_addons.optimizers.loss_scaling import DynamicLossScaling
from popxl_addons.optimizers.sgd import SGDOptimizerStep

__all__ = [
    "AdamOptimizerStep",
    "DynamicLossScaling",
    "LAMBOptimizerStep",
    "SGDOptimizerStep",
]
