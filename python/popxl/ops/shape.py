"""Ops that rearrange elements without computing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from popart import popart_exception
from popxl.context import create_op
from popxl.ops.utils import check_inputs, handle_negative_axis, make, outputs_of
from popxl.tensor import Tensor


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
    """The elements in C order in another shape; one size may be -1."""
    check_inputs(t=t)
    attributes: dict[str, object] = {"shape": _full_shape(t, shape)}
    return make("Reshape", [t], attributes, name=f"{t.name}_reshaped", settings="reshape")


def reshape_(t: Tensor, shape: Iterable[int]) -> Tensor:
    """An alias of `t` in another shape."""
    check_inputs(t=t)
    attributes: dict[str, object] = {"shape": _full_shape(t, shape)}
    return make("ReshapeInplace", [t], attributes, name=f"{t.name}_reshaped", settings="reshape_")


def flatten(t: Tensor) -> Tensor:
    """The elements along one axis."""
    return reshape(t, (-1,))


def flatten_(t: Tensor) -> Tensor:
    """An alias of `t` with one axis."""
    return reshape_(t, (-1,))


def squeeze(t: Tensor, axes: Iterable[int] | None = None) -> Tensor:
    """Without the given axes, or without all axes, of size 1."""
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
    """Axis k of the result is axis permutation[k] of `t`; by default reversed."""
    check_inputs(t=t)
    attributes: dict[str, object] = {"permutation": _permutation(t, permutation)}
    return make("Transpose", [t], attributes, name=f"{t.name}_T", settings="transpose")


def transpose_(t: Tensor, permutation: Iterable[int] | None = None) -> Tensor:
    """An alias of `t` with permuted axes."""
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
    """The tensors one after the other along `axis`."""
    return _concat("Concat", ts, axis, "concat")


def concat_(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """`concat` that shares its elements with the tensors: writes reach both."""
    return _concat("ConcatInplace", ts, axis, "concat_")


def split(t: Tensor, splits: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Parts along `axis`: that many equal ones, or of the given sizes."""
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
