"""Modules that are wrapped for training: their weights come from the device when they are read."""

from __future__ import annotations

import contextlib
import copy
import weakref
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from poptorch._file_tensors import clone
from poptorch._impl import createPoptorchError, register_wrapper_functions
from poptorch._private_torch import plain_functions
from poptorch._wrapped_tensors import (
    ORIGINAL_CLASS,
    Trainer,
    WrappedTensor,
    unwrap_tensor,
    wrap_tensor,
)

_EXECUTOR = "_poptorch_executor"
_LAST_EXECUTOR = "_poptorch_last_executor"
_VERSION = "_host_weights_version"
_OBSERVING = frozenset(("_parameters", "_buffers", "forward", "parameters", "named_parameters"))


def executor_of(module: torch.nn.Module) -> Trainer | None:
    """Find the executor that trains a module.

    Args:
        module: The module.

    Returns:
        The executor, or None where it is not wrapped or the executor is gone.
    """
    reference = object.__getattribute__(module, "__dict__").get(_EXECUTOR)
    return None if reference is None else reference()


def sync_from_device(module: torch.nn.Module) -> None:
    """Bring the weights of a module from the device if they are newer there.

    Args:
        module: A module; of one that is not wrapped for training nothing is newer.
    """
    executor = executor_of(module)
    if executor is not None:
        executor.copyWeightsToHostIfNeeded()


def host_weights_version(module: torch.nn.Module) -> int:
    """Count how often training brought weights of a module from the device.

    Args:
        module: The module.

    Returns:
        The number, of all executors that trained the module one after another.
    """
    version: int = object.__getattribute__(module, "__dict__").get(_VERSION, 0)
    return version


def count_host_weights(module: torch.nn.Module) -> None:
    """Note that training brought weights of a module from the device.

    Args:
        module: The module.
    """
    object.__getattribute__(module, "__dict__")[_VERSION] = host_weights_version(module) + 1


class _WrappedModule(torch.nn.Module):
    """What the training wrapper adds to the class of the user's module."""

    def __getattribute__(self, name: str) -> Any:
        if name in _OBSERVING:
            sync_from_device(self)
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
        # That passes over a module without a program, and of one whose executor is gone.
        unwrap(self, executor)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state of the module as plain tensors of torch.

        Args:
            *args: As for `torch.nn.Module.state_dict`.
            **kwargs: As for `torch.nn.Module.state_dict`.

        Returns:
            Its tensors by name, with the values of the device; tensors that are one in the module
            are one in the result.
        """
        sync_from_device(self)
        given = kwargs.get("destination", args[0] if args else None)
        before = {} if given is None else dict(given)
        prefix = kwargs.get("prefix", args[1] if len(args) > 1 else "")
        state = super().state_dict(*args, **kwargs)
        held = {prefix + name: id(tensor) for name, tensor in _named_tensors(self)}
        copies: dict[int | str, torch.Tensor] = {}
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and value is not before.get(name):
                one = held.get(name, name)
                if one not in copies:
                    copies[one] = clone(torch.Tensor.as_subclass(value.detach(), torch.Tensor))
                state[name] = copies[one]
        return state

    def __reduce_ex__(self, protocol: Any) -> Any:
        del protocol
        sync_from_device(self)
        # From protocol 2 on, pickle refuses objects that name another class than their own.
        return _unwrapped_copy(self).__reduce_ex__(1)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        sync_from_device(self)
        wrapper = type(self)
        original = getattr(wrapper, ORIGINAL_CLASS)
        # As itself, not as a copy: parts of the module may refer to it.
        self.__class__ = original
        try:
            made = copy.deepcopy(self, memo)
        finally:
            self.__class__ = wrapper
        if type(made) is original:
            # Nothing trains the copy, which can be wrapped for that itself.
            made.__dict__.pop(_EXECUTOR, None)
            made.__class__ = wrapper
        return made


def _named_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers by all names that a module has for them."""
    yield from torch.nn.Module.named_parameters(module, remove_duplicate=False)
    yield from torch.nn.Module.named_buffers(module, remove_duplicate=False)


def _unwrapped_copy(module: torch.nn.Module) -> torch.nn.Module:
    """A shallow copy of the class that the user wrote."""
    original = getattr(type(module), ORIGINAL_CLASS)
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


def modes_of(module: torch.nn.Module) -> dict[str, bool]:
    """Say which modules are in training mode.

    Args:
        module: A module.

    Returns:
        Whether it is, and all modules in it are, by name.
    """
    return {name: part.training for name, part in module.named_modules()}


@contextlib.contextmanager
def in_modes(module: torch.nn.Module, modes: Mapping[str, bool]) -> Iterator[None]:
    """Let modules be in training mode, or not, for a while.

    Args:
        module: A module.
        modes: What `modes_of` gave for an equal one; others keep their modes.

    Yields:
        None.
    """
    parts = dict(module.named_modules())
    before = modes_of(module)
    try:
        for name in modes.keys() & before.keys():
            parts[name].training = modes[name]
        yield
    finally:
        for name, mode in before.items():
            parts[name].training = mode


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
        names: The names of the tensors that the program has.
        per_replica: Those of them whose shape may become another one when they are read.
        fixed: Whether no member may be replaced, as in training.
    """

    def __init__(
        self,
        module: torch.nn.Module | None = None,
        names: Collection[str] = (),
        per_replica: Collection[str] = (),
        fixed: bool = False,
    ) -> None:
        self._fixed = [
            (members, path, name, member)
            for path, owner in (module.named_modules() if module is not None and fixed else ())
            for members in (owner._parameters, owner._buffers, owner._modules)
            for name, member in members.items()
        ]
        tensors = {} if module is None else tensors_of(module, names)
        # Wrapped tensors would ask for newer values.
        with plain_functions():
            self._kinds = {
                name: (tensor.dtype, None if name in per_replica else tensor.shape)
                for name, tensor in tensors.items()
            }
        self.tensors = tensors if fixed else {}

    def check(self) -> None:
        """Check that none that is fixed was replaced, removed or changed in dtype or shape.

        Raises:
            Error: One was, which the program would not see.
        """
        for members, path, name, member in self._fixed:
            if members.get(name) is not member:
                raise _changed(f"{path}.{name}" if path else name, "replaced or removed")
        if self._fixed:
            self.check_tensors(self.tensors)

    def check_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Check that tensors have the dtypes and shapes that the program was made for.

        Args:
            tensors: Those that the module has now, by name.

        Raises:
            Error: One is missing, or has another dtype or shape.
        """
        with plain_functions():
            for name, (dtype, shape) in self._kinds.items():
                tensor = tensors.get(name)
                if tensor is None:
                    raise _changed(name, "removed")
                if tensor.dtype is not dtype or (shape is not None and tensor.shape != shape):
                    wanted = f"{dtype} {list(tensor.shape if shape is None else shape)}"
                    given = f"{tensor.dtype} {list(tensor.shape)}"
                    raise _changed(name, f"changed from {wanted} to {given}")


def _changed(name: str, how: str) -> Exception:
    return createPoptorchError(
        f"{name} was {how} after the model was compiled; the program goes on with the one before. "
        "Copy into a parameter to change it, such as parameter.data.copy_(new), or call destroy() "
        "and wrap the module again, with an optimizer of its parameters"
    )


def tensors_of(module: torch.nn.Module, names: Collection[str]) -> dict[str, torch.Tensor]:
    """Find parameters and buffers of a module.

    Args:
        module: The module.
        names: Their names, some of which it may not have.

    Returns:
        Those that it has, in the order of the names.
    """
    found = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: found[name] for name in names if name in found}


def check_may_be_wrapped(module: torch.nn.Module, executor: Trainer | None = None) -> None:
    """Check that a module is not wrapped for training by another executor.

    Args:
        module: The user's module.
        executor: What will train it; None: one that is made for that.

    Raises:
        RuntimeError: It is.
    """
    if executor_of(module) not in (None, executor):
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on "
            "the model to unwrap before wrapping again."
        )


def wrap_for_training(module: torch.nn.Module, executor: Trainer) -> None:
    """Change the classes of a module and its tensors to those that read the device.

    Args:
        module: The user's module; of one that is wrapped already, new tensors are wrapped.
        executor: What trains it. The module does not keep it alive.

    Raises:
        Error: A buffer is of another class than torch.Tensor.
    """
    for buffer in module.buffers():
        if type(buffer) is not torch.Tensor and not isinstance(buffer, WrappedTensor):
            raise createPoptorchError(
                f"All buffers must be an instance of torch.Tensor (Got {type(buffer)})"
            )
    if not is_wrapped(module):
        original = type(module)
        module.__class__ = type(
            f"Poptorch{original.__name__}",
            (_WrappedModule, original),
            {ORIGINAL_CLASS: original, "__module__": original.__module__},
        )
    object.__getattribute__(module, "__dict__")[_EXECUTOR] = weakref.ref(executor)
    for parameter in torch.nn.Module.parameters(module):
        # One without values yet becomes a plain parameter when it gets them.
        if issubclass(type(parameter), torch.nn.Parameter) and not is_lazy(parameter):
            wrap_tensor(parameter, executor)
    for buffer in torch.nn.Module.buffers(module):
        wrap_tensor(buffer, executor)


def unwrap(module: torch.nn.Module, executor: Trainer | None) -> None:
    """Give a module and its tensors their own classes back.

    Args:
        module: A module; one that is not wrapped stays as it is.
        executor: What trained it; None: that is gone. Tensors that another trains stay wrapped.
    """
    if not is_wrapped(module):
        return
    module.__class__ = getattr(type(module), ORIGINAL_CLASS)
    module.__dict__.pop(_EXECUTOR, None)
    for tensor in (*module.parameters(), *module.buffers()):
        unwrap_tensor(tensor, executor)


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
        unwrap(model, executor)
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
