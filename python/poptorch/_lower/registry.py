"""The table of lowerings: which function makes popxl ops of which operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Lowering = Callable[..., Any]

_TABLE: dict[str, Lowering] = {}


def lowers(*names: str) -> Callable[[Lowering], Lowering]:
    """Register a function that lowers operators.

    It is called with a `Call` and the arguments of the operator by the names of its schema: tensors
    as popxl tensors of the current graph, everything else as it is. Arguments about device, layout
    and memory are left out. It returns a popxl tensor for each output. In-place and `out=` forms
    are lowered by the entry of the plain form, whose result is written back.

    Args:
        *names: The operators, such as `aten::add`; a name stands for all overloads.

    Returns:
        A decorator.
    """

    def register(function: Lowering) -> Lowering:
        for name in names:
            if name in _TABLE:
                raise ValueError(f"{name} is lowered by two functions: {_TABLE[name]}, {function}")
            _TABLE[name] = function
        return function

    return register


def plain_name(name: str) -> str:
    """The name of an operator without the mark of in-place forms.

    Args:
        name: Its name with namespace, without overload.

    Returns:
        Such as `aten::add` for `aten::add_`.
    """
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def find(name: str) -> Lowering | None:
    """Find the function that lowers an operator.

    Args:
        name: Its name with namespace, without overload.

    Returns:
        The function, or None.
    """
    # `fill_` and the like have entries of their own.
    return _TABLE.get(name) or _TABLE.get(plain_name(name))


def is_lowered(name: str) -> bool:
    """Whether an operator is lowered as it is.

    Args:
        name: Its name with namespace, without overload.

    Returns:
        Whether the table has it.
    """
    return find(name) is not None


def lowered_names() -> list[str]:
    """Find all operators of the table.

    Returns:
        Their names, sorted.
    """
    return sorted(_TABLE)
