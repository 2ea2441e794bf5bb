"""Arrays of bfloat16 for other libraries, and arrays of other libraries for sessions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from pando import _core

np_dtype_bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)


class BFloat16Array(np.ndarray):
    """A NumPy array of bfloat16 with the DLPack protocol, which NumPy lacks for this type.

    `torch.from_dlpack(array)` shares its memory. Arrays of other types that are computed from it
    have the protocol of NumPy.
    """

    def __dlpack__(self, **settings: Any) -> Any:
        """Offer the memory to a consumer.

        Args:
            **settings: What the protocol names: stream, max_version, dl_device, copy.

        Returns:
            A capsule with the array.

        Raises:
            BufferError: The array is read-only, or a setting asks for what it cannot offer.
        """
        if self.dtype != np_dtype_bfloat16:
            return super().__dlpack__(**settings)
        if not self.flags.writeable:
            raise BufferError("a read-only bfloat16 array cannot be shared; copy it first")
        if settings.pop("copy", None):
            return self.copy().__dlpack__(**settings)
        return _core.share_bfloat16(self.view(np.uint16, np.ndarray)).__dlpack__(**settings)


def empty_array_maker(kind: np.dtype[Any]) -> Callable[..., np.ndarray[Any, Any]]:
    """Find what makes uninitialised arrays of a dtype, with the DLPack protocol.

    Args:
        kind: The dtype.

    Returns:
        A function of a shape and the dtype. NumPy's, which is the fastest, where it has DLPack.
    """
    return BFloat16Array if kind == np_dtype_bfloat16 else np.empty


def with_dlpack(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Give an array the DLPack protocol.

    Args:
        array: An array of any dtype.

    Returns:
        The array itself, or a view of it as a BFloat16Array.
    """
    return array.view(BFloat16Array) if array.dtype == np_dtype_bfloat16 else array


def as_array(x: Any) -> np.ndarray[Any, Any]:
    """Take host data of any library.

    Args:
        x: What NumPy takes, a torch tensor, or an object with the DLPack protocol.

    Returns:
        An array, which shares the memory of `x` where there is some to share.

    Raises:
        TypeError: `x` has elements of a type that NumPy and ml_dtypes lack.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        x = x.detach()
        if x.dtype == torch.bfloat16:
            return np.asarray(x.view(torch.int16).numpy().view(np_dtype_bfloat16))
        return np.asarray(x.numpy())
    is_foreign = hasattr(x, "__dlpack__") and not isinstance(x, (np.ndarray, np.generic))
    if not is_foreign or hasattr(x, "__array__"):
        return np.asarray(x)
    bits = _core.bfloat16_bits(x)
    if bits is not None:
        return np.asarray(bits.view(np_dtype_bfloat16))
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError) as error:
        raise TypeError(
            f"wanted host data that NumPy can hold; given {type(x)}: {error}"
        ) from error
