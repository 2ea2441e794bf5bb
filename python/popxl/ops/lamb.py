"""Norms for the LAMB optimizer."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, make
from popxl.tensor import Tensor


def lamb_square(t: Tensor) -> Tensor:
    """The sum of squares as a float32 scalar."""
    check_inputs(t=t)
    return make("LambSquare", [t], name="lamb_square_out", settings="lamb_square")
