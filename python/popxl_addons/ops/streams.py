"""Host transfers with a stream of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl.utils import to_numpy


def host_load(
    data: Any, dtype: popxl.dtype, name: str
) -> tuple[np.ndarray, popxl.HostToDeviceStream, popxl.Tensor]:
    """Loads a tensor from a stream of its own, `<name>_stream`.

    Args:
        data: An array of the tensor's shape.
        dtype: The dtype of the tensor.
        name: The name of the tensor.

    Returns:
        `data` in that dtype, to be given to the stream when the program runs; the stream; the
        tensor.
    """
    array = to_numpy(data, dtype)
    stream = popxl.h2d_stream(array.shape, dtype, f"{name}_stream")
    return array, stream, ops.host_load(stream, name)


def host_store(t: popxl.Tensor) -> popxl.DeviceToHostStream:
    """Stores a tensor to a stream of its own, `<name of t>_stream`.

    Args:
        t: The tensor.

    Returns:
        The stream.
    """
    stream = popxl.d2h_stream(t.shape, t.dtype, f"{t.name}_stream")
    ops.host_store(stream, t)
    return stream
