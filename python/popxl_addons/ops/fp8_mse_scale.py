"""The scale that loses least in a cast to a float8 type."""

from __future__ import annotations

import popxl

__all__ = ["fp8_mse_scale"]


def fp8_mse_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """Raises NotImplementedError: the search for the scale runs on the host only.

    RuntimeError unless `src` is float16 or float32.
    """
    if src.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"fp8_mse_scale: wanted float16 or float32; given {src}")
    raise NotImplementedError(
        "fp8_mse_scale is not available in a program: find the scale with "
        "popxl.fp8_utils.host_fp8_mse_scale, or use popxl_addons.fp8_amax_scale"
    )
