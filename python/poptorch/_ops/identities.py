"""Functions that return the values they are given, and mark or show them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch.enums import MatMulSerializationMode, OverlapMode

_REDUCTIONS = {"sum": 0, "mean": 1, "none": 2}
_FLOAT_FORMATS = {"auto": 0, "fixed": 1, "scientific": 2, "none": 3}


def identity_loss(x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Mark a tensor as the loss of the program.

    Args:
        x: The loss, of any shape; a float.
        reduction: "sum" or "mean" of all elements, or "none".

    Returns:
        The reduced loss; its gradient is that of the reduction.

    Raises:
        AssertionError: The reduction is unknown.
    """
    assert reduction in _REDUCTIONS, "Unsupported reduction type!"
    return torch.ops.poptorch.identity_loss(x, _REDUCTIONS[reduction])


def ipu_print_tensor(
    tensor: torch.Tensor,
    title: str = "",
    print_gradient: bool = True,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 80,
    digits: int = 4,
    float_format: str = "auto",
    separator: str = ", ",
    open_bracket: str = "(",
    close_bracket: str = ")",
) -> torch.Tensor:
    """Print a tensor to standard error whenever a compiled program computes it.

    Nothing is printed unless the result is used, and nothing outside of a compiled program.

    Args:
        tensor: The tensor, of any shape and dtype.
        title: What is printed before the values.
        print_gradient: Whether its gradient is printed too, under the title with `_gradient`.
        summarise_threshold: The number of elements above which only edges are printed.
        edge_items: The number of elements printed at each edge.
        max_line_width: The number of characters at which lines are broken.
        digits: The number of digits of a float.
        float_format: "auto", "fixed", "scientific" or "none".
        separator: What is printed between elements: its first character.
        open_bracket: What is printed before a row: its first character.
        close_bracket: What is printed behind a row: its first character.

    Returns:
        The same values; the gradient passes through.

    Raises:
        KeyError: The format is unknown.
    """
    return torch.ops.poptorch.ipu_print_tensor(
        tensor,
        title,
        int(print_gradient),
        summarise_threshold,
        edge_items,
        max_line_width,
        digits,
        _FLOAT_FORMATS[float_format],
        separator[:1],
        open_bracket[:1],
        close_bracket[:1],
    )


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor in a way that is never optimised out.

    Args:
        tensor: The tensor.

    Returns:
        The same values; the gradient passes through.
    """
    return torch.ops.poptorch.nop(tensor)


def recomputationCheckpoint(*tensors: Any) -> Any:
    """Mark values that are kept for the backward pass where others are computed again.

    Args:
        *tensors: Tensors, or one list or tuple of them.

    Returns:
        The same values: a tensor for one, a tuple for several, and a list or tuple, of its type,
        for a list or tuple.

    Raises:
        ValueError: An argument is not a tensor.
    """
    is_collection = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
    given = tensors[0] if is_collection else tensors
    if not given or any(not isinstance(tensor, torch.Tensor) for tensor in given):
        raise ValueError("All inputs must be tensors")
    kept = [torch.ops.poptorch.recomputation_checkpoint(tensor) for tensor in given]
    if is_collection:
        return _like(given, kept)
    return kept[0] if len(kept) == 1 else tuple(kept)


def _like(collection: Any, items: list[Any]) -> Any:
    """Items in a collection of the same type; fields of a named tuple are arguments."""
    kind = type(collection)
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """Hint how much memory the op that made a tensor may use; it has no effect on values.

    Args:
        tensor: The result of a product, convolution or lookup.
        available_memory_proportion: The part of the memory, from 0 to 1.

    Returns:
        The same values; the gradient passes through.

    Raises:
        Error: The argument is not a tensor.
    """
    if not isinstance(tensor, torch.Tensor):
        raise createPoptorchError(
            "You may only set available memory for torch.tensor values. "
            f"Given {type(tensor).__name__}"
        )
    return torch.ops.poptorch.set_available_memory(tensor, float(available_memory_proportion))


def serializedMatMul(
    lhs: torch.Tensor,
    rhs: torch.Tensor,
    mode: MatMulSerializationMode,
    factor: int = 0,
    keep_precision: bool = False,
) -> torch.Tensor:
    """Multiply matrices, with a hint to do it in parts that need less memory.

    Args:
        lhs: The left matrix, or a batch of them, as `torch.matmul` takes it.
        rhs: The right one.
        mode: The dimension that is split.
        factor: The number of parts.
        keep_precision: Whether parts are added up in float32.

    Returns:
        `torch.matmul(lhs, rhs)`.

    Raises:
        AssertionError: The mode is no `MatMulSerializationMode`.
    """
    assert isinstance(mode, MatMulSerializationMode), (
        f"mode must be a poptorch.MatMulSerializationMode; given {mode!r}"
    )
    product = torch.matmul(lhs, rhs)
    return torch.ops.poptorch.set_matmul_serialization(
        product, mode.value, factor, bool(keep_precision)
    )


def _overlapped(
    operator: Callable[[torch.Tensor, str], torch.Tensor], tensors: Any, mode: OverlapMode
) -> Any:
    assert isinstance(mode, OverlapMode), f"mode must be a poptorch.OverlapMode; given {mode!r}"
    if isinstance(tensors, torch.Tensor):
        return operator(tensors, mode.value)
    if isinstance(tensors, (list, tuple)):
        return _like(tensors, [_overlapped(operator, item, mode) for item in tensors])
    if isinstance(tensors, dict):
        # A copy, because constructors of other dictionaries take other arguments.
        result = copy.copy(tensors)
        for key, item in tensors.items():
            result[key] = _overlapped(operator, item, mode)
        return result
    return tensors


def set_overlap_for_input(input_tensors: Any, mode: OverlapMode) -> Any:
    """Say which computation the transfer of inputs may overlap; it has no effect on values.

    Args:
        input_tensors: Inputs of the model: a tensor, or tuples, lists and dictionaries of them.
        mode: What may be overlapped.

    Returns:
        The same structure, with the same values.

    Raises:
        AssertionError: The mode is no `OverlapMode`.
    """
    return _overlapped(torch.ops.poptorch.set_overlap_for_input, input_tensors, mode)


def set_overlap_for_output(output_tensors: Any, mode: OverlapMode) -> Any:
    """Say which computation the transfer of outputs may overlap; it has no effect on values.

    Args:
        output_tensors: What the model returns: a tensor, or tuples, lists and dictionaries of them.
        mode: What may be overlapped.

    Returns:
        The same structure, with the same values.

    Raises:
        AssertionError: The mode is no `OverlapMode`.
    """
    return _overlapped(torch.ops.poptorch.set_overlap_for_output, output_tensors, mode)
