"""Four-bit numbers in groups that share a scale and a bias, four of them in a uint16."""

from __future__ import annotations

import numpy as np

import popxl
from popxl import ops

__all__ = [
    "group_quantize_compress_numpy",
    "group_quantize_decompress",
    "group_quantize_decompress_numpy",
]

_PER_WORD = 4
_LEVELS = 16


def group_quantize_compress_numpy(
    t: np.ndarray, group_size: int, dim: int = -1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packs an array into four-bit numbers q in groups, so that q * scale + bias is close to it.

    Args:
        t: Numbers of any shape.
        group_size: How many numbers share scale and bias: a multiple of 4 that divides the axis.
        dim: The axis that is split into groups; it is the last one of the results.

    Returns:
        The numbers, four in a uint16 with the first in the highest bits, (..., groups, group_size /
        4); the scale and the bias, float16 (..., groups, 1).

    Raises:
        ValueError: The data are not all finite, or `group_size` does not divide the axis.
    """
    values = np.moveaxis(np.asarray(t), dim, -1).astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError("group_quantize_compress_numpy: the data are not all finite")
    if group_size <= 0 or group_size % _PER_WORD or values.shape[-1] % group_size:
        raise ValueError(
            f"group_quantize_compress_numpy: wanted a group size that is a multiple of {_PER_WORD} "
            f"and divides {values.shape[-1]}; given {group_size}"
        )
    groups = values.reshape(*values.shape[:-1], -1, group_size)
    bias = groups.min(axis=-1, keepdims=True)
    scale = (groups.max(axis=-1, keepdims=True) - bias) / (_LEVELS - 1)
    # A constant group has the scale 0 and the numbers 0.
    steps = np.divide(groups - bias, scale, out=np.zeros_like(groups), where=scale != 0)
    numbers = np.rint(steps).astype(np.uint16)
    words = numbers.reshape(*groups.shape[:-1], group_size // _PER_WORD, _PER_WORD)
    shifts = np.array([12, 8, 4, 0], np.uint16)
    packed = np.bitwise_or.reduce(words << shifts, axis=-1)
    return packed.astype(np.uint16), scale.astype(np.float16), bias.astype(np.float16)


def group_quantize_decompress_numpy(
    t: np.ndarray, group_scale: np.ndarray, group_bias: np.ndarray, dim: int = -1
) -> np.ndarray:
    """Unpacks what `group_quantize_compress_numpy` packed.

    Args:
        t: uint16 (..., groups, words).
        group_scale: (..., groups) or (..., groups, 1).
        group_bias: The same.
        dim: Where the axis of the groups belongs.

    Returns:
        q * scale + bias in the dtype of the scale, without an axis for groups.
    """
    shifts = np.array([12, 8, 4, 0], np.uint16)
    numbers = (np.asarray(t)[..., None] >> shifts) & (_LEVELS - 1)
    numbers = numbers.reshape(*t.shape[:-1], -1)
    scale = np.asarray(group_scale).reshape(*t.shape[:-1], 1)
    bias = np.asarray(group_bias).reshape(*t.shape[:-1], 1)
    values = (numbers.astype(scale.dtype) * scale + bias).reshape(*t.shape[:-2], -1)
    return np.moveaxis(values, -1, dim)


def _per_group(name: str, values: popxl.Tensor, t: popxl.Tensor) -> popxl.Tensor:
    """`values` (rows, groups[, 1]) as (rows, groups, 1, 1)."""
    leading = t.shape[:2]
    if values.shape not in (leading, (*leading, 1)):
        raise ValueError(
            f"group_quantize_decompress: wanted {name} of shape {leading} or {(*leading, 1)}; "
            f"given {values}"
        )
    return ops.reshape(ops.detach(values), (*leading, 1, 1))


def group_quantize_decompress(
    t: popxl.Tensor, group_scale: popxl.Tensor, group_bias: popxl.Tensor, dim: int = -1
) -> popxl.Tensor:
    """Unpacks what `group_quantize_compress_numpy` packed, on the device; it has no gradient.

    Args:
        t: uint16 (rows, groups, words).
        group_scale: (rows, groups) or (rows, groups, 1), float.
        group_bias: The same.
        dim: Where the axis of the groups belongs: -1 or 1 leaves it last, -2 or 0 makes it first.

    Returns:
        q * scale + bias in the dtype of the scale, (rows, groups * words * 4) or transposed.

    Raises:
        NotImplementedError: `t` does not have three axes.
        ValueError: Scale or bias have another shape, or `dim` is none of these.
    """
    if t.rank != 3:
        raise NotImplementedError(
            f"group_quantize_decompress: wanted a tensor of rank 3; given {t}"
        )
    scale = _per_group("group_scale", group_scale, t)
    bias = _per_group("group_bias", group_bias, t)
    rest = ops.reshape(ops.cast(t, popxl.float32), (*t.shape, 1))
    numbers = []
    # float32 holds every uint16 exactly.
    for weight in (_LEVELS**3, _LEVELS**2, _LEVELS):
        numbers.append(ops.floor(rest * (1.0 / weight)))
        rest = rest - numbers[-1] * float(weight)
    numbers.append(rest)
    joined = ops.cast(ops.concat(numbers, axis=3), scale.dtype)
    values = ops.reshape(joined * scale + bias, (t.shape[0], -1))
    if dim in (-1, 1):
        return values
    if dim not in (0, -2):
        raise ValueError(f"group_quantize_decompress: wanted dim -2, -1, 0 or 1; given {dim}")
    return ops.transpose(values, (1, 0))
