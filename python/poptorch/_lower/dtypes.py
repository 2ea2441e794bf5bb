"""Element types of torch as those of popxl. The program has no 64-bit numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import popxl
from poptorch._impl import createPoptorchError

_POPXL = {
    torch.float64: popxl.float32,
    torch.float32: popxl.float32,
    torch.float16: popxl.float16,
    torch.bfloat16: popxl.bfloat16,
    torch.int64: popxl.int32,
    torch.int32: popxl.int32,
    torch.int16: popxl.int16,
    torch.int8: popxl.int8,
    torch.uint8: popxl.uint8,
    torch.bool: popxl.bool,
}
KNOWN_DTYPES = frozenset(_POPXL)
_HOST = {torch.float64: torch.float32, torch.int64: torch.int32}


def popxl_dtype(dtype: torch.dtype) -> popxl.dtype:
    """Find the element type of the program for one of torch.

    Args:
        dtype: The element type of torch; 64-bit types become 32-bit types.

    Returns:
        The element type of popxl.

    Raises:
        Error: There is none.
    """
    if dtype not in _POPXL:
        hint = ". Use torch.view_as_real" if dtype.is_complex else ""
        raise createPoptorchError(
            f"Unsupported input type {dtype}; wanted one of {', '.join(map(str, _POPXL))}{hint}"
        )
    return _POPXL[dtype]


def device_dtype(dtype: torch.dtype) -> torch.dtype:
    """Find the element type that a tensor has in the program, as one of torch.

    Args:
        dtype: The element type in the user's module.

    Returns:
        The same one, or its 32-bit form.
    """
    return _HOST.get(dtype, dtype)


def torch_dtype(dtype: popxl.dtype) -> torch.dtype:
    """Find the element type of torch for one of the program.

    Args:
        dtype: The element type of popxl.

    Returns:
        The element type of torch.
    """
    return host_tensor(np.empty(0, dtype.as_numpy())).dtype


def host_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A tensor of the CPU as an array of the program's element type.

    Args:
        tensor: The tensor.

    Returns:
        An array; it shares memory with the tensor where the element types are the same.
    """
    return array_of(tensor.detach().to(device_dtype(tensor.dtype)).contiguous())


def zeros_like(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Zeros of the shape of a tensor, which take no memory until they are written.

    Args:
        tensor: The tensor.

    Returns:
        An array of the program's element type.
    """
    kind = host_array(torch.empty(0, dtype=tensor.dtype)).dtype
    return np.zeros(tuple(tensor.shape), kind)


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A contiguous tensor of the CPU as an array of the same memory.

    Args:
        tensor: The tensor, of an element type that a program has.

    Returns:
        The array; numbers of bfloat16 have the type that popxl has for them.
    """
    if tensor.dtype is torch.bfloat16:
        words: np.ndarray[Any, Any] = tensor.view(torch.int16).numpy()
        return words.view(popxl.bfloat16.as_numpy())
    array: np.ndarray[Any, Any] = tensor.numpy()
    return array


def host_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """An array of the program as a tensor that shares its memory.

    Args:
        array: The array.

    Returns:
        The tensor.
    """
    if array.dtype == popxl.bfloat16.as_numpy():
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
