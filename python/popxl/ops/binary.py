"""Elementwise arithmetic on several inputs. Operands of one op have one dtype and broadcast."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, make, number_or_tensor
from popxl.tensor import Tensor, TensorLike, constant


def _binary(kind: str, lhs: Tensor, rhs: Tensor, name: str) -> Tensor:
    check_inputs(lhs=lhs, rhs=rhs)
    return make(kind, [lhs, rhs], name=f"{name}_out", settings=name)


def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs + rhs."""
    return _binary("Add", lhs, rhs, "add")


def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs + rhs, written to `lhs`."""
    check_inputs(lhs=lhs, rhs=rhs)
    return make("AddLhsInplace", [lhs, rhs], name="add_lhs_inplace_out", settings="add_")


def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs - rhs."""
    return _binary("Sub", lhs, rhs, "sub")


def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs * rhs. A float32 factor of one element keeps the other operand's float16."""
    return _binary("Mul", lhs, rhs, "mul")


def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs / rhs; integers truncate toward zero."""
    return _binary("Div", lhs, rhs, "div")


def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The remainder of lhs / rhs, with the sign of lhs."""
    return _binary("Fmod", lhs, rhs, "fmod")


def pow(t: Tensor, e: TensorLike) -> Tensor:
    """t to the power e."""
    exponent = e if isinstance(e, Tensor) else constant(e)
    check_inputs(t=t, e=exponent)
    return make("Pow", [t, exponent], name="pow_out", settings="pow")


def maximum(*ts: Tensor) -> Tensor:
    """The largest of the tensors, elementwise."""
    check_inputs(**{f"ts_{i}": t for i, t in enumerate(ts)})
    return make("Max", ts, name="maximum_out", settings="maximum")


def _scaled_add(
    kind: str, X: Tensor, Y: Tensor, a: float | Tensor, b: float | Tensor, name: str
) -> Tensor:
    check_inputs(X=X, Y=Y)
    attributes: dict[str, object] = {}
    inputs = [X, Y, number_or_tensor("a", a, attributes), number_or_tensor("b", b, attributes)]
    return make(kind, inputs, attributes, name=name, settings="scaled_add")


def scaled_add(X: Tensor, Y: Tensor, a: float | Tensor = 1.0, b: float | Tensor = 1.0) -> Tensor:
    """a*X + b*Y for X and Y of one shape, in the dtype of X."""
    return _scaled_add("ScaledAdd", X, Y, a, b, "scaled_add_out")


def scaled_add_(X: Tensor, Y: Tensor, a: float | Tensor = 1.0, b: float | Tensor = 1.0) -> Tensor:
    """`scaled_add`, written to `X`."""
    check_inputs(X=X)
    return _scaled_add("ScaledAddLhsInplace", X, Y, a, b, f"scaled_add__{X.name}")
