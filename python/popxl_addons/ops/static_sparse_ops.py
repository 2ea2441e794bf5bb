"""Products with constant sparse matrices, whose zeros are stored too."""

from __future__ import annotations

from typing import Any

import numpy as np

import popxl

__all__ = ["dense_const_sparse_matmul", "random_sparse"]


def dense_const_sparse_matmul(lhs: popxl.Tensor, rhs: Any, output_cols: int) -> popxl.Tensor:
    """The product with a constant sparse matrix, whose zeros are stored and multiplied too.

    Args:
        lhs: (m, k) or (1, m, k), float16, bfloat16 or float32.
        rhs: A SciPy sparse matrix (k, output_cols).
        output_cols: The columns of `rhs`.

    Returns:
        (m, output_cols) or (1, m, output_cols) in the dtype of `lhs`.

    Raises:
        RuntimeError: `lhs` has another dtype.
        ValueError: `rhs` has another shape.
    """
    if lhs.dtype not in (popxl.float16, popxl.bfloat16, popxl.float32):
        raise RuntimeError(
            f"dense_const_sparse_matmul: wanted float16, bfloat16 or float32; given {lhs!r}"
        )
    if rhs.shape != (lhs.shape[-1], output_cols):
        raise ValueError(
            f"dense_const_sparse_matmul: wanted a sparse matrix of shape "
            f"{(lhs.shape[-1], output_cols)}; given {rhs.shape}"
        )
    return lhs @ popxl.constant(np.asarray(rhs.todense()), lhs.dtype, "sparse_weight")


def random_sparse(dense: np.ndarray, density: float = 0.5) -> np.ndarray:
    """Zeroes elements of an array at random, but leaves at least one.

    The numbers come from NumPy's global generator.

    Args:
        dense: An array of any shape, changed in place.
        density: The probability with which an element stays.

    Returns:
        `dense` itself.
    """
    keep = np.random.random(dense.shape) < density
    if dense.size and not keep.any():
        keep.flat[np.random.randint(dense.size)] = True
    dense[~keep] = 0
    return dense
