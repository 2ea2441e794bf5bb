"""Matrix products."""

from __future__ import annotations

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.dtypes import DType
from popxl.ops.utils import check_inputs, log2_scale_attributes, is_float8, make
from popxl.tensor import Tensor


def _partials_type(partials_type: DType | None) -> DType:
    if partials_type is None:
        option = get_current_graph().ir._options.partialsTypeMatMuls
        known = {"": dtypes.float32, "float": dtypes.float32, "half": dtypes.float16}
        if option.lower() not in known:
            raise ValueError(
                f"session option partialsTypeMatMuls: wanted 'float' or 'half'; given {option!r}"
            )
        return known[option.lower()]
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
    """The matrix product of NumPy. `available_memory_proportion` is kept for readers."""
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
    """float16((lhs @ rhs) * 2^log2_scale) of float8 operands."""
    check_inputs(lhs=lhs, rhs=rhs, log2_scale=log2_scale)
    if not (is_float8(lhs.dtype) and is_float8(rhs.dtype)):
        raise TypeError(
            "Scaled matmul operands must be of dtype popxl.float8_143 or popxl.float8_152. "
            f"Provided {lhs.dtype} and {rhs.dtype}"
        )
    attributes = log2_scale_attributes(log2_scale)
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    return make(
        "MatMul",
        [lhs, rhs, log2_scale],
        attributes,
        name="matmul_pow2scaled_out",
        settings="matmul_pow2scaled",
    )
