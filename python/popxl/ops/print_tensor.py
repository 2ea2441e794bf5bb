"""Printing of values while a program runs."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, make
from popxl.tensor import Tensor

_FLOAT_FORMATS = ("auto", "fixed", "scientific", "none")


def print_tensor(
    t: Tensor,
    title: str | None = None,
    print_self: bool = True,
    print_gradient: bool = False,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 75,
    digits: int = 8,
    float_format: str = "auto",
    separator: str = " ",
    open_bracket: str = "[",
    close_bracket: str = "]",
) -> Tensor:
    """A copy of `t` that prints itself to standard error every time it is computed."""
    check_inputs(t=t)
    if float_format not in _FLOAT_FORMATS:
        raise KeyError(
            f"float_format: wanted one of {', '.join(_FLOAT_FORMATS)}; given {float_format!r}"
        )
    characters = {
        "separator": separator,
        "open_bracket": open_bracket,
        "close_bracket": close_bracket,
    }
    for name, text in characters.items():
        if len(text) != 1:
            raise ValueError(
                f"Parameter {name} must be 1 character exactly. {len(text)} characters provided."
            )
    attributes: dict[str, object] = {
        "title": title or f"print_{t.name}",
        "print_self": bool(print_self),
        "print_gradient": bool(print_gradient),
        "summarise_threshold": int(summarise_threshold),
        "edge_items": int(edge_items),
        "max_line_width": int(max_line_width),
        "digits": int(digits),
        "float_format": float_format,
        **characters,
    }
    return make("PrintTensor", [t], attributes, name="print_out", settings="print_tensor")
