"""Products with constant sparse matrices, whose zeros are stored too."""

from __future__ import annotations

from typing import Any

import numpy as np

import popxl

__all__ = ["dense_const_sparse_matmul", "random_sparse"]


def dense_const_sparse_matmul(lhs: popxl.Tensor, rhs: Any, output_cols: int) -> popxl.Tensor:
    """`lhs` (m, k) or (1, m, k), float16 or float32 (else RuntimeError), times the SciPy matrix
    `rhs` (k, output_cols)."""
    if lhs.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"dense_const_sparse_matmul: wanted float16 or float32; given {lhs!r}")
    if rhs.shape != (lhs.shape[-1], output_cols):
        raise ValueError(
            f"dense_const_sparse_matmul: wanted a sparse matrix of shape "
            f"{(lhs.shape[-1], output_cols)}; given {rhs.shape}"
        )
    return lhs @ popxl.constant(np.asarray(rhs.todense()), lhs.dtype, "sparse_weight")


def random_sparse(dense: np.ndarray, density: float = 0.5) -> np.ndarray:
    """Zeroes each element with probability 1 - density in place, but leaves at least one."""
    keep = np.random.random(dense.shape) < density
    if dense.size and not keep.any():
        keep.flat[np.random.randint(dense.size)] = True
    dense[~keep] = 0
    return dense
