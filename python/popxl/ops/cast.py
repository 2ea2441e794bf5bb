"""Changes of the element type."""

from __future__ import annotations

from popxl import dtypes
from popxl.dtypes import DType
from popxl.ops.utils import check_inputs, log2_scale_attributes, is_float8, make
from popxl.tensor import Tensor


def cast(t: Tensor, data_type: DType) -> Tensor:
    """The values in `data_type`. Float to int truncates toward zero; nonzero becomes True."""
    check_inputs(t=t)
    if is_float8(data_type):
        raise TypeError(
            f"cast: wanted a target dtype other than {data_type}: use pow2scale_cast_to_fp8 (and "
            "pow2scale_cast_from_fp8 back)"
        )
    attributes: dict[str, object] = {"dtype": data_type._pb}
    return make("Cast", [t], attributes, name=f"{t.name}_{data_type.name}", settings="cast")


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: Tensor, data_type: DType) -> Tensor:
    """t * 2^log2_scale in a float8 format; values out of range become NaN."""
    check_inputs(t=t, log2_scale=log2_scale)
    attributes = log2_scale_attributes(log2_scale)
    if not is_float8(data_type):
        raise TypeError(
            f"pow2scale_cast_to_fp8: wanted popxl.float8_143 or popxl.float8_152; given {data_type}"
        )
    return make(
        "Pow2ScaleThenCast",
        [t, log2_scale],
        {**attributes, "dtype": data_type._pb},
        name=f"{t.name}_{data_type.name}",
        settings="pow2scale_cast_to_fp8",
    )


def pow2scale_cast_from_fp8(t: Tensor, log2_scale: Tensor, data_type: DType) -> Tensor:
    """Float8 values in `data_type` (float16 or float32), times 2^log2_scale."""
    check_inputs(t=t, log2_scale=log2_scale)
    attributes = log2_scale_attributes(log2_scale)
    if data_type not in (dtypes.float16, dtypes.float32):
        raise TypeError(
            f"pow2scale_cast_from_fp8: wanted popxl.float16 or popxl.float32; given {data_type}"
        )
    return make(
        "CastThenPow2Scale",
        [t, log2_scale],
        {**attributes, "dtype": data_type._pb},
        name=f"{t.name}_{data_type.name}",
        settings="pow2scale_cast_from_fp8",
    )
