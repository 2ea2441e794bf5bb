"""Conversion of host data and text tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pando.host_arrays import as_array
from popxl.dtypes import DType, np_dtype_float8_143, np_dtype_float8_152
from popxl.fp8_utils import (
    FLOAT8_SOURCES,
    host_fp8_mse_scale,
    host_fp8_mse_scale_pb,
    host_pow2scale_cast_from_fp8,
    host_pow2scale_cast_to_fp8,
)
from popxl.host_pages import copy_in_pages, is_worth_pages

__all__ = [
    "downcast_np_dtypes",
    "host_fp8_mse_scale",
    "host_fp8_mse_scale_pb",
    "host_pow2scale_cast_from_fp8",
    "host_pow2scale_cast_to_fp8",
    "inferred_dtype",
    "np_dtype_float8_143",
    "np_dtype_float8_152",
    "table_to_string",
    "to_numpy",
]

downcast_np_dtypes: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}


def to_numpy(
    x: Any,
    dtype: DType | None = None,
    downcast: bool = True,
    copy: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> np.ndarray[Any, Any]:
    """Convert host data to a C-ordered NumPy array.

    Args:
        x: What NumPy takes, a torch tensor or an object with the DLPack protocol. A memory-mapped
            array must not need a conversion.
        dtype: The type to cast to, unchecked; None: the one that NumPy infers.
        downcast: Whether 64-bit types become 32-bit types when `dtype` is None.
        copy: Whether the memory is always fresh; if not, it is that of `x` when nothing is
            converted.
        log2_scale: For float8 targets, the exponent of the scale; None: 0.
        nan_on_overflow: For float8 targets, whether values out of range become NaN; None: True.

    Returns:
        The array.

    Raises:
        RuntimeError: A float8 setting is given for another target.
        TypeError: The target is float8 and the data are not floats.
        ValueError: A memory-mapped array would have to be converted.
    """
    if isinstance(x, np.memmap):
        _check_memmap(x, dtype)
        return np.array(x) if copy else x
    array = as_array(x)
    if dtype is not None and dtype.as_numpy().names is not None:
        return _to_float8(array, dtype, copy, log2_scale, nan_on_overflow)
    if log2_scale is not None or nan_on_overflow is not None:
        raise RuntimeError(
            "to_numpy: log2_scale and nan_on_overflow are for float8 targets; given "
            f"log2_scale={log2_scale}, nan_on_overflow={nan_on_overflow} and dtype {dtype}"
        )
    target = array.dtype
    if dtype is not None:
        target = dtype.as_numpy()
    elif downcast:
        target = downcast_np_dtypes.get(array.dtype, array.dtype)
    own_pages = copy and is_worth_pages(array)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            if own_pages:
                return copy_in_pages(array, target)
            converted = np.asarray(array.astype(target, copy=False), order="C")
        except OverflowError as error:
            raise ValueError(f"wanted values that {target} can hold; given {x!r}") from error
    return _fresh(converted) if copy and np.may_share_memory(converted, array) else converted


def inferred_dtype(value: Any) -> DType:
    """Find the element type that host data have by themselves, in 32 bits instead of 64.

    Args:
        value: The data.

    Returns:
        The type.
    """
    return DType.as_dtype(to_numpy(value, copy=False).dtype)


def _fresh(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array(array, order="C", copy=True)


def _to_float8(
    x: Any, dtype: DType, copy: bool, log2_scale: int | None, nan_on_overflow: bool | None
) -> np.ndarray[Any, Any]:
    array = np.asarray(x)
    if array.dtype == dtype.as_numpy():
        return _fresh(array) if copy else np.asarray(array, order="C")
    if array.dtype not in FLOAT8_SOURCES:
        raise TypeError(
            f"to_numpy: only float16, bfloat16, float32 and float64 data can become {dtype.name}; "
            f"given {array.dtype}"
        )
    return host_pow2scale_cast_to_fp8(
        array,
        dtype,
        0 if log2_scale is None else log2_scale,
        True if nan_on_overflow is None else nan_on_overflow,
    )


def _check_memmap(x: np.memmap[Any, Any], dtype: DType | None) -> None:
    start = "When passing a memory-mapped NumPy array,"
    if dtype is not None and dtype.as_numpy() != x.dtype:
        raise ValueError(
            f"{start} the `dtype` parameter must be None or equal to the array's dtype; given "
            f"{dtype.name} for {x.dtype}"
        )
    if not (x.flags.c_contiguous and x.flags.aligned):
        raise ValueError(f"{start} it must already be in C-ordered (contiguous and aligned) layout")
    if x.dtype in downcast_np_dtypes:
        raise ValueError(
            f"{start} the dtype {x.dtype} is not supported, as it requires downcasting"
        )


def table_to_string(
    rows: Sequence[Sequence[Any]], delimiter: str = " | ", header: bool = True
) -> str:
    """Write a table as aligned text, with a line of dashes below the first row.

    Args:
        rows: The rows of cells, which are written with `str`.
        delimiter: What is written between cells.
        header: Whether there is a line of dashes.

    Returns:
        The text.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    columns = max((len(row) for row in cells), default=0)
    widths = [
        max((len(row[i]) for row in cells if i < len(row)), default=0) for i in range(columns)
    ]
    lines: list[str] = []
    for index, row in enumerate(cells):
        line = delimiter.join(
            cell.ljust(width) for cell, width in zip(row, widths[: len(row)], strict=True)
        )
        lines.append(line + "\n")
        if index == 0 and header and len(cells) > 1:
            lines.append("-" * (len(line) + 1) + "\n")
    return "".join(lines)
