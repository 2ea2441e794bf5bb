"""Modules that are wrapped for training: their weights come from the device when they are read."""

from __future__ import annotations

import copy
import weakref
from typing import Any, Protocol

import torch

from poptorch._file_tensors import clone
from poptorch._impl import createPoptorchError, register_wrapper_functions

_EXECUTOR = "_poptorch_executor"
_ORIGINAL_CLASS = "_poptorch_original_class"
_LAST_EXECUTOR = "_poptorch_last_executor"
_OBSERVING = frozenset(("_parameters", "_buffers", "forward", "parameters", "named_parameters"))


class Trainer(Protocol):
    """What trains a module."""

    _host_weights_version: int

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Bring newer weights from the device.

        Returns:
            Whether there were any.
        """
        ...

    def destroy(self) -> None:
        """Give up the program."""
        ...


def executor_of(value: Any) -> Trainer | None:
    """Find the executor that trains a module or a tensor of one.

    Args:
        value: A module, a parameter or a buffer.

    Returns:
        The executor, or None where it is not wrapped or the executor is gone.
    """
    try:
        reference = object.__getattribute__(value, "__dict__").get(_EXECUTOR)
    except AttributeError:
        return None
    return None if reference is None else reference()


def _bring_up_to_date(value: Any) -> None:
    executor = executor_of(value)
    if executor is not None:
        executor.copyWeightsToHostIfNeeded()


class _WrappedTensor:
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
        for value in args:
            if isinstance(value, _WrappedTensor):
                _bring_up_to_date(value)
        run: Any = torch.nn.Parameter.__torch_function__
        return run(func, types, args, kwargs or {})

    def __reduce_ex__(self, protocol: Any) -> Any:
        _bring_up_to_date(self)
        plain: Any = _plain_tensor(self)
        return plain.__reduce_ex__(protocol)


class PoptorchParameter(_WrappedTensor, torch.nn.Parameter):
    """A parameter of a module that is wrapped for training."""


class PoptorchBuffer(_WrappedTensor, torch.Tensor):
    """A buffer of a module that is wrapped for training."""


def _plain_tensor(tensor: Any) -> torch.Tensor:
    """The tensor, sharing its memory, without the class that reads the device."""
    data = torch.Tensor.detach(torch.Tensor.as_subclass(tensor, torch.Tensor))
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(data, tensor.requires_grad)
    return data


class _WrappedModule(torch.nn.Module):
    """What the training wrapper adds to the class of the user's module."""

    def __getattribute__(self, name: str) -> Any:
        if name in _OBSERVING:
            _bring_up_to_date(self)
        return super().__getattribute__(name)

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Bring newer weights from the device.

        Returns:
            Whether there were any.
        """
        executor = executor_of(self)
        return executor is not None and executor.copyWeightsToHostIfNeeded()

    def destroy(self) -> None:
        """Bring the weights from the device and take the wrapper away."""
        executor = executor_of(self)
        if executor is not None:
            executor.destroy()

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state of the module as plain tensors of torch.

        Args:
            *args: As for `torch.nn.Module.state_dict`.
            **kwargs: As for `torch.nn.Module.state_dict`.

        Returns:
            Its tensors by name, with the values of the device; tensors that are one in the module
            are one in the result.
        """
        _bring_up_to_date(self)
        state = super().state_dict(*args, **kwargs)
        plain: dict[int, torch.Tensor] = {}
        held = {t.data_ptr(): t for t in (*self.parameters(), *self.buffers())}
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                key = value.data_ptr() if value.data_ptr() in held else id(value)
                state[name] = plain.setdefault(key, clone(_as_torch(value)))
        return state

    def __reduce_ex__(self, protocol: Any) -> Any:
        del protocol
        _bring_up_to_date(self)
        # From protocol 2 on, pickle refuses objects that name another class than their own.
        return _unwrapped_copy(self).__reduce_ex__(1)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(_unwrapped_copy(self), memo)


def _as_torch(value: torch.Tensor) -> torch.Tensor:
    return torch.Tensor.as_subclass(value.detach(), torch.Tensor)


def _unwrapped_copy(module: torch.nn.Module) -> torch.nn.Module:
    """A shallow copy of the class that the user wrote."""
    original = getattr(type(module), _ORIGINAL_CLASS)
    made: torch.nn.Module = original.__new__(original)
    state = dict(object.__getattribute__(module, "__dict__"))
    state.pop(_EXECUTOR, None)
    made.__dict__.update(state)
    return made


def shallow_copy(module: torch.nn.Module) -> torch.nn.Module:
    """Copy a module so that parameters, buffers and sub-modules are shared.

    Args:
        module: A module, perhaps wrapped.

    Returns:
        A module of the class that the user wrote.
    """
    if is_wrapped(module):
        return _unwrapped_copy(module)
    return copy.copy(module)


def is_wrapped(module: torch.nn.Module) -> bool:
    """Whether a module is wrapped for training.

    Args:
        module: The module.

    Returns:
        Whether it is.
    """
    return isinstance(module, _WrappedModule)


class Members:
    """The parameters, buffers and sub-modules that a program was made of.

    Args:
        module: The module, as it is now; None: one without any.
    """

    def __init__(self, module: torch.nn.Module | None) -> None:
        self._members = [
            (members, path, name, member)
            for path, owner in (() if module is None else module.named_modules())
            for members in (owner._parameters, owner._buffers, owner._modules)
            for name, member in members.items()
        ]

    def check(self) -> None:
        """Check that none was replaced or removed, which the program would not see.

        Raises:
            Error: One was.
        """
        for members, path, name, member in self._members:
            if members.get(name) is not member:
                full = f"{path}.{name}" if path else name
                raise createPoptorchError(
                    f"{full} was replaced or removed after the model was compiled; the program "
                    "goes on with the one before. Copy into a parameter to change it, such as "
                    "parameter.data.copy_(new), or call destroy() and wrap the module again, with "
                    "an optimizer of its parameters"
                )


def wrap_for_training(module: torch.nn.Module, executor: Trainer) -> None:
    """Change the classes of a module and its tensors to those that read the device.

    Args:
        module: The user's module.
        executor: What trains it. The module does not keep it alive.

    Raises:
        Error: A buffer is of another class than torch.Tensor.
    """
    for buffer in module.buffers():
        if type(buffer) not in (torch.Tensor, PoptorchBuffer):
            raise createPoptorchError(
                f"All buffers must be an instance of torch.Tensor (Got {type(buffer)})"
            )
    reference = weakref.ref(executor)
    original = type(module)
    module.__class__ = type(
        f"Poptorch{original.__name__}",
        (_WrappedModule, original),
        {_ORIGINAL_CLASS: original, "__module__": original.__module__},
    )
    object.__getattribute__(module, "__dict__")[_EXECUTOR] = reference
    for parameter in torch.nn.Module.parameters(module):
        if type(parameter) is torch.nn.Parameter:
            parameter.__class__ = PoptorchParameter
            setattr(parameter, _EXECUTOR, reference)
    for buffer in torch.nn.Module.buffers(module):
        buffer.__class__ = PoptorchBuffer
        setattr(buffer, _EXECUTOR, reference)


def unwrap(module: torch.nn.Module) -> None:
    """Give a module and its tensors their own classes back.

    Args:
        module: A wrapped module.
    """
    if not is_wrapped(module):
        return
    module.__class__ = getattr(type(module), _ORIGINAL_CLASS)
    module.__dict__.pop(_EXECUTOR, None)
    for parameter in module.parameters():
        if type(parameter) is PoptorchParameter:
            parameter.__class__ = torch.nn.Parameter  # type: ignore[assignment]
            parameter.__dict__.pop(_EXECUTOR, None)
    for buffer in module.buffers():
        if type(buffer) is PoptorchBuffer:
            buffer.__class__ = torch.Tensor  # type: ignore[assignment]
            buffer.__dict__.pop(_EXECUTOR, None)


class _WrapperFunctions:
    """Wrappers for a while off, as programs ask for that."""

    def unwrap(self, model: torch.nn.Module) -> None:
        """Take the wrapper off a module, whose weights are those of the device then.

        Args:
            model: A module.
        """
        executor = executor_of(model)
        if not is_wrapped(model) or executor is None:
            return
        executor.copyWeightsToHostIfNeeded()
        unwrap(model)
        model.__dict__[_LAST_EXECUTOR] = weakref.ref(executor)

    def rewrap(self, model: torch.nn.Module) -> None:
        """Put the wrapper back on a module that `unwrap` took it off.

        Args:
            model: A module.
        """
        reference = model.__dict__.pop(_LAST_EXECUTOR, None)
        executor = None if reference is None else reference()
        if executor is not None:
            wrap_for_training(model, executor)


register_wrapper_functions(_WrapperFunctions())
