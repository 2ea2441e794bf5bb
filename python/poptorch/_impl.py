"""What several modules and programs ask of the tracer: whether it works, errors, casts."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import torch

from poptorch._errors import Error

_is_tracing = False


def createPoptorchError(msg: str) -> Error:
    """Make the exception for an error that this package found.

    Args:
        msg: What is wrong.

    Returns:
        The exception, of type `poptorch_py_error`, not raised.
    """
    kind = "poptorch_py_error"
    return Error(f"'{kind}': {msg}", message=msg, type=kind)


def isDispatchTracing() -> bool:
    """Tell whether a module is being traced.

    Returns:
        True between the begin and the end of a trace.
    """
    return _is_tracing


def set_dispatch_tracing(is_tracing: bool) -> None:
    """Note that a trace begins or ends; only the tracer calls this.

    Args:
        is_tracing: Whether a module is traced from now on.
    """
    global _is_tracing
    _is_tracing = is_tracing


def isRunningOnIpu() -> bool:
    """Tell whether a module is being traced for the device, so that it can choose what to do.

    Returns:
        True inside `compile` or the first call of an executor; False on the CPU.
    """
    return _is_tracing


def getIpuTensorId(t: torch.Tensor) -> int:
    """Identify a tensor of the model that is being traced.

    Args:
        t: The tensor.

    Returns:
        A number that no other tensor has in this trace.

    Raises:
        Error: No model is being traced, or it is a tensor of the CPU.
    """
    if not _is_tracing or t.device.type == "cpu":
        raise createPoptorchError(
            "getIpuTensorId: wanted a tensor of a model that is being traced; given one of shape "
            f"{list(t.shape)} on {t.device}. Call it in forward, on tensors of the device"
        )
    return id(t)


_CASTS = {torch.float32: "FLOAT", torch.float16: "FLOAT16"}


def internal_cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Cast a tensor on the device.

    Args:
        tensor: The tensor, of any shape.
        dtype: torch.float or torch.half.

    Returns:
        In a trace a tensor of the same shape and of `dtype`; on the CPU `tensor` itself.

    Raises:
        ValueError: Another dtype.
    """
    if dtype not in _CASTS:
        raise ValueError(
            "Invalid poptorch.cast target type. Expecting torch.float or torch.half"
            f" (given {dtype})"
        )
    result: torch.Tensor = torch.ops.poptorch.internal_cast(tensor, _CASTS[dtype])
    return result


class WrapperFunctions(Protocol):
    """What takes the classes of a training wrapper off a module, and puts them back."""

    def unwrap(self, model: torch.nn.Module) -> None:
        """Take them off.

        Args:
            model: The module.
        """
        ...

    def rewrap(self, model: torch.nn.Module) -> None:
        """Put them back.

        Args:
            model: The module.
        """
        ...


_wrappers: list[WrapperFunctions] = []


def register_wrapper_functions(functions: WrapperFunctions) -> None:
    """Say what wraps modules; only the module of wrappers calls this.

    Args:
        functions: What does it.
    """
    _wrappers[:] = [functions]


def unwrapModelIfNecessary(model: torch.nn.Module) -> torch.nn.Module:
    """Give a module that is wrapped for training, and its tensors, their own classes.

    Args:
        model: A module; one that is not wrapped stays as it is.

    Returns:
        The module itself, with the weights of the device.
    """
    for functions in _wrappers:
        functions.unwrap(model)
    return model


def rewrapModelIfNecessary(model: torch.nn.Module) -> torch.nn.Module:
    """Undo `unwrapModelIfNecessary`.

    Args:
        model: A module; one that was not unwrapped stays as it is.

    Returns:
        The module itself.
    """
    for functions in _wrappers:
        functions.rewrap(model)
    return model


# Programs call it so for what another library made of a module.
_restoreWrapperIfNecessary = rewrapModelIfNecessary  # noqa: N816


class SubstitutionManager(Protocol):
    """Something that replaces names while a module is traced."""

    def replace(self) -> None:
        """Put the replacements in place."""
        ...

    def restore(self) -> None:
        """Put back what was there."""
        ...


class _OverwriteContextManager:
    """A trace of a module: what registered managers replace is replaced inside.

    Programs register classes of managers, which are made at each entry.
    """

    _manager_types: ClassVar[list[type[SubstitutionManager]]] = []

    def __init__(self) -> None:
        self._managers: list[SubstitutionManager] = []

    # Spelt so by the programs that call it.
    @classmethod
    def registerSubsitutionManager(cls, manager_type: type[SubstitutionManager]) -> None:
        """Add a class of managers.

        Args:
            manager_type: A class with `replace()` and `restore()`.

        Raises:
            TypeError: It is no such class.
        """
        for name in ("replace", "restore"):
            if not isinstance(manager_type, type) or not callable(
                getattr(manager_type, name, None)
            ):
                raise TypeError(
                    "registerSubsitutionManager: wanted a class with the methods replace() and "
                    f"restore(); given {manager_type!r}"
                )
        cls._manager_types.append(manager_type)

    def __enter__(self) -> _OverwriteContextManager:
        try:
            for manager_type in self._manager_types:
                manager = manager_type()
                manager.replace()
                self._managers.append(manager)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, *exception: Any) -> None:
        self._restore()

    def _restore(self) -> None:
        """The last replacement first; one that fails does not keep the others in place."""
        if self._managers:
            try:
                self._managers.pop().restore()
            finally:
                self._restore()
