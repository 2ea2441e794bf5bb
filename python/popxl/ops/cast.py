"""Changes of the element type."""

from __future__ import annotations

from popxl import dtypes
from popxl.dtypes import DType
from popxl.ops.utils import cast_tensor, check_inputs, check_log2_scale, is_float8, make
from popxl.tensor_base import Tensor


def cast(t: Tensor, data_type: DType) -> Tensor:
    """Convert a tensor to another dtype.

    Floats become integers by truncation toward zero; what lies outside the range of the integers
    becomes the end of the range, and NaN becomes 0. Integers wrap in narrower ones. What is not
    zero becomes True. A gradient passes back to float16, bfloat16 and float32 tensors only.

    Args:
        t: The tensor, of any dtype.
        data_type: The new dtype; any dtype but float8. It may be that of `t`.

    Returns:
        A new tensor with the shape of `t`.

    Raises:
        TypeError: `t` is not a tensor; `data_type` is a float8 format, for which there is
            `pow2scale_cast_to_fp8`.
        ValueError: `t` is not in the current graph; `data_type` is complex.
    """
    return cast_tensor(t, data_type)


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: Tensor, data_type: DType) -> Tensor:
    """Compute t * 2^log2_scale in a float8 format. There is no gradient.

    Values are rounded to the nearest, ties to even; those out of range become NaN.

    Args:
        t: The tensor; float16, bfloat16 or float32.
        log2_scale: The exponent of the scale: an int32 tensor of rank 0. A value outside [-32, 32)
            stops the run, unless the session option `throwIfLog2ScaleTensorNotInRange` is off.
        data_type: `popxl.float8_143` or `popxl.float8_152`.

    Returns:
        A new float8 tensor with the shape of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one; `data_type` is not float8, or the
            scale is not int32.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the scale does not have rank 0.
        popart_exception: `t` is not float16, bfloat16 or float32.
        poplar_application_runtime_error: The scale is out of range in a run.
    """
    check_inputs(t=t, log2_scale=log2_scale)
    check_log2_scale(log2_scale)
    if not is_float8(data_type):
        raise TypeError(
            f"pow2scale_cast_to_fp8: wanted popxl.float8_143 or popxl.float8_152; given {data_type}"
        )
    return make(
        "Pow2ScaleThenCast",
        [t, log2_scale],
        {"dtype": data_type._pb},
        name=f"{t.name}_{data_type.name}",
        settings="pow2scale_cast_to_fp8",
    )


def pow2scale_cast_from_fp8(t: Tensor, log2_scale: Tensor, data_type: DType) -> Tensor:
    """Convert float8 values to floats and multiply them by 2^log2_scale. There is no gradient.

    Args:
        t: The tensor; float8_143 or float8_152.
        log2_scale: The exponent of the scale: an int32 tensor of rank 0. A value outside [-32, 32)
            stops the run, unless the session option `throwIfLog2ScaleTensorNotInRange` is off.
        data_type: `popxl.float16`, `popxl.bfloat16` or `popxl.float32`.

    Returns:
        A new tensor of that dtype with the shape of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one; `data_type` is not float16,
            bfloat16 or float32, or the scale is not int32.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the scale does not have rank 0.
        popart_exception: `t` is not float8.
        poplar_application_runtime_error: The scale is out of range in a run.
    """
    check_inputs(t=t, log2_scale=log2_scale)
    check_log2_scale(log2_scale)
    if data_type not in (dtypes.float16, dtypes.bfloat16, dtypes.float32):
        raise TypeError(
            f"pow2scale_cast_from_fp8: wanted popxl.float16, popxl.bfloat16 or "
            f"popxl.float32; given {data_type}"
        )
    return make(
        "CastThenPow2Scale",
        [t, log2_scale],
        {"dtype": data_type._pb},
        name=f"{t.name}_{data_type.name}",
        settings="pow2scale_cast_from_fp8",
    )
