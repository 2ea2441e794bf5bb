"""Matrix products."""

from __future__ import annotations

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.dtypes import DType
from popxl.ops.utils import check_inputs, check_log2_scale, is_float8, make
from popxl.tensor_base import Tensor

_PARTIALS_OPTIONS = {"": dtypes.float32, "float": dtypes.float32, "half": dtypes.float16}


def _partials_type(partials_type: DType | None) -> DType:
    if partials_type is None:
        option = get_current_graph().ir._options.partialsTypeMatMuls
        known = _PARTIALS_OPTIONS.get(option.lower())
        if known is None:
            raise ValueError(
                f"session option partialsTypeMatMuls: wanted 'float' or 'half'; given {option!r}"
            )
        return known
    if partials_type not in (dtypes.float16, dtypes.float32):
        raise ValueError(f"dtype {partials_type} is not valid, must be float16 or float32")
    return partials_type


def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: float | None = None,
    output_type: DType | None = None,
    partials_type: DType | None = None,
) -> Tensor:
    """Compute the matrix product lhs @ rhs by the rules of NumPy.

    Matrices are in the last two axes, and the axes before them broadcast. A vector on the left
    counts as a row, one on the right as a column, and the axis it gains is dropped from the result.

    Args:
        lhs: The left operand, of rank 1 or more; float16, bfloat16, float32 or float64.
        rhs: The right operand, of rank 1 or more; float16, bfloat16, float32 or float64. Operands
            of several dtypes are multiplied in the wider one, float32 or float64.
        available_memory_proportion: Kept with the op for programs that read it; no other effect.
        output_type: The dtype of the result; float16, bfloat16, float32 or float64. None: the dtype
            of `lhs`.
        partials_type: The dtype of partial sums, float16 or float32. None: that of the session
            option `partialsTypeMatMuls`. It is kept for readers: sums are float32, or float64 for
            float64.

    Returns:
        A new tensor of shape (batch..., rows of `lhs`, columns of `rhs`).

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the type of partial sums is not float16 or float32.
        popart_exception: An operand has rank 0 or is float8, or the shapes do not fit; a dtype does
            not, found when a session is made.
    """
    check_inputs(lhs=lhs, rhs=rhs)
    attributes: dict[str, object] = {"partials_type": _partials_type(partials_type)._pb}
    if output_type is not None:
        attributes["output_type"] = output_type._pb
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    return make("MatMul", [lhs, rhs], attributes, name="matmul_out", settings="matmul")


def matmul_pow2scaled(
    lhs: Tensor,
    rhs: Tensor,
    log2_scale: Tensor,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Compute float16((lhs @ rhs) * 2^log2_scale) of float8 operands. There is no gradient.

    Args:
        lhs: The left operand, of rank 1 or more; float8_143 or float8_152.
        rhs: The right operand, of rank 1 or more; float8_143 or float8_152, also another than
            `lhs`.
        log2_scale: The exponent of the scale: an int32 tensor of rank 0. A value outside [-32, 32)
            stops the run, unless the session option `throwIfLog2ScaleTensorNotInRange` is off.
        available_memory_proportion: Kept with the op for programs that read it; no other effect.

    Returns:
        A new float16 tensor of the shape that `matmul` gives.

    Raises:
        TypeError: An argument that must be a tensor is not one; an operand is not float8, or the
            scale is not int32.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; the scale does not have rank 0.
        popart_exception: An operand has rank 0, or the shapes do not fit.
        poplar_application_runtime_error: The scale is out of range in a run.
    """
    check_inputs(lhs=lhs, rhs=rhs, log2_scale=log2_scale)
    if not (is_float8(lhs.dtype) and is_float8(rhs.dtype)):
        raise TypeError(
            "Scaled matmul operands must be of dtype popxl.float8_143 or popxl.float8_152. "
            f"Provided {lhs.dtype} and {rhs.dtype}"
        )
    check_log2_scale(log2_scale)
    attributes: dict[str, object] = {}
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    return make(
        "MatMul",
        [lhs, rhs, log2_scale],
        attributes,
        name="matmul_pow2scaled_out",
        settings="matmul_pow2scaled",
    )
