"""All lowerings: importing this module fills the table."""

from __future__ import annotations

from poptorch._lower import (
    ops_annotations,
    ops_control,
    ops_functions,
    ops_index,
    ops_linear,
    ops_loss,
    ops_ordering,
    ops_points,
    ops_pointwise,
    ops_random,
    ops_rearrange,
    ops_reduction,
    ops_shape,
)
from poptorch._lower.registry import is_lowered, lowered_names
from poptorch._lower.shape_rules import SHAPE_RULES

# One module for each family of operators.

FAMILIES = (
    ops_annotations,
    ops_control,
    ops_functions,
    ops_index,
    ops_linear,
    ops_loss,
    ops_ordering,
    ops_points,
    ops_pointwise,
    ops_random,
    ops_rearrange,
    ops_reduction,
    ops_shape,
)

__all__ = ["FAMILIES", "SHAPE_RULES", "is_lowered", "lowered_names"]
