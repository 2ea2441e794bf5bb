"""New tensors."""

from __future__ import annotations

from collections.abc import Iterable

from popxl.dtypes import DType
from popxl.ops.utils import make
from popxl.tensor_base import Tensor

_INIT_TYPES = ("zero", "undef")


def init(
    shape: Iterable[int],
    dtype: DType,
    name: str | None = None,
    init_type: str = "zero",
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Make a tensor of zeros, or of unspecified contents, anew each time the graph runs.

    Args:
        shape: The sizes, 0 or more.
        dtype: The element type.
        name: The name of the tensor. None: `t`.
        init_type: `zero`, or `undef` for unspecified contents.
        meta_shape: For a shard, the shape of the whole tensor; None or empty: it is no shard.

    Returns:
        A new tensor of the current graph.

    Raises:
        ValueError: `init_type` is another word, or `dtype` is complex.
        popart_exception: A size is negative.
    """
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
