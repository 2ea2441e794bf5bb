"""Norms for the LAMB optimizer."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor


def lamb_square(t: Tensor) -> Tensor:
    """Compute the sum of squares in float32, as LAMB needs it. There is no gradient.

    Args:
        t: The operand; float16, bfloat16, float32 or float64. The sum of a shard is over the shards
            of all replicas.

    Returns:
        A new float32 tensor of rank 0.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        NotImplementedError: `t` is a shard that not all replicas hold one each of, found when a
            session is made.
    """
    check_inputs(t=t)
    return make("LambSquare", [t], name="lamb_square_out", settings="lamb_square")
