"""`torch.autograd.Function` and `torch.utils.checkpoint` while a model is traced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch.autograd.function import FunctionCtx
from torch.utils.checkpoint import CheckpointFunction

from poptorch._impl import createPoptorchError
from poptorch._private_torch import without_modes
from poptorch._trace.recording import tensors_in

# What Function.apply calls, also where programs keep `apply` of their class in a name.
_BASE: Any = torch.autograd.Function.__bases__[0]


@contextmanager
def functions_recorded(training: bool) -> Iterator[None]:
    """Record what functions of classes of `autograd.Function` do, in training backward too.

    Checkpoints call their function once, as any other function.

    Args:
        training: Whether their gradients are wanted.

    Yields:
        Nothing.
    """

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(tensor.is_meta for tensor in tensors_in((args, kwargs))):
            return super(_BASE, cls).apply(*args, **kwargs)
        if cls is CheckpointFunction:
            function, _, *rest = args
            return function(*rest)
        # Torch's own functions are inside of operators, which are recorded as a whole.
        is_of_torch = cls.__module__.partition(".")[0] == "torch"
        differentiates = training and torch.is_grad_enabled() and not is_of_torch
        if differentiates and any(map(_needs_gradient, args)):
            return _record(cls, args, kwargs)
        return _forward(cls, _Context(args), args, kwargs)

    _BASE.apply = classmethod(apply)
    # What checkpoints ask for the state of random numbers on a device.
    had_module = hasattr(torch, "ipu")
    if not had_module:
        torch.ipu = SimpleNamespace()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del _BASE.apply
        if not had_module:
            del torch.ipu  # type: ignore[attr-defined]


class _Context(FunctionCtx):
    """What forward leaves for backward.

    Args:
        args: The arguments of the function.
    """

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(_needs_gradient(argument) for argument in args)
        self.materialize_grads = True
        self.to_save: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What forward has saved."""
        return self.to_save


def _needs_gradient(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.requires_grad


def _forward(cls: Any, context: _Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if cls.setup_context is torch.autograd.Function.setup_context:
        return cls.forward(context, *args, **kwargs)
    results = cls.forward(*args, **kwargs)
    cls.setup_context(context, args, results)
    return results


def _record(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls forward and backward, and marks in the recording where each begins and ends."""
    context = _Context(args)
    with torch.no_grad():
        torch.ops.poptorch.begin_function()
        returned = _forward(cls, context, args, kwargs)
        items = returned if isinstance(returned, tuple) else (returned,)
        results = [item for item in items if isinstance(item, torch.Tensor)]
        differentiable = [_is_differentiable(context, result) for result in results]
        with without_modes():
            gradients = [
                torch.empty_like(r) for r, d in zip(results, differentiable, strict=True) if d
            ]
        torch.ops.poptorch.begin_backward(results, gradients)
        given = iter(gradients)
        incoming = [
            next(given) if _is_differentiable(context, item) else _no_gradient(context, item)
            for item in items
        ]
        found = _input_gradients(cls, args, _backward(cls)(context, *incoming))
    inputs = [args[index] for index in found]
    # Behind no_grad: the results need a gradient where an input does.
    made = iter(
        torch.ops.poptorch.end_function(
            inputs, results, list(found.values()), differentiable, cls.__qualname__
        )
    )
    outcome = tuple(next(made) if isinstance(item, torch.Tensor) else item for item in items)
    return outcome if isinstance(returned, tuple) else outcome[0]


def _is_differentiable(context: _Context, result: Any) -> bool:
    is_marked = any(result is one for one in context.non_differentiable)
    return isinstance(result, torch.Tensor) and result.is_floating_point() and not is_marked


def _no_gradient(context: _Context, result: Any) -> torch.Tensor | None:
    is_filled = isinstance(result, torch.Tensor) and context.materialize_grads
    return torch.zeros_like(result) if is_filled else None


def _backward(cls: Any) -> Any:
    """Torch takes either name."""
    return cls.backward if cls.backward is not torch.autograd.Function.backward else cls.vjp


def _input_gradients(cls: Any, args: Sequence[Any], returned: Any) -> dict[int, torch.Tensor]:
    """The gradients that backward returned, by the number of the argument."""
    gradients = list(returned) if isinstance(returned, tuple) else [returned]
    if len(gradients) < len(args) or any(g is not None for g in gradients[len(args) :]):
        raise createPoptorchError(
            f"function {cls.__qualname__}Backward returned an incorrect number of gradients "
            f"(expected {len(args)}, got {len(gradients)})"
        )
    found = {}
    for index, (argument, gradient) in enumerate(zip(args, gradients, strict=False)):
        if gradient is not None and _needs_gradient(argument):
            found[index] = _fitted(cls, index, argument, gradient)
    return found


def _fitted(cls: Any, index: int, argument: torch.Tensor, gradient: Any) -> torch.Tensor:
    """A gradient in the shape and dtype of what it is the gradient of."""
    name = f"Function {cls.__qualname__}Backward returned an invalid gradient at index {index}"
    if not isinstance(gradient, torch.Tensor):
        raise createPoptorchError(f"{name} - wanted a tensor or None; got {gradient!r}")
    if gradient.shape != argument.shape:
        try:
            gradient = gradient.sum_to_size(argument.shape)
        except RuntimeError as error:
            raise createPoptorchError(
                f"{name} - got {list(gradient.shape)} but expected shape compatible with "
                f"{list(argument.shape)}"
            ) from error
    return gradient.to(argument.dtype)
