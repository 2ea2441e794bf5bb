"""Activation functions."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, handle_negative_axis, make
from popxl.tensor_base import Tensor


def _activation(kind: str, t: Tensor, name: str, in_place: bool = False) -> Tensor:
    check_inputs(t=t)
    if in_place:
        return make(f"{kind}Inplace", [t], name=f"{name}_inplace_out", settings=f"{name}_")
    return make(kind, [t], name=f"{name}_out", settings=name)


def relu(t: Tensor) -> Tensor:
    """Compute max(t, 0). NaN stays NaN.

    Args:
        t: The operand; any dtype but float8.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _activation("Relu", t, "relu")


def relu_(t: Tensor) -> Tensor:
    """Compute `relu` in place: `t` becomes max(t, 0). There is no gradient.

    Args:
        t: The tensor to overwrite; any dtype but float8.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _activation("Relu", t, "relu", True)


def gelu(t: Tensor) -> Tensor:
    """Compute GELU in its tanh form: 0.5 t (1 + tanh(sqrt(2/pi) (t + 0.044715 t^3))).

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _activation("Gelu", t, "gelu")


def gelu_(t: Tensor) -> Tensor:
    """Compute `gelu` in place: `t` becomes its value. There is no gradient.

    Args:
        t: The tensor to overwrite; float16, bfloat16, float32 or float64.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _activation("Gelu", t, "gelu", True)


def geluerf(t: Tensor) -> Tensor:
    """Compute GELU in its exact form: 0.5 t (1 + erf(t / sqrt(2))).

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _activation("GeluErf", t, "geluerf")


def geluerf_(t: Tensor) -> Tensor:
    """Compute `geluerf` in place: `t` becomes its value. There is no gradient.

    Args:
        t: The tensor to overwrite; float16, bfloat16, float32 or float64.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _activation("GeluErf", t, "geluerf", True)


def swish(t: Tensor) -> Tensor:
    """Compute t * sigmoid(t).

    Args:
        t: The operand; float16, bfloat16, float32 or float64.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _activation("Swish", t, "swish")


def swish_(t: Tensor) -> Tensor:
    """Compute `swish` in place: `t` becomes t * sigmoid(t). There is no gradient.

    Args:
        t: The tensor to overwrite; float16, bfloat16, float32 or float64.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return _activation("Swish", t, "swish", True)


def softmax(t: Tensor, axis: int) -> Tensor:
    """Compute exponentials that sum to 1 over all axes from `axis` on.

    A row x, the elements of those axes together, becomes exp(x - max(x)) / sum(exp(x - max(x))).
    Only for the last axis is that the softmax along one axis. The maximum is not subtracted with
    the session option `enableNonStableSoftmax`.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.
        axis: The first axis of a row; a negative one counts from the end.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
        popart_exception: The axis is out of range.
    """
    check_inputs(t=t)
    attributes: dict[str, object] = {"axis": handle_negative_axis(t, axis)}
    return make("Softmax", [t], attributes, name="softmax_out", settings="softmax")
