"""Random numbers, a function of the seed, the op and its shape and parameters."""

from __future__ import annotations

from collections.abc import Iterable

from popxl import dtypes
from popxl.dtypes import DType
from popxl.ops.random_seed import check_seed
from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor


def _random(
    kind: str,
    seed_tensor: Tensor,
    shape: Iterable[int],
    dtype: DType | None,
    parameters: dict[str, float],
    name: str,
) -> Tensor:
    check_inputs(seed_tensor=seed_tensor)
    check_seed(seed_tensor)
    attributes: dict[str, object] = {
        "shape": [int(size) for size in shape],
        "dtype": (dtype or dtypes.float32)._pb,
    }
    attributes.update({key: float(value) for key, value in parameters.items()})
    return make(kind, [seed_tensor], attributes, name=f"{name}_out", settings=name)


def random_uniform(
    seed_tensor: Tensor,
    shape: Iterable[int],
    low: float = 0.0,
    high: float = 1.0,
    dtype: DType | None = dtypes.float32,
) -> Tensor:
    """Draw numbers that are uniformly distributed in [low, high).

    Equal seeds, shapes and limits give equal numbers. There is no gradient.

    Args:
        seed_tensor: The seed: a uint32 tensor of shape (2,).
        shape: The shape of the result.
        low: The lower limit, which may be drawn.
        high: The upper limit, which is not.
        dtype: float16, bfloat16 or float32; None: float32.

    Returns:
        A new tensor of that shape and dtype.

    Raises:
        TypeError: `seed_tensor` is not a tensor.
        ValueError: `seed_tensor` is not in the current graph; it is no seed.
        popart_exception: The dtype is another one, found when a session is made.
    """
    parameters = {"low": low, "high": high}
    return _random("RandomUniform", seed_tensor, shape, dtype, parameters, "random_uniform")


def random_normal(
    seed_tensor: Tensor,
    shape: Iterable[int],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DType | None = dtypes.float32,
) -> Tensor:
    """Draw numbers that are normally distributed.

    Equal seeds, shapes and parameters give equal numbers. There is no gradient.

    Args:
        seed_tensor: The seed: a uint32 tensor of shape (2,).
        shape: The shape of the result.
        mean: The mean of the distribution.
        std: Its standard deviation.
        dtype: float16, bfloat16 or float32; None: float32.

    Returns:
        A new tensor of that shape and dtype.

    Raises:
        TypeError: `seed_tensor` is not a tensor.
        ValueError: `seed_tensor` is not in the current graph; it is no seed.
        popart_exception: The dtype is another one, found when a session is made.
    """
    parameters = {"mean": mean, "std": std}
    return _random("RandomNormal", seed_tensor, shape, dtype, parameters, "random_normal")


def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """Set each element to 0 with probability p, and divide the others by 1 - p.

    It is always active: programs for inference leave it out. Equal seeds and shapes give equal
    masks, and the gradient has the mask of the values.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.
        seed_tensor: The seed: a uint32 tensor of shape (2,).
        p: The probability of 0, in [0, 1).

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; it is no seed, or `p` is out of range.
    """
    check_inputs(t=t, seed_tensor=seed_tensor)
    check_seed(seed_tensor)
    attributes: dict[str, object] = {"p": float(p)}
    return make("Dropout", [t, seed_tensor], attributes, name="dropout_out", settings="dropout")


def shaped_dropout(t: Tensor, seed_tensor: Tensor, shape: Iterable[int], ratio: float) -> Tensor:
    """Drop elements as `dropout` does, with one mask for several of them.

    Args:
        t: The operand; float16, bfloat16, float32 or float64.
        seed_tensor: The seed: a uint32 tensor of shape (2,).
        shape: The shape of the mask, which broadcasts to that of `t`.
        ratio: The probability of 0, in [0, 1).

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; it is no seed, or `ratio` is out of range.
        popart_exception: The mask does not broadcast to `t`, here or when a session is made.
    """
    check_inputs(t=t, seed_tensor=seed_tensor)
    check_seed(seed_tensor)
    attributes: dict[str, object] = {
        "shape": [int(size) for size in shape],
        "ratio": float(ratio),
    }
    inputs = [t, seed_tensor]
    return make(
        "ShapedDropout", inputs, attributes, name="shapeddropout_out", settings="shaped_dropout"
    )
