"""The host values of variables and constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from pando import _core
from pando.host_arrays import as_array, with_dlpack
from popxl.stream_arrays import has_dense_elements
from popxl.streams import Stream
from popxl.tensor import Tensor, Variable


def host_value(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Give the host value of a variable or constant.

    Args:
        tensor: The variable or constant.

    Returns:
        The value itself, not a copy, in the shape that the host has it in; bfloat16 with the DLPack
        protocol.

    Raises:
        ValueError: The host does not have the value of a variable.
    """
    if isinstance(tensor, Variable):
        return with_dlpack(tensor._record.host_value(tensor.id))
    array: np.ndarray[Any, Any] = tensor._pb.data
    kind = tensor.dtype.as_numpy()
    return with_dlpack(array.view(kind)) if array.dtype != kind else array


def checked_host_value(tensor: Variable, data: Any) -> np.ndarray[Any, Any]:
    """Make a new host value of a variable, which is not written yet.

    Args:
        tensor: The variable.
        data: An array of the dtype and `shape_on_host` of the variable, of NumPy or with the DLPack
            protocol, or a number, which is cast.

    Returns:
        An array of the dtype of the variable, of its `shape_on_host` or of no dimensions.

    Raises:
        TypeError: It is another tensor, or data of another kind or dtype.
        ValueError: The data have another shape.
        NotImplementedError: The variable is read from all replicas of groups of several.
    """
    if not isinstance(tensor, Variable):
        raise TypeError(
            f"Tensor {getattr(tensor, 'id', tensor)} is not of type Variable: only variables "
            "can be written"
        )
    if tensor.retrieval_mode == "all_replicas" and tensor.replica_grouping.group_size > 1:
        raise NotImplementedError(
            f"{tensor!r}: writing a variable with retrieval mode all_replicas and groups of "
            "more than one replica is not supported"
        )
    kind = tensor.dtype.as_numpy()
    if isinstance(data, (bool, int, float, np.generic)) and not isinstance(data, np.void):
        if kind.names is not None:
            raise TypeError(f"{tensor!r}: a scalar cannot be written to a float8 variable")
        return np.array(data).astype(kind)
    if not isinstance(data, np.ndarray) and hasattr(data, "__dlpack__"):
        data = as_array(data)
    if not isinstance(data, np.ndarray):
        raise TypeError(
            f"{tensor!r}: wanted a NumPy array or one with the DLPack protocol; given {type(data)}"
        )
    if data.dtype != kind:
        raise TypeError(f"{tensor!r}: wanted data of dtype {kind}; given {data.dtype}")
    if data.shape != tensor.shape_on_host:
        raise ValueError(
            f"{tensor!r}: wanted data of shape {tensor.shape_on_host}; given {data.shape}"
        )
    return data


def check_output(stream: Stream, array: object) -> None:
    """Refuse what a run cannot fill with the values of a stream, whatever its shape.

    Args:
        stream: The stream.
        array: What was given for its values.

    Raises:
        TypeError: It is no NumPy array.
        popart_exception: Its elements are not C-contiguous and writable, or it has another dtype or
            byte order.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"the output for {stream} must be a NumPy array, which the run fills; given "
            f"{type(array)}"
        )
    is_dense = array.flags.c_contiguous or has_dense_elements(stream, array)
    if not is_dense or not array.flags.writeable:
        raise _core.popart_exception(
            f"the output array for {stream} must have C-contiguous elements and be writable"
        )
    wanted = stream.dtype.as_numpy()
    raw_float8 = wanted.names is not None and array.dtype == np.uint8
    if array.dtype != wanted and not raw_float8:
        raise _core.popart_exception(
            f"the output array for {stream} must have dtype {wanted}, in the byte order of this "
            f"machine; given {array.dtype!r}"
        )
