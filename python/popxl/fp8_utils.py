"""Host conversion between float8 and other floating-point types.

float8_143 (4 exponent bits, bias 8) and float8_152 (5 exponent bits, bias 16) have no infinity; the
code 0x80 is the only NaN, and denormals count. Every conversion goes through the 128 magnitudes a
format has, so rounding is exact: to the nearest, ties to the even code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pando.host_arrays import as_array, np_dtype_bfloat16
from popxl.dtypes import DType, np_dtype_float8_143, np_dtype_float8_152

_NAN_CODE = 0x80
# The scale search counts values between these magnitudes.
MSE_EDGES = 2.0 ** np.arange(-126, 128)
# The scales that it tries, in order.
MSE_SCALES = np.arange(31, -31, -1)
FLOAT8_SOURCES = (
    np.dtype(np.float16),
    np_dtype_bfloat16,
    np.dtype(np.float32),
    np.dtype(np.float64),
)


def _magnitudes(mantissa_bits: int, bias: int) -> np.ndarray[Any, Any]:
    """Values of the codes 0x00 ... 0x7F."""
    codes = np.arange(128)
    exponent = codes >> mantissa_bits
    fraction = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    return np.where(
        exponent == 0,
        fraction * 2.0 ** (1 - bias),
        (1 + fraction) * 2.0 ** (exponent - bias),
    )


_TABLES = {
    np_dtype_float8_143: _magnitudes(3, 8),
    np_dtype_float8_152: _magnitudes(2, 16),
}


def _source(src: Any) -> np.ndarray[Any, Any]:
    array = as_array(src)
    if array.dtype not in FLOAT8_SOURCES:
        raise RuntimeError(
            f"float8 cast: wanted float16, bfloat16, float32 or float64 data; given {array.dtype}"
        )
    return array


def _float8_type(dtype: Any) -> np.dtype[Any]:
    if dtype is None:
        return np_dtype_float8_143
    found = dtype.as_numpy() if isinstance(dtype, DType) else np.dtype(dtype)
    if found not in _TABLES:
        raise RuntimeError(f"float8 cast: wanted float8_143 or float8_152; given {dtype!r}")
    return found


def _check_scale(log2_scale: int) -> None:
    if not -32 <= log2_scale < 32:
        raise ValueError(f"float8 cast: log2_scale must be in [-32, 32); given {log2_scale}")


def _encode(
    values: np.ndarray[Any, Any], target: np.dtype[Any], nan_on_overflow: bool
) -> np.ndarray[Any, Any]:
    table = _TABLES[target]
    magnitude = np.abs(values)
    upper = np.clip(np.searchsorted(table, magnitude, side="left"), 0, 127)
    lower = np.maximum(upper - 1, 0)
    to_lower = magnitude - table[lower]
    to_upper = table[upper] - magnitude
    tie_down = (to_lower == to_upper) & (lower % 2 == 0)
    codes = np.where((to_lower < to_upper) | tie_down, lower, upper).astype(np.uint8)
    # The value one step above the largest: from half way there on, rounding overflows.
    overflow = magnitude >= table[127] + (table[127] - table[126]) / 2
    negative = np.signbit(values) & (codes != 0)
    codes = np.where(negative, codes | 0x80, codes).astype(np.uint8)
    if nan_on_overflow:
        codes = np.where(overflow, _NAN_CODE, codes)
    return np.where(np.isfinite(values), codes, _NAN_CODE).astype(np.uint8)


def host_pow2scale_cast_to_fp8(
    src: Any, dtype: Any = None, log2_scale: int = 0, nan_on_overflow: bool = True
) -> np.ndarray[Any, Any]:
    """Convert an array to a float8 format: cast(src * 2**log2_scale).

    Args:
        src: Values of float16, bfloat16, float32 or float64: an array, a torch tensor or what NumPy
            takes.
        dtype: `popxl.float8_143` or `popxl.float8_152`, or their NumPy types; None: float8_143.
        log2_scale: The exponent of the scale, in [-32, 32).
        nan_on_overflow: Whether values out of range become NaN, else the largest number with their
            sign.

    Returns:
        A structured array of uint8 codes with the shape of `src`, rounded to nearest even.

    Raises:
        RuntimeError: The values or the target are of another type.
        ValueError: The scale is out of range.
    """
    array = _source(src)
    target = _float8_type(dtype)
    _check_scale(log2_scale)
    scaled = np.ldexp(array.astype(np.float64), log2_scale)
    codes = np.ascontiguousarray(_encode(scaled, target, nan_on_overflow))
    return codes.view(target).reshape(array.shape)


def _decode(src: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    codes = np.ascontiguousarray(src).view(np.uint8).reshape(src.shape)
    values = _TABLES[src.dtype][codes & 0x7F]
    signed = np.where(codes & 0x80, -values, values)
    return np.where(codes == _NAN_CODE, np.nan, signed)


def host_pow2scale_cast_from_fp8(
    src: Any, dtype: Any = None, log2_scale: int = 0
) -> np.ndarray[Any, Any]:
    """Convert an array of float8 codes to floats: float(src) * 2**log2_scale.

    Args:
        src: An array of a structured float8 type.
        dtype: float16, bfloat16, float32 or float64, of popxl or NumPy; None: float32.
        log2_scale: The exponent of the scale, in [-32, 32).

    Returns:
        A new array with the shape of `src`.

    Raises:
        RuntimeError: The codes or the target are of another type.
        ValueError: The scale is out of range.
    """
    array = np.asarray(src)
    if array.dtype not in _TABLES:
        raise RuntimeError(
            f"float8 cast: wanted an array with a structured float8 dtype; given {array.dtype}"
        )
    target = np.dtype(np.float32)
    if dtype is not None:
        target = dtype.as_numpy() if isinstance(dtype, DType) else np.dtype(dtype)
    if target not in FLOAT8_SOURCES:
        raise RuntimeError(
            f"float8 cast: wanted float16, bfloat16, float32 or float64; given {dtype!r}"
        )
    _check_scale(log2_scale)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(_decode(array), log2_scale).astype(target))


def mse_of_magnitudes(dtype: DType | np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    """Estimate the square error of one value of each magnitude under each scale.

    It is all of what is below the format's range, what exceeds the range's last power of two, and
    of values between them a share that depends on the mantissa.

    Args:
        dtype: `popxl.float8_143` or `popxl.float8_152`, or their NumPy types; None: float8_143.

    Returns:
        A float64 array: a row for each of MSE_SCALES, a column for each of MSE_EDGES.

    Raises:
        RuntimeError: The format is of another type.
    """
    target = _float8_type(dtype)
    mantissa_bits = 3 if target == np_dtype_float8_143 else 2
    lowest, highest = (int(np.floor(np.log2(_TABLES[target][code]))) for code in (1, 127))
    exponents = np.arange(-126, 128) + MSE_SCALES[:, np.newaxis]
    last_in_range = 2.0 ** (highest - MSE_SCALES[:, np.newaxis])
    share = 2.0 ** (-2 * (10 - mantissa_bits))
    inside = np.where(exponents < lowest, 1.0, share) * MSE_EDGES**2
    result: np.ndarray[Any, Any] = np.where(
        exponents <= highest, inside, (last_in_range - MSE_EDGES) ** 2
    )
    return result


def host_fp8_mse_scale(src: Any, dtype: Any = None) -> tuple[float, int]:
    """Search for the scale with which a float8 format holds values best.

    It is estimated from how many values there are between any two powers of two.

    Args:
        src: float16, bfloat16 or float32 data of any shape. NaN counts as very large.
        dtype: The float8 type, of popxl or NumPy; None means float8_143.

    Returns:
        The estimated mean square error, and the scale in [-31, 31] to give to
        `host_pow2scale_cast_to_fp8`: the middle one of those that are equally good.

    Raises:
        RuntimeError: `src` has another dtype, or `dtype` is no float8 type.
    """
    array = _source(src)
    if array.dtype == np.float64:
        raise RuntimeError(
            "host_fp8_mse_scale: wanted float16, bfloat16 or float32 data; given float64"
        )
    costs = mse_of_magnitudes(dtype)
    magnitudes = np.abs(array.astype(np.float64).ravel())
    bins = np.searchsorted(MSE_EDGES, magnitudes, side="right")
    counts = np.bincount(bins, minlength=len(MSE_EDGES) + 1)[1:]
    # One after the other, as fp8_mse_scale does: equally good scales then have equal sums.
    errors = np.cumsum(costs * counts, axis=1)[:, -1]
    equally_good = np.flatnonzero(errors == errors.min())
    middle = MSE_SCALES[equally_good[0] + len(equally_good) // 2]
    return float(errors.min() / max(magnitudes.size, 1)), int(middle)


def host_fp8_mse_scale_pb(src: Any, dtype: Any = None) -> int:
    """Search for a scale as `host_fp8_mse_scale` does.

    Args:
        src: Values of float16 or float32.
        dtype: The float8 format; None: float8_143.

    Returns:
        The exponent of the scale.

    Raises:
        RuntimeError: The values or the format are of another type.
    """
    return host_fp8_mse_scale(src, dtype)[1]
