"""The scale with which the largest value fits a float8 type."""

from __future__ import annotations

import numpy as np

import popxl
from popxl import ops
from popxl_addons.ops.fp8_utils import float8_143_def, float8_152_def

__all__ = ["fp8_amax_scale"]

_MOST = 31
_FORMATS = {popxl.float8_143: float8_143_def, popxl.float8_152: float8_152_def}


def fp8_amax_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """The exponent with which the largest value of a tensor fits a float8 type.

    floor(log2(largest number of dtype / max(abs(src)))) within [-31, 31], without a gradient.

    Args:
        src: A tensor of any shape, float16, bfloat16 or float32.
        dtype: float8_143 or float8_152.

    Returns:
        An int32 scalar.

    Raises:
        RuntimeError: One of the dtypes is another.
    """
    if src.dtype not in (popxl.float16, popxl.bfloat16, popxl.float32):
        raise RuntimeError(f"fp8_amax_scale: wanted float16, bfloat16 or float32; given {src}")
    if dtype not in _FORMATS:
        raise RuntimeError(f"fp8_amax_scale: wanted float8_143 or float8_152; given {dtype}")
    largest = ops.max(ops.abs(ops.cast(ops.detach(src), popxl.float32)))
    # Counting powers of two is exact where a logarithm is not: largest * 2^k <= limit.
    powers = 2.0 ** np.arange(1 - _MOST, _MOST + 1)
    limit = popxl.constant(_FORMATS[dtype].max_value, popxl.float32)
    too_large = ops.greater(largest * popxl.constant(powers, popxl.float32), limit)
    return popxl.constant(_MOST, popxl.int32) - ops.sum(ops.cast(too_large, popxl.int32))
