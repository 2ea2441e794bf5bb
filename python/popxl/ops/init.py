"""New tensors."""

from __future__ import annotations

from collections.abc import Iterable

from popxl.dtypes import DType
from popxl.ops.utils import make
from popxl.tensor import Tensor

_INIT_TYPES = ("zero", "undef")


def init(
    shape: Iterable[int],
    dtype: DType,
    name: str | None = None,
    init_type: str = "zero",
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """A tensor of zeros, or of unspecified contents, made anew each time the graph runs."""
    if init_type not in _INIT_TYPES:
        raise ValueError(
            f"Unknown init_type: {init_type}. Must choose from: {', '.join(_INIT_TYPES)}"
        )
    attributes: dict[str, object] = {
        "shape": [int(size) for size in shape],
        "dtype": dtype._pb,
        "init_type": init_type,
    }
    if meta_shape:
        attributes["meta_shape"] = [int(size) for size in meta_shape]
    return make("Init", [], attributes, name=name or "t", settings="init")
