"""Making constants, and host arrays as the core takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pando import _core
from popxl.context import get_current_graph
from popxl.dtypes import DType
from popxl.utils import to_numpy

if TYPE_CHECKING:
    from popxl.tensor_base import Constant, HostTensor


def storage(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Give a host array to the core: types that NumPy lacks as integers of their bits.

    Args:
        array: The array.

    Returns:
        The array itself, or a view of it.
    """
    return array.view(f"u{array.itemsize}", np.ndarray) if array.dtype.kind == "V" else array


def host_info(array: np.ndarray[Any, Any], shape: Iterable[int] | None = None) -> Any:
    """Describe a host array to the core.

    Args:
        array: The array.
        shape: The shape to describe; None: that of the array.

    Returns:
        Shape and dtype as the core takes them.
    """
    return _core.TensorInfo(
        DType.as_dtype(array.dtype)._pb, list(array.shape if shape is None else shape)
    )


def constant(
    data: HostTensor,
    dtype: DType | None = None,
    name: str | None = None,
    downcast: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Constant:
    """Make a constant of the current graph.

    Args:
        data: The value, which is copied.
        dtype: The element type to convert to; None: that of the data.
        name: The name; None: `t`.
        downcast: Whether 64-bit data become 32-bit data when `dtype` is None.
        log2_scale: For float8 types, the exponent of the scale of the conversion; None: 0.
        nan_on_overflow: For float8 types, whether values out of range become NaN; None: True.

    Returns:
        The constant.

    Raises:
        RuntimeError: A float8 setting is given for another type.
        TypeError: The data are float8 and `dtype` is None, or they cannot become float8.
    """
    graph = get_current_graph()
    given = getattr(data, "dtype", None)
    if dtype is None and isinstance(given, np.dtype) and given.names is not None:
        raise TypeError(
            "constant: float8 data needs an explicit dtype: popxl.float8_143 or popxl.float8_152"
        )
    array = to_numpy(data, dtype, downcast, True, log2_scale, nan_on_overflow)
    core_tensor = graph._pb.add_constant(
        graph._create_tensor_id(name), host_info(array), storage(array)
    )
    return cast("Constant", graph.ir._tensor(core_tensor))
