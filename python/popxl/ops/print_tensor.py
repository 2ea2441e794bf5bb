"""Printing of values while a program runs."""

from __future__ import annotations

from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor

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
    """Copy a tensor and print it to standard error whenever the copy is computed.

    Every replica prints, with `_replica_N` behind the title where there are several.

    Args:
        t: The tensor, of any dtype.
        title: What is printed before the values; None: `print_` and the name of `t`.
        print_self: Whether the values are printed.
        print_gradient: Whether the gradient is printed, under the title with `_gradient`.
        summarise_threshold: The number of elements above which only edges are printed; 0: never.
        edge_items: The number of elements printed at each edge.
        max_line_width: The number of characters at which lines are broken; 0: never.
        digits: The number of digits of a float; 0: up to six, and elements are not aligned.
        float_format: `fixed`, `scientific`, `none` (as for 0 digits) or `auto`, which is
            `scientific` if a magnitude is below 1e-4 or at least 1e6, else `fixed`.
        separator: The character between elements.
        open_bracket: The character before a row.
        close_bracket: The character behind a row.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; the separator or a bracket is not one
            character.
        KeyError: `float_format` is another word.
    """
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
