"""Users' own ops, from libraries that `pando.load_library` loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from pando import _core
from popxl.context import create_op
from popxl.dtypes import DType
from popxl.ops.utils import check_inputs, outputs_of
from popxl.tensor_base import Tensor


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_list(value: object, is_item: Callable[[object], bool]) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return False
    return all(is_item(item) for item in value)


# For each type of attributes: what is wanted, whether a value is that, and as the core takes it.
_TYPES: dict[_core.AttributeType, tuple[str, Callable[[object], bool], Callable[[Any], object]]] = {
    _core.AttributeType.Flag: ("a bool", lambda value: isinstance(value, bool), bool),
    _core.AttributeType.Integer: ("an int", _is_integer, int),
    _core.AttributeType.Number: ("a float", _is_number, float),
    _core.AttributeType.Text: ("a str", lambda value: isinstance(value, str), str),
    _core.AttributeType.DTypeName: (
        "a dtype of popxl",
        lambda value: isinstance(value, DType),
        lambda value: value._pb,
    ),
    _core.AttributeType.IntList: (
        "a list of ints",
        lambda value: _is_list(value, _is_integer),
        lambda value: [int(item) for item in value],
    ),
    _core.AttributeType.NumberList: (
        "a list of floats",
        lambda value: _is_list(value, _is_number),
        lambda value: [float(item) for item in value],
    ),
    _core.AttributeType.TextList: (
        "a list of strs",
        lambda value: _is_list(value, lambda item: isinstance(item, str)),
        list,
    ),
}


def _attribute_values(op: _core.LibraryOp, given: Mapping[str, Any]) -> dict[str, object]:
    """The attributes as the core takes them; what they are not is refused."""
    declared = {attribute.name: attribute for attribute in op.attributes}
    faults = [f"no '{n}'" for n, one in declared.items() if one.required and n not in given]
    faults += [f"an unknown '{name}'" for name in given if name not in declared]
    if faults:
        raise ValueError(
            f"{op.name}: wanted the attributes {list(declared)} of its library; given "
            f"{' and '.join(faults)}"
        )
    values: dict[str, object] = {}
    for name, value in given.items():
        wanted, fits, converted = _TYPES[declared[name].type]
        if not fits(value):
            raise TypeError(
                f"{op.name}: wanted {wanted} for the attribute '{name}'; given {value!r}"
            )
        values[name] = converted(value)
    return values


def custom(
    name: str,
    inputs: Sequence[Tensor | None],
    attributes: Mapping[str, Any] | None = None,
) -> tuple[Tensor, ...]:
    """Add an op of a library to the current graph.

    Autodiff goes through it if its library has a gradient rule for it.

    Args:
        name: The kind of the op, of a library that `pando.load_library` has loaded.
        inputs: The inputs; None where an optional one is not connected.
        attributes: The attributes by name: bool, int, float, str, a dtype of popxl, or a list of
            int, float or str; None: none.

    Returns:
        The outputs. Those of an op in place are aliases of its first inputs.

    Raises:
        TypeError: An input is not a tensor, or an attribute has the wrong type.
        ValueError: An input is not in the current graph, or attributes are missing or unknown.
        popart_exception: No library that is loaded has the op, or the op refuses its inputs or
            attributes.
    """
    op = _core.find_library_op(name)
    if op is None:
        raise _core.popart_exception(
            f"no library that is loaded has an op '{name}': load it with pando.load_library"
        )
    check_inputs(**{f"inputs[{i}]": t for i, t in enumerate(inputs) if t is not None})
    return outputs_of(create_op(name, inputs, _attribute_values(op, attributes or {})))
