"""`torch.autograd.Function` and `torch.utils.checkpoint` while a model is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch.autograd.function import FunctionCtx
from torch.utils.checkpoint import CheckpointFunction

from poptorch._logging import logger
from poptorch._trace.recording import tensors_in

# What Function.apply calls, also where programs keep `apply` of their class in a name.
_BASE: Any = torch.autograd.Function.__bases__[0]


@contextmanager
def differentiated_bodies(training: bool) -> Iterator[None]:
    """Let the ops in bodies of `autograd.Function` be differentiated inside.

    Their own backward is not used: the gradient is that of the ops in forward. Checkpoints call
    their function once, as any other function.

    Args:
        training: Whether to warn of each class whose backward would be asked.

    Yields:
        Nothing.
    """
    warned: set[Any] = set()

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(tensor.is_meta for tensor in tensors_in((args, kwargs))):
            return super(_BASE, cls).apply(*args, **kwargs)
        if cls is CheckpointFunction:
            function, _, *rest = args
            return function(*rest)
        if training and cls not in warned and any(t.requires_grad for t in tensors_in(args)):
            warned.add(cls)
            logger.warning(
                "torch.autograd.Function %s: its backward is not used in a program; the gradient "
                "is that of the operators of its forward",
                cls.__qualname__,
            )
        return _call(cls, args, kwargs)

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


def _call(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls forward of a function with gradients on."""
    context: Any = FunctionCtx()
    context.needs_input_grad = tuple(
        isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args
    )
    if cls.setup_context is torch.autograd.Function.setup_context:
        results = cls.forward(context, *args, **kwargs)
    else:
        results = cls.forward(*args, **kwargs)
        cls.setup_context(context, args, results)
    plain = getattr(context, "non_differentiable", ())

    def returned(value: Any) -> Any:
        is_plain = isinstance(value, torch.Tensor) and any(value is one for one in plain)
        return value.detach() if is_plain else value

    if isinstance(results, tuple):
        return tuple(returned(value) for value in results)
    return returned(results)
