"""The scale that loses least in a cast to a float8 type."""

from __future__ import annotations

import numpy as np

import popxl
from popxl import ops
from popxl.fp8_utils import FP8_MSE_TOLERANCE
from popxl_addons.ops.fp8_utils import float8_143_def, float8_152_def

__all__ = ["fp8_mse_scale"]

_FORMATS = {popxl.float8_143: float8_143_def, popxl.float8_152: float8_152_def}
# Of scales that lose equally much the one nearest to 0 is taken.
_SCALES = sorted(range(-31, 32), key=abs)


def fp8_mse_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """The exponent that loses least when a tensor is cast to a float8 type.

    The one within [-31, 31] with the least mean square error, as popxl.fp8_utils.host_fp8_mse_scale
    finds it; all are tried, in a loop. No gradient.

    Args:
        src: A tensor of any shape, float16 or float32.
        dtype: float8_143 or float8_152.

    Returns:
        An int32 scalar.

    Raises:
        RuntimeError: One of the dtypes is another.
    """
    if src.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"fp8_mse_scale: wanted float16 or float32; given {src}")
    if dtype not in _FORMATS:
        raise RuntimeError(f"fp8_mse_scale: wanted float8_143 or float8_152; given {dtype}")
    largest = _FORMATS[dtype].max_value

    def try_scale(
        error: popxl.Tensor, best: popxl.Tensor, index: popxl.Tensor, t: popxl.Tensor
    ) -> tuple[popxl.Tensor, popxl.Tensor, popxl.Tensor]:
        scales = np.array(_SCALES, np.int32)
        scale = ops.gather(popxl.constant(scales), index)
        limits = popxl.constant(np.ldexp(np.float64(largest), -scales), popxl.float64)
        limit = ops.gather(limits, index)
        codes = ops.pow2scale_cast_to_fp8(t, scale, dtype)
        back = ops.pow2scale_cast_from_fp8(codes, ops.negate(scale), popxl.float32)
        exact = ops.cast(t, popxl.float64)
        # The cast makes NaN of what is too large; what counts is how far it is from the largest.
        ends = ops.where(ops.greater(exact, exact - exact), limit, ops.negate(limit))
        back = ops.where(ops.isnan(back), ends, ops.cast(back, popxl.float64))
        difference = back - exact
        found = ops.mean(difference * difference)
        better = ops.greater(error * popxl.constant(FP8_MSE_TOLERANCE, popxl.float64), found)
        return (
            ops.where(better, found, error),
            ops.where(better, scale, best),
            index + popxl.constant(1, popxl.int32),
        )

    start = (
        popxl.constant(np.inf, popxl.float64),
        popxl.constant(0, popxl.int32),
        popxl.constant(0, popxl.int32),
    )
    t = ops.cast(ops.detach(src), popxl.float32)
    graph = popxl.gcg().ir.create_graph(try_scale, *start, t)
    _, best, _ = ops.repeat(graph, len(_SCALES), *start, t)
    return best
