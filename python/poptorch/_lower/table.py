"""All lowerings: importing this module fills the table."""

from __future__ import annotations

from poptorch._lower import (
    ops_activation,
    ops_annotations,
    ops_attention,
    ops_control,
    ops_conv,
    ops_distance,
    ops_dropout,
    ops_embedding,
    ops_functions,
    ops_grouped,
    ops_index,
    ops_linear,
    ops_linear_algebra,
    ops_loss,
    ops_margin,
    ops_nll,
    ops_norm,
    ops_ordering,
    ops_pad,
    ops_points,
    ops_pointwise,
    ops_pool,
    ops_random,
    ops_rearrange,
    ops_recurrent,
    ops_reduction,
    ops_resample,
    ops_select,
    ops_shape,
    ops_softmax,
)
from poptorch._lower.registry import is_lowered, lowered_names
from poptorch._lower.shape_rules import SHAPE_RULES

# One module for each family of operators.
FAMILIES = (
    ops_activation,
    ops_annotations,
    ops_attention,
    ops_control,
    ops_conv,
    ops_distance,
    ops_dropout,
    ops_embedding,
    ops_functions,
    ops_grouped,
    ops_index,
    ops_linear,
    ops_linear_algebra,
    ops_loss,
    ops_margin,
    ops_nll,
    ops_norm,
    ops_ordering,
    ops_pad,
    ops_points,
    ops_pointwise,
    ops_pool,
    ops_random,
    ops_rearrange,
    ops_recurrent,
    ops_reduction,
    ops_resample,
    ops_select,
    ops_shape,
    ops_softmax,
)

__all__ = ["FAMILIES", "SHAPE_RULES", "is_lowered", "lowered_names"]
