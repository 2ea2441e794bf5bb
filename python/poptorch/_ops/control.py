"""Loops, conditions and calls of the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch._ops.trace_state import TraceState, check_inference, current_trace

_Body = Callable[..., Any]


def _check_list(name: str, given: object) -> list[torch.Tensor]:
    """The inputs of a body, by value."""
    wanted = f"{name} must be a list of tensors. "
    if not isinstance(given, list):
        raise ValueError(wanted + "(Object is not list)")
    for index, item in enumerate(given):
        if not isinstance(item, torch.Tensor):
            raise ValueError(
                wanted + f"(Object contained in list at index {index} is not torch.tensor)"
            )
    return [tensor.clone() for tensor in given]


def tensors_of(name: str, returned: object) -> list[torch.Tensor]:
    """Give what a function of the user returned as a list of tensors.

    Args:
        name: What the error calls the function.
        returned: What it returned.

    Returns:
        The tensors.

    Raises:
        Error: It is neither a tensor nor a list or tuple of tensors.
    """
    results: list[torch.Tensor] = []
    for result in returned if isinstance(returned, (list, tuple)) else [returned]:
        if not isinstance(result, torch.Tensor):
            raise createPoptorchError(
                f"{name} must return a tensor, or a list or tuple of tensors; returned "
                f"{type(result).__name__}"
            )
        results.append(result)
    return results


def _kinds(tensors: list[torch.Tensor]) -> list[tuple[list[int], torch.dtype]]:
    return [(list(tensor.shape), tensor.dtype) for tensor in tensors]


def _loop_results(returned: object, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    results = tensors_of("The body of poptorch.for_loop()", returned)
    if _kinds(results) != _kinds(inputs):
        raise createPoptorchError(
            "The body of poptorch.for_loop() must return as many tensors as it takes, of the same "
            f"shapes and dtypes. It takes {_kinds(inputs)} and returned {_kinds(results)}"
        )
    return results


def for_loop(count: int, body: _Body, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Call a function several times, each time with what it returned before.

    In a program the body is traced once, and only inference supports it. It may use tensors from
    outside, but not write them.

    Args:
        count: The number of calls, 0 or more.
        body: The function. It takes as many tensors as `inputs` has, and returns as many of the
            same shapes and dtypes: a tensor, a list or a tuple.
        inputs: What the first call is given, by value.

    Returns:
        What the last call returned, as a list.

    Raises:
        ValueError: The inputs are not a list of tensors, or the count is no int of 0 or more.
        Error: The program trains, or the body returned other shapes or dtypes.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(
            f"The count of poptorch.for_loop() must be an int of 0 or more; given {count!r}"
        )
    trace = current_trace()
    if trace is not None:
        check_inference(trace, "poptorch.for_loop()")
    state = _check_list("The inputs of poptorch.for_loop()", inputs)
    if trace is None:
        for _ in range(count):
            state = _loop_results(body(*state), state)
        return state
    torch.ops.poptorch.start_for_loop(state)
    results = _loop_results(body(*state), state)
    return torch.ops.poptorch.end_for_loop(results, state, count)


def _check_condition(condition: object) -> torch.Tensor:
    if not isinstance(condition, torch.Tensor) or condition.dtype != torch.bool:
        given = condition.dtype if isinstance(condition, torch.Tensor) else type(condition).__name__
        raise createPoptorchError(
            f"The condition of poptorch.cond() must be a bool tensor; given {given}"
        )
    if condition.numel() != 1:
        raise createPoptorchError(
            "The condition of poptorch.cond() must have one element; given the shape "
            f"{list(condition.shape)}"
        )
    return condition


def cond(
    condition: torch.Tensor,
    then_body: _Body,
    then_inps: list[torch.Tensor],
    else_body: _Body,
    else_inps: list[torch.Tensor],
) -> list[torch.Tensor]:
    """Call one function if a condition is true when the program runs, else another.

    In a program both are traced, and only inference supports it. They may use tensors from outside,
    but not write them.

    Args:
        condition: A bool tensor of one element.
        then_body: The function for true.
        then_inps: What it is given, by value.
        else_body: The function for false, which returns as many tensors. Where its results have
            another number of dimensions, those of `then_body` are reshaped to them.
        else_inps: What it is given, by value.

    Returns:
        What the function that was called returned, as a list.

    Raises:
        ValueError: Inputs are not lists of tensors.
        Error: The program trains, the condition is not a bool of one element, or the functions
            return different numbers of tensors.
    """
    trace = current_trace()
    if trace is not None:
        check_inference(trace, "poptorch.cond()")
    _check_condition(condition)
    then_inputs = _check_list("then_inps of poptorch.cond()", then_inps)
    else_inputs = _check_list("else_inps of poptorch.cond()", else_inps)
    if trace is None:
        if bool(condition):
            return tensors_of("then_body of poptorch.cond()", then_body(*then_inputs))
        return tensors_of("else_body of poptorch.cond()", else_body(*else_inputs))
    torch.ops.poptorch.start_if_block(condition)
    then_results = tensors_of("then_body of poptorch.cond()", then_body(*then_inputs))
    torch.ops.poptorch.start_else_block(then_results)
    else_results = tensors_of("else_body of poptorch.cond()", else_body(*else_inputs))
    if len(then_results) != len(else_results):
        raise createPoptorchError(
            "The bodies of poptorch.cond() must return as many tensors; then_body returned "
            f"{len(then_results)} and else_body {len(else_results)}"
        )
    return torch.ops.poptorch.end_if_block(else_results, condition)


@contextmanager
def _buffers_kept(layer: Callable[..., Any]) -> Iterator[None]:
    """What the layer writes to its buffers, such as statistics, does not stay."""
    buffers = list(layer.buffers()) if isinstance(layer, torch.nn.Module) else []
    values = [buffer.detach().clone() for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(buffers, values, strict=True):
                buffer.copy_(value)


class CPU:
    """A layer that runs on the host in the middle of a program; only inference supports it."""

    def __init__(self, layer_to_call: Callable[..., Any], ID: str) -> None:
        """Wrap a layer.

        Args:
            layer_to_call: A module, whose parameters stop to require a gradient, or a function. It
                takes tensors and returns a tensor, or a list or tuple of them.
            ID: A name of its own.

        Raises:
            Error: The layer cannot be called, or the name is not a string.
        """
        if not callable(layer_to_call):
            raise createPoptorchError(
                f"poptorch.CPU: wanted a module or a function; given {layer_to_call!r}"
            )
        if not isinstance(ID, str):
            raise createPoptorchError(f"poptorch.CPU: wanted a string as ID; given {ID!r}")
        if isinstance(layer_to_call, torch.nn.Module):
            layer_to_call.requires_grad_(False)
        self._layer = layer_to_call
        self._id = ID

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer, or have the program call it.

        Args:
            *args: Its arguments; in a program all are tensors.
            **kwargs: Its arguments by name, which a program does not support.

        Returns:
            What the layer returns; in a program a tensor for one, and a list for several.
        """
        trace = current_trace()
        if trace is None:
            return self._layer(*args, **kwargs)
        check_inference(trace, "poptorch.CPU")
        if kwargs or any(not isinstance(argument, torch.Tensor) for argument in args):
            raise createPoptorchError(
                f"poptorch.CPU: in a program '{self._id}' takes only tensors, by position; given "
                f"{[type(argument).__name__ for argument in args]} and {list(kwargs)}"
            )
        return self._call_in_program(trace, args)

    def _call_in_program(self, trace: TraceState, args: tuple[torch.Tensor, ...]) -> Any:
        if trace.host_layers.setdefault(self._id, self._layer) is not self._layer:
            raise createPoptorchError(
                f"poptorch.CPU: two layers of this model have the ID '{self._id}'"
            )
        torch.ops.poptorch.call_cpu_op(list(args), self._id)
        with trace.paused(), _buffers_kept(self._layer):
            # Values of zero stand for those of the program, to learn what the layer returns.
            zeros = [torch.zeros(x.shape, dtype=x.dtype, device="cpu") for x in args]
            returned = tensors_of(f"The layer '{self._id}' of poptorch.CPU", self._layer(*zeros))
            shapes = [torch.empty_like(x, device="meta", requires_grad=False) for x in returned]
        results = torch.ops.poptorch.end_cpu_op(shapes)
        return results[0] if len(results) == 1 else results
