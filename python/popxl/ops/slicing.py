"""Parts of a tensor, at places known now or when the program runs."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from popxl.ops.utils import check_inputs, handle_negative_axis, make
from popxl.tensor_base import Tensor

Bounds = int | Sequence[int | None] | None


def _as_list(value: Bounds) -> list[int | None] | None:
    if value is None:
        return None
    return [value] if isinstance(value, int) else list(value)


def _window(
    t: Tensor, start: Bounds, stop: Bounds, step: Bounds, axis: int | Sequence[int] | None
) -> dict[str, object]:
    """First element, step and number of elements for every axis."""
    given = {
        name: values
        for name, values in (
            ("start", _as_list(start)),
            ("stop", _as_list(stop)),
            ("step", _as_list(step)),
            ("axis", _as_list(axis)),
        )
        if values is not None
    }
    lengths = {name: len(values) for name, values in given.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"slice: wanted lists of one length; given lengths {lengths}")
    length = next(iter(lengths.values()))
    missing: list[int | None] = [None] * length
    axes = [handle_negative_axis(t, int(a or 0)) for a in given.get("axis", range(length))]
    if len(set(axes)) != len(axes) or any(not 0 <= a < t.rank for a in axes):
        raise ValueError(f"slice: the axes {axes} repeat or are out of range for {t!r}")
    starts, steps, counts = [0] * t.rank, [1] * t.rank, list(t.shape)
    columns = (given.get(name, missing) for name in ("start", "stop", "step"))
    for a, first, last, direction in zip(axes, *columns, strict=True):
        if direction not in (None, 1, -1):
            raise ValueError(
                f"slice: wanted step 1 or -1 for axis {a}; given {direction}: use subsample"
            )
        selected = range(*builtins.slice(first, last, direction).indices(t.shape[a]))
        starts[a], steps[a], counts[a] = selected.start, selected.step, len(selected)
        if counts[a] == 0:
            starts[a] = 0
    return {"starts": starts, "steps": steps, "counts": counts}


def _slice(
    kind: str,
    t: Tensor,
    bounds: tuple[Bounds, Bounds, Bounds],
    axis: int | Sequence[int] | None,
    settings: str,
) -> Tensor:
    check_inputs(t=t)
    if all(bound is None for bound in bounds):
        return t
    attributes = _window(t, *bounds, axis)
    return make(kind, [t], attributes, name="slice_out", settings=settings)


def slice(
    t: Tensor,
    start: int | Sequence[int | None] | None = None,
    stop: int | Sequence[int | None] | None = None,
    step: int | Sequence[int | None] | None = None,
    axis: int | Sequence[int] | None = None,
) -> Tensor:
    """Copy the elements from `start` to before `stop` along axes.

    Bounds count and are cut off as those of a Python slice. The four lists have one length.

    Args:
        t: The tensor, of any dtype.
        start: The first element for each axis; None: the first in the direction of the step.
        stop: The element before which to stop for each axis; None: behind the last.
        step: 1 or -1 for each axis; None: 1.
        axis: The axes; negative ones count from the end. None: the first ones.

    Returns:
        A new tensor, or `t` itself when start, stop and step are all None.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; the lists have different lengths, an axis
            repeats or is out of range, or a step is neither 1 nor -1.
    """
    return _slice("Slice", t, (start, stop, step), axis, "slice")


def slice_(
    t: Tensor,
    start: int | Sequence[int | None] | None = None,
    stop: int | Sequence[int | None] | None = None,
    step: int | Sequence[int | None] | None = None,
    axis: int | Sequence[int] | None = None,
) -> Tensor:
    """Make an alias of the part of a tensor that `slice` copies.

    Args:
        t: The tensor, of any dtype.
        start: The first element for each axis; None: the first in the direction of the step.
        stop: The element before which to stop for each axis; None: behind the last.
        step: 1 or -1 for each axis; None: 1.
        axis: The axes; negative ones count from the end. None: the first ones.

    Returns:
        An alias of the part of `t`, or `t` itself when start, stop and step are all None.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; the lists have different lengths, an axis
            repeats or is out of range, or a step is neither 1 nor -1.
    """
    return _slice("SliceInplace", t, (start, stop, step), axis, "slice_")


def subsample(t: Tensor, strides: int | list[int] | npt.NDArray[np.integer[Any]]) -> Tensor:
    """Take every n-th element of each axis, from the first on.

    Args:
        t: The tensor, of any dtype.
        strides: n for each axis, an int for axis 0 alone. A list that is shorter than the rank is
            extended with 1 in place; an array of integers is left as it is.

    Returns:
        A new tensor; a size d becomes ceil(d / n).

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; there are more strides than axes.
        popart_exception: A stride is less than 1.
    """
    check_inputs(t=t)
    if isinstance(strides, list):
        steps = strides
    else:
        steps = [int(step) for step in np.atleast_1d(np.asarray(strides))]
    if len(steps) > t.rank:
        raise ValueError(f"subsample: wanted up to {t.rank} strides for {t!r}; given {steps}")
    steps += [1] * (t.rank - len(steps))
    attributes: dict[str, object] = {"strides": [int(step) for step in steps]}
    return make("Subsample", [t], attributes, name="subsample_out", settings="subsample")


def _dynamic(axes: Iterable[int], sizes: Iterable[int], no_overlap: bool) -> dict[str, object]:
    return {
        "axes": [int(axis) for axis in axes],
        "sizes": [int(size) for size in sizes],
        "no_overlap": bool(no_overlap),
    }


def dynamic_slice(
    t: Tensor, index: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool
) -> Tensor:
    """Copy a part of a tensor whose place is known only when the program runs.

    The part starts at index[i] along axes[i] and has sizes[i] elements there; other axes are whole.
    A start outside of the tensor or too close to its end is moved so that the part fits.

    Args:
        t: The tensor, of any dtype.
        index: An int32 or uint32 tensor with one element for each of `axes`.
        axes: The axes, not negative.
        sizes: The size of the part along each of `axes`.
        no_overlap: Whether slices never overlap. It has no effect on values or gradients.

    Returns:
        A new tensor of the shape of the part, with the dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The axes repeat, or the axes, the sizes or the index do not fit each other
            or `t`, here or when a session is made.
    """
    check_inputs(t=t, index=index)
    attributes = _dynamic(axes, sizes, no_overlap)
    inputs = [t, index]
    return make(
        "DynamicSlice", inputs, attributes, name="dynamic_slice_out", settings="dynamic_slice"
    )


def dynamic_update(
    t: Tensor,
    index: Tensor,
    t_update: Tensor,
    axes: Iterable[int],
    sizes: Iterable[int],
    no_overlap: bool,
) -> Tensor:
    """Copy a tensor with another one at the place that `dynamic_slice` reads.

    Args:
        t: The tensor, of any dtype.
        index: An int32 or uint32 tensor with one element for each of `axes`.
        t_update: What is written, of the dtype of `t` and the shape of the part.
        axes: The axes, not negative.
        sizes: The size of the part along each of `axes`.
        no_overlap: Whether slices never overlap. It has no effect on values or gradients.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The axes, the sizes, the index or the update do not fit, here or when a
            session is made.
    """
    check_inputs(t=t, index=index, t_update=t_update)
    attributes = _dynamic(axes, sizes, no_overlap)
    inputs = [t, index, t_update]
    return make(
        "DynamicUpdate", inputs, attributes, name="dynamic_update_out", settings="dynamic_update"
    )


def dynamic_update_(
    t: Tensor,
    index: Tensor,
    t_update: Tensor,
    axes: Iterable[int],
    sizes: Iterable[int],
    no_overlap: bool,
) -> Tensor:
    """Write a tensor to the place in `t` that `dynamic_slice` reads. There is no gradient.

    Args:
        t: The tensor to write to, of any dtype.
        index: An int32 or uint32 tensor with one element for each of `axes`.
        t_update: What is written, of the dtype of `t` and the shape of the part.
        axes: The axes, not negative.
        sizes: The size of the part along each of `axes`.
        no_overlap: Whether slices never overlap. It has no effect on values.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets.
        popart_exception: The axes, the sizes, the index or the update do not fit, here or when a
            session is made.
    """
    check_inputs(t=t, index=index, t_update=t_update)
    return make(
        "DynamicUpdateInplace",
        [t, index, t_update],
        _dynamic(axes, sizes, no_overlap),
        name="dynamicupdateinplace_out",
        settings="dynamic_update_",
    )
