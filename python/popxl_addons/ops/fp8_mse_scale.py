"""The scale that loses least in a cast to a float8 type."""

from __future__ import annotations

import numpy as np

import popxl
from popxl import ops
from popxl.fp8_utils import MSE_EDGES, MSE_SCALES, mse_of_magnitudes

__all__ = ["fp8_mse_scale"]


def fp8_mse_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """The exponent that loses least when a tensor is cast to a float8 type.

    It is found as `popxl.fp8_utils.host_fp8_mse_scale` finds it. No gradient.

    Args:
        src: A float16, bfloat16 or float32 tensor of any shape.
        dtype: The float8 type.

    Returns:
        The scale in [-31, 31], an int32 scalar.

    Raises:
        RuntimeError: `src` or `dtype` has another type.
    """
    if src.dtype not in (popxl.float16, popxl.bfloat16, popxl.float32):
        raise RuntimeError(f"fp8_mse_scale: wanted float16, bfloat16 or float32; given {src}")
    if dtype not in (popxl.float8_143, popxl.float8_152):
        raise RuntimeError(f"fp8_mse_scale: wanted float8_143 or float8_152; given {dtype}")
    t = ops.cast(ops.detach(src), popxl.float32)
    counts = ops.histogram(t, [float(edge) for edge in MSE_EDGES], absolute_of_input=True)
    counts = ops.cast(ops.slice(counts, 1, len(MSE_EDGES) + 1, axis=0), popxl.float64)
    costs = popxl.constant(mse_of_magnitudes(dtype), popxl.float64)
    errors = ops.cumsum(costs * counts, 1)[:, -1]
    equally_good = ops.cast(ops.equal(errors, ops.min(errors)), popxl.int32)
    first = ops.cast(ops.argmin(errors, 0), popxl.int32)
    half = popxl.constant(2, popxl.int32)
    scales = popxl.constant(MSE_SCALES.astype(np.int32))
    return ops.gather(scales, first + ops.sum(equally_good) / half)
