"""`tensor[key]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from popxl import dtypes
from popxl.constants import constant
from popxl.tensor_operators import TensorOperators, all_ops

if TYPE_CHECKING:
    from popxl.tensor_base import Tensor

_WANTED = "wanted ints and slices, or an integer or bool tensor, array or list of indices or flags"


def index_tensor(tensor: Tensor, key: Any) -> Tensor:
    """Compute `tensor[key]`.

    Ints and slices give a slice, integer arrays a gather along axis 0, and bool arrays keep the
    shape and give 0 where they are False.

    Args:
        tensor: The tensor.
        key: What is in the brackets: ints, slices and tuples of them, or an array, a list or a
            tensor of integers or bools.

    Returns:
        A new tensor.

    Raises:
        TypeError: The key is of another kind.
        ValueError: An index is out of range, a slice selects nothing, or there are too many.
    """
    if _is_basic(key):
        return _slice(tensor, key if isinstance(key, tuple) else (key,))
    return _index_by_array(tensor, key)


def _is_int(key: Any) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_))


def _is_basic(key: Any) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return bool(keys) and all(_is_int(k) or isinstance(k, slice) for k in keys)


def _slice(tensor: Tensor, keys: tuple[Any, ...]) -> Tensor:
    if len(keys) > tensor.rank:
        raise ValueError(f"{tensor!r} has {tensor.rank} axes; given {len(keys)} indices: {keys}")
    starts: list[int | None] = []
    stops: list[int | None] = []
    directions: list[int] = []
    strides: list[int] = []
    dropped: list[int] = []
    for axis, (key, size) in enumerate(zip(keys, tensor.shape, strict=False)):
        if _is_int(key):
            index = int(key) + size if key < 0 else int(key)
            if not 0 <= index < size:
                raise ValueError(f"index {key} is out of range for axis {axis} of {tensor!r}")
            starts.append(index)
            stops.append(index + 1)
            directions.append(1)
            strides.append(1)
            dropped.append(axis)
            continue
        start, stop, step = key.indices(size)
        if len(range(start, stop, step)) == 0:
            raise ValueError(f"{key} selects nothing of axis {axis} of {tensor!r}")
        starts.append(start)
        # Before the first element: None, because -1 would mean the last one.
        stops.append(None if stop < 0 else stop)
        directions.append(1 if step > 0 else -1)
        strides.append(abs(step))
    # A copy also where everything is selected: writes to the result must not reach `tensor`.
    ops = all_ops()
    result: Tensor = ops.slice(tensor, starts, stops, directions, list(range(len(keys))))
    if any(stride != 1 for stride in strides):
        result = ops.subsample(result, strides + [1] * (tensor.rank - len(strides)))
    return ops.squeeze(result, dropped) if dropped else result


def _index_by_array(tensor: Tensor, key: Any) -> Tensor:
    if key is None or key is Ellipsis or isinstance(key, (str, float, bool, np.bool_)):
        raise TypeError(f"{tensor!r}: {_WANTED}; given {key!r}")
    if not isinstance(key, TensorOperators):
        key = _host_key(key)
        if key.dtype != np.bool_ and not np.issubdtype(key.dtype, np.integer):
            raise TypeError(f"{tensor!r}: {_WANTED}; given values of dtype {key.dtype}")
        key = constant(key, dtypes.bool if key.dtype == np.bool_ else dtypes.int32)
    if key.dtype == dtypes.bool:
        return all_ops().where(key, tensor, constant(0, tensor.dtype))
    if not key.dtype.is_int:
        raise TypeError(f"{tensor!r}: {_WANTED}; given {key!r}")
    return all_ops().gather(tensor, key)


def _host_key(key: Any) -> np.ndarray[Any, Any]:
    detach = getattr(key, "detach", None)
    values = detach().numpy() if detach is not None else key
    if not isinstance(values, np.ndarray):
        try:
            values = list(values)
        except TypeError as error:
            raise TypeError(f"{_WANTED}; given {key!r}") from error
        if any(value is None or value is Ellipsis for value in values):
            raise ValueError(f"{_WANTED}; given {key!r}")
    array = np.array(values)
    if array.dtype == object:
        raise ValueError(f"{_WANTED}; given {key!r}")
    return array
