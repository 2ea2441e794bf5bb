"""Elementwise arithmetic on several inputs. Operands of one op have one dtype and broadcast."""

from __future__ import annotations

from popxl.constants import constant
from popxl.ops.utils import check_inputs, make, number_or_tensor
from popxl.tensor_base import Tensor, TensorLike


def _binary(kind: str, lhs: Tensor, rhs: Tensor, name: str) -> Tensor:
    check_inputs(lhs=lhs, rhs=rhs)
    return make(kind, [lhs, rhs], name=f"{name}_out", settings=name)


def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Compute lhs + rhs.

    Args:
        lhs: The first operand; any dtype but float8.
        rhs: The second operand, of the dtype of `lhs`. Shapes broadcast as in NumPy.

    Returns:
        A new tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The dtypes differ, or the shapes do not broadcast.
    """
    return _binary("Add", lhs, rhs, "add")


def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Compute lhs + rhs in place: `lhs` becomes the sum. There is no gradient.

    Args:
        lhs: The tensor to overwrite; any dtype but float8.
        rhs: What is added, of the dtype of `lhs` and of a shape that broadcasts to that of `lhs`.

    Returns:
        An alias of `lhs`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The dtypes differ, or the sum does not have the shape of `lhs`.
    """
    check_inputs(lhs=lhs, rhs=rhs)
    return make("AddLhsInplace", [lhs, rhs], name="add_lhs_inplace_out", settings="add_")


def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Compute lhs - rhs.

    Args:
        lhs: The first operand; any dtype but float8.
        rhs: What is subtracted, of the dtype of `lhs`. Shapes broadcast as in NumPy.

    Returns:
        A new tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The dtypes differ, or the shapes do not broadcast.
    """
    return _binary("Sub", lhs, rhs, "sub")


def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Compute lhs * rhs.

    A float32 tensor of one element may scale a float16 or bfloat16 tensor, whose dtype stays.

    Args:
        lhs: The first factor; any dtype but float8.
        rhs: The second factor. Shapes broadcast as in NumPy.

    Returns:
        A new tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The dtypes differ otherwise, or the shapes do not broadcast.
    """
    return _binary("Mul", lhs, rhs, "mul")


def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Compute lhs / rhs. Integers are truncated toward zero.

    Args:
        lhs: The dividend; any dtype but float8.
        rhs: The divisor, of the dtype of `lhs`. Shapes broadcast as in NumPy.

    Returns:
        A new tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The dtypes differ, or the shapes do not broadcast.
    """
    return _binary("Div", lhs, rhs, "div")


def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Compute the remainder of lhs / rhs, with the sign of `lhs`: -7 and 3 give -1.

    The divisor has no gradient.

    Args:
        lhs: The dividend; any dtype but float8.
        rhs: The divisor, of the dtype of `lhs`. Shapes broadcast as in NumPy.

    Returns:
        A new tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The dtypes differ, or the shapes do not broadcast.
    """
    return _binary("Fmod", lhs, rhs, "fmod")


def pow(t: Tensor, e: TensorLike) -> Tensor:
    """Compute t to the power e.

    Args:
        t: The base; any dtype but bool and float8. Integers wrap on overflow; with a negative
            exponent, 1 and -1 keep their powers, and all others give 0.
        e: The exponent, a tensor of the dtype of `t` or host data, which become a constant of the
            dtype that NumPy infers: int32 for 2, float32 for 2.0. Shapes broadcast as in NumPy.

    Returns:
        A new tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The dtypes differ, or the shapes do not broadcast.
    """
    exponent = e if isinstance(e, Tensor) else constant(e)
    check_inputs(t=t, e=exponent)
    return make("Pow", [t, exponent], name="pow_out", settings="pow")


def maximum(*ts: Tensor) -> Tensor:
    """Compute the elementwise maximum of several tensors.

    Each tensor that equals the maximum of a position gets the full gradient of it.

    Args:
        *ts: One or more tensors of one dtype, any dtype but float8. Shapes broadcast as in NumPy.

    Returns:
        A new tensor of the broadcast shape.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The dtypes differ, or the shapes do not broadcast.
    """
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
    """Compute a*X + b*Y, rounded once to the dtype of `X`. There is no gradient.

    Args:
        X: The first operand.
        Y: The second operand, of the shape of `X`; its dtype may differ.
        a: The factor of `X`: a number, or a tensor of one element.
        b: The factor of `Y`: a number, or a tensor of one element.

    Returns:
        A new tensor with the shape and dtype of `X`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes differ, or a factor has several elements.
    """
    return _scaled_add("ScaledAdd", X, Y, a, b, "scaled_add_out")


def scaled_add_(X: Tensor, Y: Tensor, a: float | Tensor = 1.0, b: float | Tensor = 1.0) -> Tensor:
    """Compute a*X + b*Y in place: `X` becomes the sum, rounded once. There is no gradient.

    Args:
        X: The tensor to overwrite.
        Y: The second operand, of the shape of `X`; its dtype may differ.
        a: The factor of `X`: a number, or a tensor of one element.
        b: The factor of `Y`: a number, or a tensor of one element.

    Returns:
        An alias of `X`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The shapes differ, or a factor has several elements.
    """
    check_inputs(X=X)
    return _scaled_add("ScaledAddLhsInplace", X, Y, a, b, f"scaled_add__{X.name}")
