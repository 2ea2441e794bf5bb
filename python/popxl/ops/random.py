"""Random numbers, a function of the seed, the op and its shape and parameters."""

from __future__ import annotations

from collections.abc import Iterable

from popxl import dtypes
from popxl.dtypes import DType
from popxl.ops.random_seed import check_seed
from popxl.ops.utils import check_inputs, make
from popxl.tensor import Tensor


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
    """Uniformly distributed in [low, high)."""
    parameters = {"low": low, "high": high}
    return _random("RandomUniform", seed_tensor, shape, dtype, parameters, "random_uniform")


def random_normal(
    seed_tensor: Tensor,
    shape: Iterable[int],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DType | None = dtypes.float32,
) -> Tensor:
    """Normally distributed."""
    parameters = {"mean": mean, "std": std}
    return _random("RandomNormal", seed_tensor, shape, dtype, parameters, "random_normal")


def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """Each element 0 with probability p, else t / (1 - p). Always active."""
    check_inputs(t=t, seed_tensor=seed_tensor)
    check_seed(seed_tensor)
    attributes: dict[str, object] = {"p": float(p)}
    return make("Dropout", [t, seed_tensor], attributes, name="dropout_out", settings="dropout")


def shaped_dropout(t: Tensor, seed_tensor: Tensor, shape: Iterable[int], ratio: float) -> Tensor:
    """Dropout with one mask of `shape`, broadcast against `t`."""
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
