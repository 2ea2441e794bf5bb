"""Operators whose results have a shape that depends on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch._trace.recording import tensors_in

ValueOf = Callable[[torch.Tensor], torch.Tensor | None]
_aten = torch.ops.aten
_MASKS = (torch.bool, torch.uint8)
_READS = ("aten::index", "aten::_unsafe_index", "aten::masked_select")
# These have a fixed shape where an argument gives it; one_hot has an error of its own without.
_WITH_SIZE = {
    "aten::repeat_interleave": "output_size",
    "aten::bincount": "minlength",
    "aten::one_hot": "num_classes",
}


def in_fixed_shape(
    func: Any, bound: dict[str, Any], value_of: ValueOf, location: Callable[[], str]
) -> Any:
    """Call an operator whose shape depends on values, where what the trace knows fixes the shape.

    Args:
        func: The operator.
        bound: Its arguments by name.
        value_of: Gives the value of a traced tensor that no input, weight or random number has a
            part in; None for others.
        location: Finds the line of the user's program.

    Returns:
        The result; None where the operator needs no help.

    Raises:
        Error: The shape depends on what only a run knows.
    """
    name = func._schema.name
    try:
        return _in_fixed_shape(func, name, bound, value_of)
    except _UnknownValueError:
        hint = ""
        if name in _READS:
            hint = ". Instead of reading with a mask, use torch.where, or multiply by the mask"
        elif name in _WITH_SIZE:
            hint = f". Give {_WITH_SIZE[name]}"
        raise createPoptorchError(
            f"{name} at {location()} gives a tensor of a dynamic shape, which depends on values "
            f"that are not known while the model is traced; no program has such a tensor{hint}"
        ) from None


class _UnknownValueError(Exception):
    """A shape depends on a value that only a run knows."""


def _in_fixed_shape(func: Any, name: str, bound: dict[str, Any], value_of: ValueOf) -> Any:
    if name in _READS:
        return _read(name, bound, value_of)
    if name == "aten::tensor_split" and "tensor_indices_or_sections" in bound:
        where = _known(bound["tensor_indices_or_sections"], value_of)
        return torch.tensor_split(bound["self"], where.tolist(), bound.get("dim", 0))
    if name == "aten::repeat_interleave" and "self" in bound:
        return _repeat(func, bound, value_of)
    if name == "aten::narrow" and isinstance(bound["start"], torch.Tensor):
        start = value_of(bound["start"])
        return None if start is None else func(**{**bound, "start": start})
    if torch.Tag.dynamic_output_shape not in func.tags or bound.get(_WITH_SIZE.get(name, "")):
        return None
    values = {id(one): _known(one, value_of) for one in tensors_in(bound)}
    return func(**{key: _filled(value, values) for key, value in bound.items()})


def _known(tensor: torch.Tensor, value_of: ValueOf) -> torch.Tensor:
    value = value_of(tensor)
    if value is None:
        raise _UnknownValueError
    return value


def _filled(value: Any, values: dict[int, torch.Tensor]) -> Any:
    return values[id(value)] if isinstance(value, torch.Tensor) else value


def _repeat(func: Any, bound: dict[str, Any], value_of: ValueOf) -> Any:
    this, repeats, dim = bound["self"], bound["repeats"], bound.get("dim")
    if not isinstance(repeats, torch.Tensor) or bound.get("output_size"):
        return func.decompose(this, repeats, dim, output_size=bound.get("output_size"))
    axis = 0 if dim is None else dim
    rows = this.reshape(-1) if dim is None else this
    counts = _known(repeats, value_of).expand(rows.shape[axis])
    return torch.index_select(rows, axis, torch.repeat_interleave(counts))


def _positions(mask: torch.Tensor, value_of: ValueOf) -> list[torch.Tensor]:
    """Where a mask holds, one vector for each of its axes."""
    return list(_known(mask, value_of).bool().nonzero(as_tuple=True))


def _read(name: str, bound: dict[str, Any], value_of: ValueOf) -> Any:
    if name == "aten::masked_select":
        this, mask = bound["self"], bound["mask"]
        shape = torch.broadcast_shapes(this.shape, mask.shape)  # type: ignore[no-untyped-call]
        places = _positions(_known(mask, value_of).expand(shape), value_of)
        return _aten.index(this.expand(shape), places)
    indices = bound["indices"]
    if not any(index is not None and index.dtype in _MASKS for index in indices):
        return None
    found: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in _MASKS:
            found.append(index)
        else:
            found += _positions(index, value_of)
    return _aten.index(bound["self"], found)
