"""Ops that rearrange elements without computing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from popart import popart_exception
from popxl.context import create_op
from popxl.ops.utils import check_inputs, handle_negative_axis, make, outputs_of
from popxl.tensor_base import Tensor


def _full_shape(t: Tensor, shape: Iterable[int]) -> list[int]:
    """The shape with -1 replaced by the size that is left."""
    sizes = [int(size) for size in shape]
    if any(size == 0 or size < -1 for size in sizes):
        raise ValueError(
            f"Invalid shape value in reshape. Must be '>0' or '-1'. Provided {tuple(sizes)}."
        )
    if sizes.count(-1) > 1:
        raise ValueError(f"Reshape shape can contain at most one '-1' value. Provided {sizes}.")
    known = prod(size for size in sizes if size != -1)
    # A size that does not divide is left as it is too small: the op reports both shapes.
    return [t.nelms // known if size == -1 else size for size in sizes]


def reshape(t: Tensor, shape: Iterable[int]) -> Tensor:
    """Copy the elements, in C order, to another shape.

    Args:
        t: The tensor, of any dtype.
        shape: The new shape: positive sizes, of which one may be -1, which stands for what is left.

    Returns:
        A new tensor with the dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; a size is 0 or less than -1, or several are -1.
        popart_exception: The shape has another number of elements.
    """
    check_inputs(t=t)
    attributes: dict[str, object] = {"shape": _full_shape(t, shape)}
    return make("Reshape", [t], attributes, name=f"{t.name}_reshaped", settings="reshape")


def reshape_(t: Tensor, shape: Iterable[int]) -> Tensor:
    """Make an alias of a tensor in another shape.

    Args:
        t: The tensor, of any dtype.
        shape: The new shape: positive sizes, of which one may be -1, which stands for what is left.

    Returns:
        An alias of `t`: nothing is copied, and writes reach both.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; a size is 0 or less than -1, or several are -1.
        popart_exception: The shape has another number of elements.
    """
    check_inputs(t=t)
    attributes: dict[str, object] = {"shape": _full_shape(t, shape)}
    return make("ReshapeInplace", [t], attributes, name=f"{t.name}_reshaped", settings="reshape_")


def flatten(t: Tensor) -> Tensor:
    """Copy the elements, in C order, to one axis.

    Args:
        t: The tensor, of any dtype.

    Returns:
        A new tensor of rank 1 with the dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return reshape(t, (-1,))


def flatten_(t: Tensor) -> Tensor:
    """Make an alias of a tensor with one axis.

    Args:
        t: The tensor, of any dtype.

    Returns:
        An alias of `t` of rank 1: nothing is copied, and writes reach both.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    return reshape_(t, (-1,))


def squeeze(t: Tensor, axes: Iterable[int] | None = None) -> Tensor:
    """Remove axes of size 1.

    Args:
        t: The tensor, of any dtype.
        axes: The axes to remove; negative ones count from the end. None: all of size 1.

    Returns:
        A new tensor with the elements of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; an axis repeats, is out of range or has another
            size than 1.
    """
    check_inputs(t=t)
    if axes is None:
        dropped = [axis for axis, size in enumerate(t.shape) if size == 1]
    else:
        dropped = [handle_negative_axis(t, axis) for axis in axes]
    if len(set(dropped)) != len(dropped):
        raise ValueError(f"squeeze: the axes {dropped} of {t!r} repeat")
    for axis in dropped:
        if not 0 <= axis < t.rank:
            raise ValueError(f"squeeze: axis {axis} is out of range for {t!r}")
        if t.shape[axis] != 1:
            raise ValueError(f"squeeze: wanted size 1 for axis {axis} of {t!r}")
    return reshape(t, [size for axis, size in enumerate(t.shape) if axis not in dropped])


def _permutation(t: Tensor, permutation: Iterable[int] | None) -> list[int]:
    if permutation is None:
        return list(range(t.rank))[::-1]
    axes = [handle_negative_axis(t, int(axis)) for axis in permutation]
    for axis in axes:
        if not 0 <= axis < t.rank:
            raise ValueError(
                f"transpose: the permutation {axes} has an axis out of range for {t!r}"
            )
    return axes


def transpose(t: Tensor, permutation: Iterable[int] | None = None) -> Tensor:
    """Permute the axes: axis k of the result is axis permutation[k] of `t`.

    Args:
        t: The tensor, of any dtype.
        permutation: Every axis once; negative ones count from the end. None: the axes reversed.

    Returns:
        A new tensor with the elements of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; an axis is out of range.
        popart_exception: The permutation does not name every axis once.
    """
    check_inputs(t=t)
    attributes: dict[str, object] = {"permutation": _permutation(t, permutation)}
    return make("Transpose", [t], attributes, name=f"{t.name}_T", settings="transpose")


def transpose_(t: Tensor, permutation: Iterable[int] | None = None) -> Tensor:
    """Make an alias of a tensor with permuted axes.

    Args:
        t: The tensor, of any dtype.
        permutation: Every axis once; negative ones count from the end. None: the axes reversed.

    Returns:
        An alias of `t`: nothing is copied, and writes reach both.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; an axis is out of range.
        popart_exception: The permutation does not name every axis once.
    """
    check_inputs(t=t)
    attributes: dict[str, object] = {"permutation": _permutation(t, permutation)}
    return make("TransposeInplace", [t], attributes, name=f"{t.name}_T", settings="transpose_")


def _concat(kind: str, ts: Iterable[Tensor], axis: int, settings: str) -> Tensor:
    tensors = list(ts)
    check_inputs(**{f"ts_{i}": t for i, t in enumerate(tensors)})
    if not tensors:
        raise ValueError("concat: wanted one or more tensors; given none")
    dtypes = [t.dtype for t in tensors]
    if any(dtype != dtypes[0] for dtype in dtypes):
        raise TypeError(
            f"All inputs to a concat operation must have the same type: {dtypes} were provided."
        )
    attributes: dict[str, object] = {"axis": handle_negative_axis(tensors[0], axis)}
    return make(kind, tensors, attributes, name="concat_out", settings=settings)


def concat(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Join tensors, one after the other, along an axis.

    Args:
        ts: One or more tensors of one dtype, whose shapes are equal but for `axis`.
        axis: The axis; a negative one counts from the end.

    Returns:
        A new tensor with the sum of the sizes along `axis`.

    Raises:
        TypeError: An argument that must be a tensor is not one; the dtypes differ.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; no tensor is given.
        popart_exception: The shapes do not fit, or the axis is out of range.
    """
    return _concat("Concat", ts, axis, "concat")


def concat_(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along an axis so that the result shares its elements with them.

    Args:
        ts: One or more tensors of one dtype, whose shapes are equal but for `axis`.
        axis: The axis; a negative one counts from the end.

    Returns:
        An alias of all tensors: writes to it reach them, and theirs reach it.

    Raises:
        TypeError: An argument that must be a tensor is not one; the dtypes differ.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; no tensor is given.
        popart_exception: The shapes do not fit, or the axis is out of range.
    """
    return _concat("ConcatInplace", ts, axis, "concat_")


def split(t: Tensor, splits: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Cut a tensor into parts along an axis.

    Args:
        t: The tensor, of any dtype.
        splits: The number of equal parts, or the size of each part.
        axis: The axis; a negative one counts from the end.

    Returns:
        A list of new tensors, in order.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; the size is not divisible by the number of
            parts.
        popart_exception: The axis is out of range, or the sizes do not add up to that of the axis.
    """
    check_inputs(t=t)
    axis = handle_negative_axis(t, axis)
    if not 0 <= axis < t.rank:
        raise popart_exception(f"split: axis {axis} is out of range for {t!r}")
    if isinstance(splits, int):
        size = t.shape[axis]
        if splits <= 0 or size % splits != 0:
            raise ValueError(
                f"split: axis {axis} of {t!r} has size {size}, which {splits} equal parts do not "
                "divide"
            )
        sizes = [size // splits] * splits
    else:
        sizes = [int(size) for size in splits]
    attributes: dict[str, object] = {"axis": axis, "sizes": sizes}
    names = [f"{t.name}_split_{i}" for i in range(len(sizes))]
    op = create_op("Split", [t], attributes, names=names, settings_name="split")
    return list(outputs_of(op))
