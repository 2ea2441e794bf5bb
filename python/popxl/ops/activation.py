"""Activation functions."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, handle_negative_axis, make
from popxl.tensor import Tensor


def _activation(kind: str, t: Tensor, name: str, in_place: bool = False) -> Tensor:
    check_inputs(t=t)
    if in_place:
        return make(f"{kind}Inplace", [t], name=f"{name}_inplace_out", settings=f"{name}_")
    return make(kind, [t], name=f"{name}_out", settings=name)


def relu(t: Tensor) -> Tensor:
    """max(t, 0)."""
    return _activation("Relu", t, "relu")


def relu_(t: Tensor) -> Tensor:
    """`relu`, written to `t`."""
    return _activation("Relu", t, "relu", True)


def gelu(t: Tensor) -> Tensor:
    """GELU in its tanh approximation."""
    return _activation("Gelu", t, "gelu")


def gelu_(t: Tensor) -> Tensor:
    """`gelu`, written to `t`."""
    return _activation("Gelu", t, "gelu", True)


def geluerf(t: Tensor) -> Tensor:
    """GELU with the error function."""
    return _activation("GeluErf", t, "geluerf")


def geluerf_(t: Tensor) -> Tensor:
    """`geluerf`, written to `t`."""
    return _activation("GeluErf", t, "geluerf", True)


def swish(t: Tensor) -> Tensor:
    """t * sigmoid(t)."""
    return _activation("Swish", t, "swish")


def swish_(t: Tensor) -> Tensor:
    """`swish`, written to `t`."""
    return _activation("Swish", t, "swish", True)


def softmax(t: Tensor, axis: int) -> Tensor:
    """Exponentials that sum to 1 over all axes from `axis` on."""
    check_inputs(t=t)
    attributes: dict[str, object] = {"axis": handle_negative_axis(t, axis)}
    return make("Softmax", [t], attributes, name="softmax_out", settings="softmax")
