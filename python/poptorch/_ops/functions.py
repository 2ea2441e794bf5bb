"""Functions that compute: slices at runtime, nearest points, decoding, and users' own ops."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import torch

from poptorch._impl import createPoptorchError

_Batch = list[int] | torch.Tensor


def dynamic_slice(
    tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int
) -> torch.Tensor:
    """Take a slice whose beginning is known only when the program runs.

    Elements behind the end wrap around to the beginning; outside of a program they are left out.

    Args:
        tensor: The tensor.
        dim: The dimension that is sliced.
        start: The first element: an integer tensor of one element.
        size: The extent of the slice, a divisor of that of the dimension.
        step: Take every step-th element of the slice; at least 1.

    Returns:
        A tensor with ceil(size / step) elements in the dimension; the gradient goes to `tensor`.

    Raises:
        Error: The start is no integer, or the size or the step do not fit.
    """
    return torch.ops.poptorch.dynamic_slice(tensor, dim, start, size, step)


def dynamic_update(
    input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int
) -> torch.Tensor:
    """Copy a tensor with a slice replaced, whose beginning is known only when the program runs.

    Args:
        input: The tensor.
        src: What replaces the slice: the shape of `input`, with `size` in the dimension.
        dim: The dimension that is sliced.
        start: The first element that is replaced: an integer tensor of one element.
        size: The extent of the slice.

    Returns:
        The copy; the gradient goes to `input` and `src`.

    Raises:
        Error: Numbers of dimensions or dtypes differ, or the start is no integer.
    """
    return torch.ops.poptorch.dynamic_update(input, src, dim, start, size)


def ctc_beam_search_decoder(
    probs: torch.Tensor,
    lengths: torch.Tensor,
    blank: int = 0,
    beam_width: int = 100,
    top_paths: int = 1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Find the most probable sequences of labels. There is no gradient.

    Args:
        probs: The logarithms of the probabilities (steps, batch, classes).
        lengths: The number of steps of each sample (batch,), integers.
        blank: The class that stands for no label.
        beam_width: How many sequences are kept at each step.
        top_paths: How many are returned; at most `beam_width`.

    Returns:
        Best path first: logarithms of the probabilities (batch, top_paths), the int32 numbers of
        labels (batch, top_paths) and the int32 labels (batch, top_paths, steps). Outside of a
        program all are zeros.

    Raises:
        Error: Shapes or numbers do not fit.
    """
    return torch.ops.poptorch.ctc_beam_search_decoder(probs, lengths, blank, beam_width, top_paths)


def fps(
    src: torch.Tensor, ptr: list[int], ratio: float = 0.5, random_start: bool = False
) -> torch.Tensor:
    """Sample points that are far from each other, in each segment on its own.

    Args:
        src: The points (number, dimensions), floats.
        ptr: The first row of each segment, and behind them the number of rows.
        ratio: The part of each segment that is taken; above 0, at most 1.
        random_start: Whether the first point of a segment is random; otherwise it is its first row.

    Returns:
        The int32 rows that were chosen, `ceil(rows * ratio)` of each segment. The next one is
        always that with the greatest distance to those chosen, the first of several.

    Raises:
        Error: An argument has another type or shape.
    """
    if not isinstance(src, torch.Tensor):
        raise createPoptorchError(f"`src` must be a tensor; given {type(src).__name__}")
    if not isinstance(ptr, list) or any(type(row) is not int for row in ptr):
        raise createPoptorchError(f"`ptr` must be a list of integers. Given {ptr!r}")
    if len(ptr) < 2:
        raise createPoptorchError(f"`ptr` must have at least two entries; given {ptr}")
    if not isinstance(ratio, float):
        raise createPoptorchError(f"`ratio` must be a float; given {ratio!r}")
    if not isinstance(random_start, bool):
        raise createPoptorchError(f"`random_start` must be a bool; given {random_start!r}")
    return torch.ops.poptorch.fps(src, ptr, ratio, random_start)


def _check_batch(name: str, batch: object) -> None:
    if batch is not None and not isinstance(batch, (list, torch.Tensor)):
        raise createPoptorchError(
            f"`{name}` must be a list or a tensor; given {type(batch).__name__}"
        )


def nearest(
    x: torch.Tensor,
    y: torch.Tensor,
    batch_x: _Batch | None = None,
    batch_y: _Batch | None = None,
) -> torch.Tensor:
    """Find the row of `y` that is nearest to each row of `x`, among those of the same batch.

    Args:
        x: Points (number, dimensions), floats.
        y: Points (number, dimensions), floats.
        batch_x: The number of the batch of each row of `x`, sorted; None: all are in batch 0.
        batch_y: The number of the batch of each row of `y`, sorted; None: all are in batch 0.

    Returns:
        The int32 rows of `y` (number of x,).

    Raises:
        Error: An argument has another type or shape, batch numbers are not sorted, or a batch has
            no rows of `y`. A program cannot see what a tensor of batch numbers will hold.
    """
    for name, points in (("x", x), ("y", y)):
        if not isinstance(points, torch.Tensor):
            raise createPoptorchError(f"`{name}` must be a tensor; given {type(points).__name__}")
    _check_batch("batch_x", batch_x)
    _check_batch("batch_y", batch_y)
    of_x = [0] * x.shape[0] if batch_x is None else batch_x
    of_y = [0] * y.shape[0] if batch_y is None else batch_y
    if isinstance(of_x, list) and isinstance(of_y, list):
        return torch.ops.poptorch.nearest_batch_list(x, y, of_x, of_y)
    if isinstance(of_x, list) and isinstance(of_y, torch.Tensor):
        of_x = torch.tensor(of_x, dtype=of_y.dtype, device=of_y.device)
    elif isinstance(of_x, torch.Tensor) and isinstance(of_y, list):
        of_y = torch.tensor(of_y, dtype=of_x.dtype, device=of_x.device)
    return torch.ops.poptorch.nearest(x, y, of_x, of_y)


_MAX_FLOAT = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_INT_RANGE = (-(2**63), 2**63 - 1)


def _check_range(value: float, low: float, high: float, kind: str) -> None:
    if value > high:
        raise ValueError(f"{value} is too high for a Popart {kind} attribute.")
    if value < low:
        raise ValueError(f"{value} is too low for a Popart {kind} attribute.")


def _attribute_item(name: str, value: object) -> float | int | str:
    if isinstance(value, float):
        if math.isfinite(value):
            _check_range(value, -_MAX_FLOAT, _MAX_FLOAT, "float")
        return value
    if isinstance(value, int):
        _check_range(value, *_INT_RANGE, "int")
        return int(value)
    if isinstance(value, str):
        if not value.isascii():
            raise ValueError(f"{value} contains non-ASCII characters.")
        return value
    raise ValueError(
        f"The attribute {name} must be a float, an int, a str, or a list or tuple of one of them; "
        f"given {type(value).__name__}"
    )


def _attribute_value(name: str, value: object) -> object:
    if not isinstance(value, (list, tuple)):
        return _attribute_item(name, value)
    items = [_attribute_item(name, item) for item in value]
    if not items:
        raise ValueError(f"The attribute {name} must not be an empty list: its type is unknown")
    kinds = {type(item).__name__ for item in items}
    if len(kinds) > 1:
        raise ValueError(
            f"The items of the attribute {name} must have one type; given {sorted(kinds)}"
        )
    return items


def accessAttributes(attribute_id_str: str) -> dict[str, Any]:
    """Read the attributes of a `custom_op` from what the recorded op holds.

    Args:
        attribute_id_str: The last argument of `torch.ops.poptorch.custom_operation`.

    Returns:
        The attributes by name; tuples have become lists.
    """
    return dict(json.loads(attribute_id_str))


def custom_op(
    inputs: list[torch.Tensor] | tuple[torch.Tensor, ...],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: list[torch.Tensor] | tuple[torch.Tensor, ...],
    attributes: Mapping[str, Any] | None = None,
) -> list[torch.Tensor]:
    """Run an op of a library that `pando.load_library` has loaded.

    Args:
        inputs: The inputs.
        name: The name of the op.
        domain: The domain of the op. A library that names no domain has its ops in every one.
        domain_version: The version of the domain.
        example_outputs: A tensor of the shape and dtype of each output.
        attributes: The attributes of the op by name: a float, an int, a str, or a list or tuple of
            one of them; None: none.

    Returns:
        The outputs; outside of a program the example outputs. The gradient is that of the op.

    Raises:
        ValueError: An attribute is none of these, or out of range.
    """
    values = {key: _attribute_value(key, value) for key, value in (attributes or {}).items()}
    for key in values:
        if not isinstance(key, str) or not key.isascii():
            raise ValueError(f"{key} contains non-ASCII characters.")
    return torch.ops.poptorch.custom_operation(
        list(inputs),
        name,
        domain,
        domain_version,
        len(example_outputs),
        list(example_outputs),
        json.dumps(values),
    )
