"""Triangular systems and the Cholesky factor."""

from __future__ import annotations

from popxl.ops.shape import transpose as transpose_op
from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor


def triangular_solve(
    t: Tensor,
    b: Tensor,
    upper: bool = False,
    transpose: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """Solve t x = b, where `t` is triangular, as `scipy.linalg.solve_triangular` does.

    Args:
        t: Square matrices (..., n, n), of which one triangle is read; float16 or bfloat16
            (computed in float32), float32 or float64. A zero on the diagonal gives infinities or
            NaN.
        b: The right sides (..., n, columns), with the dtype and the axes before of `t`.
        upper: Whether the upper triangle is read, else the lower one.
        transpose: Whether the system is t^T x = b.
        unit_diagonal: Whether the diagonal counts as 1 and is not read.

    Returns:
        A new tensor x with the shape and dtype of `b`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph.
        popart_exception: The shapes do not fit; dtypes do not fit, found when a session is made.
    """
    check_inputs(t=t, b=b)
    attributes: dict[str, object] = {
        "upper": bool(upper),
        "transpose": bool(transpose),
        "unit_diagonal": bool(unit_diagonal),
    }
    return make(
        "TriangularSolve",
        [t, b],
        attributes,
        name="triangular_solve_out",
        settings="triangular_solve",
    )


def cholesky(t: Tensor, upper: bool = False) -> Tensor:
    """Compute the Cholesky factor of symmetric positive definite matrices.

    Args:
        t: The matrices (..., n, n); float16 or bfloat16 (computed in float32), float32 or float64.
            Of others than symmetric ones (t + t^T) / 2 is taken.
        upper: Whether the result is U with U^T U = t.

    Returns:
        A new tensor with the shape and dtype of `t`: L with L L^T = t, 0 above the diagonal. A
        matrix that is not positive definite gives NaN throughout.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: The matrices are not square; the dtype is another one, found when a
            session is made.
    """
    check_inputs(t=t)
    factor = make("Cholesky", [t], name="cholesky_out", settings="cholesky")
    if not upper:
        return factor
    axes = list(range(t.rank))
    return transpose_op(factor, [*axes[:-2], axes[-1], axes[-2]])
