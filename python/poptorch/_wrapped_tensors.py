"""Parameters and buffers of modules that are wrapped for training: reading them asks the device."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

import torch

from poptorch._trace.recording import tensors_in

_EXECUTORS = "_poptorch_executors"
# What a class that is made for wrapping calls the class that the user wrote.
ORIGINAL_CLASS = "_poptorch_original_class"


class Trainer(Protocol):
    """What trains a module."""

    _last_run: int

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Bring newer weights from the device.

        Returns:
            Whether there were any.
        """
        ...

    def destroy(self) -> None:
        """Give up the program."""
        ...


def bring_up_to_date(trainers: Iterable[Trainer]) -> None:
    """Bring newer weights of modules from the device.

    Args:
        trainers: What trains the modules. Weights that several train are those of the last run.
    """
    for trainer in sorted(trainers, key=lambda one: one._last_run):
        trainer.copyWeightsToHostIfNeeded()


def _attributes(tensor: Any) -> dict[str, Any]:
    found: dict[str, Any] = object.__getattribute__(tensor, "__dict__")
    return found


def _trainers_of(tensor: Any, apart_from: Trainer | None = None) -> list[Trainer]:
    references: tuple[weakref.ref[Trainer], ...] = _attributes(tensor).get(_EXECUTORS, ())
    trainers = (reference() for reference in references)
    return [one for one in trainers if one is not None and one is not apart_from]


class WrappedTensor:
    """A tensor whose values may be newer on the device."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Bring the values from the device, then run a function of torch.

        Args:
            func: The function.
            types: The classes of its tensors.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            What it returns.
        """
        bring_up_to_date(
            {
                id(trainer): trainer
                for tensor in tensors_in((args, kwargs))
                if isinstance(tensor, WrappedTensor)
                for trainer in _trainers_of(tensor)
            }.values()
        )
        # Results of buffers are plain tensors too, which torch.Tensor's own function would prevent.
        parent: Any = super() if issubclass(cls, torch.nn.Parameter) else torch.nn.Parameter
        return parent.__torch_function__(func, types, args, kwargs or {})

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain: Any = _plain_tensor(self)
        return plain.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # Nothing trains the copy, until a module that has it is wrapped.
        made: Any = copy.deepcopy(_plain_tensor(self), memo)
        made.__class__ = type(self)
        return made


@functools.cache
def _wrapper_class(original: type) -> Any:
    kind = "Parameter" if issubclass(original, torch.nn.Parameter) else "Buffer"
    return type(f"Poptorch{kind}", (WrappedTensor, original), {ORIGINAL_CLASS: original})


def _plain_tensor(tensor: Any) -> torch.Tensor:
    """The newest values, sharing memory with the tensor, in the class that the user wrote."""
    bring_up_to_date(_trainers_of(tensor))
    data = torch.Tensor.detach(torch.Tensor.as_subclass(tensor, torch.Tensor))
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    plain = torch.nn.Parameter(data, tensor.requires_grad) if is_parameter else data
    plain.__class__ = getattr(type(tensor), ORIGINAL_CLASS)
    attributes = _attributes(tensor).items()
    plain.__dict__.update({name: value for name, value in attributes if name != _EXECUTORS})
    return plain


def wrap_tensor(tensor: Any, trainer: Trainer) -> None:
    """Let functions of torch that read a tensor ask for newer values before.

    Args:
        tensor: A parameter or a buffer, which others may train too.
        trainer: What is asked. The tensor does not keep it alive.
    """
    if not isinstance(tensor, WrappedTensor):
        original: Any = type(tensor)
        tensor.__class__ = _wrapper_class(original)
    trainers = (*_trainers_of(tensor, apart_from=trainer), trainer)
    _attributes(tensor)[_EXECUTORS] = tuple(map(weakref.ref, trainers))


def unwrap_tensor(tensor: Any, trainer: Trainer | None) -> None:
    """Undo `wrap_tensor`.

    Args:
        tensor: A parameter or a buffer; one that is not wrapped stays as it is.
        trainer: What is not asked any longer; None: whatever there was is gone.
    """
    if not isinstance(tensor, WrappedTensor):
        return
    others = _trainers_of(tensor, apart_from=trainer)
    if others:
        _attributes(tensor)[_EXECUTORS] = tuple(map(weakref.ref, others))
        return
    tensor.__class__ = getattr(type(tensor), ORIGINAL_CLASS)
    _attributes(tensor).pop(_EXECUTORS, None)
