"""The arrays that a run takes for streams: their shapes and dtypes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np

from pando import _core
from popxl.ir import Ir
from popxl.session_compile import note_once
from popxl.streams import Stream
from popxl.utils import to_numpy

_Array = np.ndarray[Any, Any]


def extra_dims(ir: Ir) -> tuple[int, ...]:
    """Give the axes of arrays in front of those of their streams.

    Args:
        ir: The program.

    Returns:
        The numbers of transfers and of replicas, where these are above 1.
    """
    transfers, replicas = ir.num_host_transfers, ir.instance_replication_factor
    return (*((transfers,) if transfers > 1 else ()), *((replicas,) if replicas > 1 else ()))


def full_shape(ir: Ir, shape: Iterable[int]) -> tuple[int, ...]:
    """Give the shape of the array for a stream.

    Args:
        ir: The program.
        shape: The shape of the stream.

    Returns:
        `shape` behind the numbers of transfers and of replicas, where these are above 1.
    """
    return (*extra_dims(ir), *shape)


def check_shape(ir: Ir, stream: Stream, array: _Array, what: str) -> None:
    """Refuse an array of another shape than a run takes for a stream.

    Args:
        ir: The program.
        stream: The stream.
        array: The array.
        what: `input` or `output`, for the error.

    Raises:
        ValueError: The shape is another one.
    """
    transfers, replicas = ir.num_host_transfers, ir.instance_replication_factor
    wanted = full_shape(ir, stream.shape)
    start = f"{what} array of shape {array.shape} for {stream}, which wants shape {wanted}:"
    extra = len(extra_dims(ir))
    if transfers > 1 and (array.ndim < 1 or array.shape[0] < transfers):
        raise ValueError(f"{start} the first axis must have the {transfers} host transfers")
    if replicas > 1 and (array.ndim < extra or array.shape[extra - 1] != replicas):
        raise ValueError(f"{start} axis {extra - 1} must have the {replicas} replicas")
    one_element = math.prod(stream.shape) == math.prod(array.shape[extra:]) == 1
    if array.shape[extra:] != stream.shape and not one_element:
        raise ValueError(f"{start} the last axes must have the sizes {stream.shape}")


def has_dense_elements(stream: Stream, array: _Array) -> bool:
    """Tell whether a run can use an array without a copy, whatever lies between its elements.

    Args:
        stream: The stream.
        array: An array with the axes of the stream last.

    Returns:
        Whether these axes are in C order without gaps. The axes of transfers and replicas may have
        any strides: 0 where all are the same memory.
    """
    if array.ndim <= len(stream.shape):
        return False
    bytes_apart = array.itemsize
    for axis in range(1, len(stream.shape) + 1):
        if array.shape[-axis] > 1 and array.strides[-axis] != bytes_apart:
            return False
        bytes_apart *= array.shape[-axis]
    return True


def is_ready(
    value: Any, stream: Stream, shape: tuple[int, ...], kind: np.dtype[Any]
) -> TypeGuard[_Array]:
    """Tell whether a run can use what was given for a stream as it is.

    Args:
        value: What was given.
        stream: The stream.
        shape: The shape of the array for it, `full_shape`.
        kind: The dtype of the stream.

    Returns:
        Whether it is an array of this shape and dtype that needs no copy.
    """
    return (
        type(value) is np.ndarray
        and value.dtype == kind
        and value.shape == shape
        and (value.flags.c_contiguous or has_dense_elements(stream, value))
    )


def input_array(value: Any, kind: np.dtype[Any], downcast: bool) -> _Array:
    """Make an array of what was given for a stream to the device.

    Args:
        value: An array or something that `to_numpy` takes.
        kind: The dtype of the stream.
        downcast: Whether 64-bit data become 32-bit data.

    Returns:
        An array, perhaps of another dtype; bytes given for a float8 stream are viewed as such.
    """
    raw_float8 = kind.names is not None and getattr(value, "dtype", None) == np.uint8
    array = to_numpy(value, None, downcast, copy=False)
    return array.view(kind) if raw_float8 else array


def in_stream_dtype(stream: Stream, array: _Array, kind: np.dtype[Any]) -> _Array:
    """Convert an array to the dtype of its stream, where that is allowed.

    Args:
        stream: The stream.
        array: The array.
        kind: The dtype of the stream.

    Returns:
        `array`, or a copy in int32 of one in int64.

    Raises:
        popart_runtime_error: The array has another dtype.
    """
    if array.dtype == np.int64 and kind == np.int32:
        note_once("int64", "int64 input data is converted to int32")
        array = array.astype(np.int32)
    if array.dtype != kind:
        raise _core.popart_runtime_error(
            f"Type discrepancy for tensor {stream.tensor_id}: wanted {kind}; given "
            f"{array.dtype}. Give an array of the stream's dtype."
        )
    return array
