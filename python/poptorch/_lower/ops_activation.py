"""Lowerings of activations. Gradients are those of torch also where branches meet."""

from __future__ import annotations

import popxl
from poptorch._lower.lowering import Call, broadcast_to, cast
from poptorch._lower.ops_pointwise import number
from poptorch._lower.registry import lowers
from popxl import ops
from popxl.ops.utils import make

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
# Where ln(1 + e^x) is x in float32.
_LINEAR_FROM = 20.0


def is_positive(t: popxl.Tensor) -> popxl.Tensor:
    """Where elements are above 0.

    Args:
        t: The tensor.

    Returns:
        A bool tensor.
    """
    return ops.greater(t, number(0, t.dtype))


def scaled(t: popxl.Tensor, factor: float) -> popxl.Tensor:
    """A tensor times a number.

    Args:
        t: The tensor.
        factor: The number.

    Returns:
        A tensor; `t` itself for a factor of 1.
    """
    return t if factor == 1 else ops.mul(t, number(factor, t.dtype))


def shifted(t: popxl.Tensor, offset: float) -> popxl.Tensor:
    """A tensor plus a number.

    Args:
        t: The tensor.
        offset: The number.

    Returns:
        A tensor; `t` itself for an offset of 0.
    """
    return t if offset == 0 else ops.add(t, number(offset, t.dtype))


def softplus_of(t: popxl.Tensor, threshold: float = _LINEAR_FROM) -> popxl.Tensor:
    """ln(1 + e^t), and `t` itself above a threshold.

    Args:
        t: The tensor.
        threshold: Where the function becomes linear.

    Returns:
        A tensor of the same shape.
    """
    limit = number(threshold, t.dtype)
    above = ops.greater(t, limit)
    # The branch that is not taken must not overflow: its gradient would be NaN.
    return ops.where(above, t, ops.log1p(ops.exp(ops.where(above, limit, t))))


def log_sigmoid_of(t: popxl.Tensor) -> popxl.Tensor:
    """The logarithm of the sigmoid.

    Args:
        t: The tensor.

    Returns:
        A tensor of the same shape.
    """
    return ops.negate(softplus_of(ops.negate(t)))


def sigmoid_of(t: popxl.Tensor) -> popxl.Tensor:
    """1 / (1 + e^-t).

    Args:
        t: The tensor.

    Returns:
        A tensor of the same shape.
    """
    return make("Sigmoid", [t], name="sigmoid_out", settings="sigmoid")


@lowers("aten::elu")
def elu(
    call: Call, self: popxl.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> popxl.Tensor:
    """`scale * x` above 0, `scale * alpha * (e^(input_scale * x) - 1)` elsewhere."""
    del call
    positive = is_positive(self)
    below = ops.where(positive, number(0, self.dtype), self)
    negative = scaled(ops.expm1(scaled(below, input_scale)), alpha * scale)
    return ops.where(positive, scaled(self, scale), negative)


@lowers("aten::selu")
def selu(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """The ELU that keeps mean 0 and variance 1."""
    return elu(call, self, _SELU_ALPHA, _SELU_SCALE)


@lowers("aten::celu")
def celu(call: Call, self: popxl.Tensor, alpha: float = 1.0) -> popxl.Tensor:
    """The ELU whose slope is continuous."""
    return elu(call, self, alpha, 1, 1 / alpha)


@lowers("aten::leaky_relu")
def leaky_relu(call: Call, self: popxl.Tensor, negative_slope: float = 0.01) -> popxl.Tensor:
    """`x` above 0, `negative_slope * x` elsewhere."""
    del call
    return ops.where(is_positive(self), self, scaled(self, negative_slope))


@lowers("aten::_prelu_kernel")
def prelu_kernel(call: Call, self: popxl.Tensor, weight: popxl.Tensor) -> popxl.Tensor:
    """`x` above 0, `weight * x` elsewhere, with a weight that broadcasts."""
    del call
    return ops.where(is_positive(self), self, ops.mul(self, cast(weight, self.dtype)))


@lowers("aten::prelu")
def prelu(call: Call, self: popxl.Tensor, weight: popxl.Tensor) -> popxl.Tensor:
    """`x` above 0, `weight * x` elsewhere, with one weight or one for each channel."""
    if weight.nelms == 1:
        shape: tuple[int, ...] = (1,) * self.rank
    else:
        shape = (1, weight.nelms, *[1] * (self.rank - 2)) if self.rank > 1 else (weight.nelms,)
    return prelu_kernel(call, self, ops.reshape(weight, shape))


@lowers("aten::rrelu", "aten::rrelu_with_noise")
def rrelu(
    call: Call,
    self: popxl.Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    **_noise: popxl.Tensor,
) -> popxl.Tensor:
    """A leaky ReLU whose slope is random in training, and the middle of its range otherwise."""
    if not training:
        return leaky_relu(call, self, (lower + upper) / 2)
    slope = ops.random_uniform(call.seed(), self.shape, lower, upper, popxl.float32)
    # At 0 too the slope is 1 here, as in torch.
    negative = ops.greater(number(0, self.dtype), self)
    return ops.where(negative, ops.mul(self, cast(slope, self.dtype)), self)


@lowers("aten::hardtanh")
def hardtanh(
    call: Call, self: popxl.Tensor, min_val: float = -1, max_val: float = 1
) -> popxl.Tensor:
    """Elements moved into a range; at its ends the gradient is 0."""
    t = cast(self, call.dtype)
    if t.dtype.is_floating_point:
        return ops.clip(t, float(min_val), float(max_val))
    low, high = number(min_val, t.dtype), number(max_val, t.dtype)
    t = ops.maximum(t, low)
    return ops.where(ops.greater(t, high), high, t)


@lowers("aten::relu6")
def relu6(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """Elements moved into the range from 0 to 6."""
    return hardtanh(call, self, 0, 6)


@lowers("aten::hardsigmoid")
def hardsigmoid(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """`(x + 3) / 6`, moved into the range from 0 to 1."""
    del call
    return scaled(ops.clip(shifted(self, 3), 0.0, 6.0), 1 / 6)


@lowers("aten::hardswish")
def hardswish(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """`x` times its hard sigmoid."""
    return ops.mul(self, hardsigmoid(call, self))


@lowers("aten::hardshrink")
def hardshrink(call: Call, self: popxl.Tensor, lambd: float = 0.5) -> popxl.Tensor:
    """0 within `lambd` of 0, `x` elsewhere."""
    del call
    within = ops.logical_not(
        ops.logical_or(
            ops.greater(self, number(lambd, self.dtype)),
            ops.greater(number(-lambd, self.dtype), self),
        )
    )
    return ops.where(ops.logical_and(within, ops.equal(self, self)), number(0, self.dtype), self)


@lowers("aten::softshrink")
def softshrink(call: Call, self: popxl.Tensor, lambd: float = 0.5) -> popxl.Tensor:
    """Elements moved toward 0 by `lambd`, and 0 within it."""
    del call
    # Adding 0 times the tensor keeps NaN.
    zero = scaled(self, 0)
    above = ops.greater(self, number(lambd, self.dtype))
    below = ops.greater(number(-lambd, self.dtype), self)
    low = ops.where(below, shifted(self, lambd), zero)
    return ops.where(above, shifted(self, -lambd), low)


@lowers("aten::softplus")
def softplus(
    call: Call, self: popxl.Tensor, beta: float = 1, threshold: float = 20
) -> popxl.Tensor:
    """`ln(1 + e^(beta * x)) / beta`, and `x` where `beta * x` is above the threshold."""
    t = cast(self, popxl.float32)
    return cast(scaled(softplus_of(scaled(t, beta), threshold), 1 / beta), call.dtype)


@lowers("aten::log_sigmoid")
def log_sigmoid(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """The logarithm of the sigmoid."""
    return cast(log_sigmoid_of(cast(self, popxl.float32)), call.dtype)


@lowers("aten::log_sigmoid_forward")
def log_sigmoid_forward(call: Call, self: popxl.Tensor) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The logarithm of the sigmoid, and memory for its gradient that the CPU wants."""
    buffer = popxl.constant(0, popxl.float32)
    return log_sigmoid(call, self), broadcast_to(buffer, tuple(call.outputs[1].shape))


@lowers("aten::mish")
def mish(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """`x * tanh(softplus(x))`."""
    t = cast(self, popxl.float32)
    return cast(ops.mul(t, ops.tanh(softplus_of(t))), call.dtype)


@lowers("aten::threshold")
def threshold(call: Call, self: popxl.Tensor, threshold: float, value: float) -> popxl.Tensor:
    """`x` above a threshold, a number elsewhere."""
    del call
    at_most = ops.logical_not(ops.greater(self, number(threshold, self.dtype)))
    # NaN is neither above nor below, and stays.
    known = ops.equal(self, self)
    return ops.where(ops.logical_and(at_most, known), number(value, self.dtype), self)


@lowers("aten::glu")
def glu(call: Call, self: popxl.Tensor, dim: int = -1) -> popxl.Tensor:
    """The first half of an axis times the sigmoid of the second."""
    del call
    first, second = ops.split(self, 2, dim % self.rank)
    return ops.mul(first, sigmoid_of(second))
