"""The device `ipu` while a model is traced, and calls that are no operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from poptorch._impl import createPoptorchError
from poptorch._logging import logger
from poptorch._trace.loss_functions import LOSS_FUNCTIONS, call_loss_function
from poptorch._trace.recorder import Recorder
from poptorch._trace.recording import tensors_in
from poptorch._trace.slice_bounds import has_traced_bounds, take_slices

IPU = torch.device("ipu", 0)
_META = torch.device("meta")
_ILLEGAL_MOVE = (
    'Illegal move to CPU (via `.to("cpu")`) when using the dispatcher. Instead, return this output '
    "as an IPU tensor."
)
# These make tensors of the values that they are given, which meta tensors cannot hold.
_OF_VALUES = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy)
# These make tensors of nothing else, on the device that they are told.
_FACTORIES = {
    getattr(torch, name): name
    for name in (
        "arange",
        "empty",
        "full",
        "linspace",
        "logspace",
        "normal",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "tensor",
        "zeros",
    )
}


def _is_traced(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "meta"


def _is_condition(index: Any) -> bool:
    return _is_traced(index) and index.dtype is torch.bool and index.dim() == 0


def _device_type(value: Any) -> str | None:
    """The type of device that an argument names, or None if it names none."""
    if isinstance(value, torch.device):
        return value.type
    if isinstance(value, str) and value.partition(":")[0] in ("ipu", "cpu", "meta"):
        return value.partition(":")[0]
    return None


def _lacks_device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call makes a tensor of no other one and names no device."""
    if func not in _FACTORIES or kwargs.get("device") is not None:
        return False
    return not any(True for _ in tensors_in((args, kwargs)))


class DeviceMode(TorchFunctionMode):
    """Shows traced tensors as tensors of the device `ipu`.

    Args:
        recorder: What records the operators.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        device_property: Any = torch.Tensor.device
        self._special: dict[Any, Callable[..., Any]] = {
            device_property.__get__: self._device,
            torch.Tensor.to: self._to,
            torch.Tensor.cpu: self._cpu,
            torch.Tensor.numpy: self._cpu,
            torch.Tensor.__array__: self._cpu,
            torch.Tensor.tolist: self._tolist,
            torch.Tensor.__repr__: self._repr,
            torch.Tensor.__format__: self._repr,
            torch.Tensor.__getitem__: self._indexed,
            torch.Tensor.__setitem__: self._indexed,
            torch.equal: self._equal,
            torch.Tensor.equal: self._equal,
            torch.Tensor.new_tensor: self._new_tensor,
            torch.take_along_dim: self._along_dim,
            torch.Tensor.take_along_dim: self._along_dim,
        }

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one function of torch.

        Args:
            func: The function.
            types: Not used.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            What the function returns.
        """
        del types
        kwargs = kwargs or {}
        # The getter is another object at each access: equality, not identity, finds it.
        if (special := self._special.get(func)) is not None:
            return special(func, *args, **kwargs)
        if _lacks_device(func, args, kwargs):
            logger.warning("No device set in torch.%s(): forcing to IPU", _FACTORIES[func])
            kwargs = {**kwargs, "device": _META}
        if func in _OF_VALUES:
            return self._of_values(func, args, kwargs)
        if _device_type(kwargs.get("device")) == "ipu":
            kwargs = {**kwargs, "device": _META}
        if func in LOSS_FUNCTIONS:
            loss = call_loss_function(func, args, kwargs)
            self._recorder.recording.mark_loss(loss)
            return loss
        return func(*args, **kwargs)

    def _device(self, func: Any, tensor: torch.Tensor, *rest: Any) -> torch.device:
        device: torch.device = func(tensor, *rest)
        return IPU if device.type == "meta" else device

    def _repr(self, func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> str:
        if not _is_traced(tensor):
            text: str = func(tensor, *args, **kwargs)
            return text
        return f"tensor(<unavailable>, device='ipu:0', size={tuple(tensor.shape)})"

    def _new_tensor(self, func: Any, tensor: torch.Tensor, data: Any, **kwargs: Any) -> Any:
        if not _is_traced(tensor):
            return func(tensor, data, **kwargs)
        kwargs["dtype"] = kwargs.get("dtype") or tensor.dtype
        return self._of_values(torch.tensor, (data,), kwargs)

    def _along_dim(
        self, func: Any, input: torch.Tensor, indices: torch.Tensor, dim: Any = None, **out: Any
    ) -> Any:
        # torch wants 64-bit indices, and the results of a program have 32 bits.
        return func(input, indices.long(), dim, **out)

    def _indexed(self, func: Any, tensor: torch.Tensor, index: Any, *value: Any) -> Any:
        if has_traced_bounds(index):
            if value:
                raise createPoptorchError(
                    "A slice with a traced bound cannot be written: use poptorch.dynamic_update"
                )
            if not _is_traced(tensor):
                tensor = self._recorder.constant_for(tensor)
            tensor, index = take_slices(self._recorder.recording, tensor, index)
        if _is_traced(tensor):
            index = self._index(index)
        if value and _is_condition(index):
            # Torch asks such an index for its value.
            return tensor.copy_(torch.where(index, value[0], tensor))
        return func(tensor, index, *value)

    def _index(self, index: Any) -> Any:
        """An index with tensors in place of lists and arrays, whose values torch would lose."""
        if isinstance(index, tuple):
            return tuple(self._index(one) for one in index)
        if isinstance(index, np.ndarray) or (
            isinstance(index, list) and not any(True for _ in tensors_in(index))
        ):
            data = torch.as_tensor(index, device=torch.device("cpu"))
            return self._recorder.constant_for(data)
        return index

    def _equal(self, func: Any, tensor: torch.Tensor, other: torch.Tensor) -> Any:
        """A traced boolean: a program does not know the values that Python's would depend on."""
        if not _is_traced(tensor) and not _is_traced(other):
            return func(tensor, other)
        if tensor.shape != other.shape:
            return self._recorder.constant_for(torch.tensor(False, device=torch.device("cpu")))
        return torch.all(torch.eq(tensor, other))

    def _cpu(self, func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if _is_traced(tensor):
            raise createPoptorchError(_ILLEGAL_MOVE)
        return func(tensor, *args, **kwargs)

    def _tolist(self, func: Any, tensor: torch.Tensor) -> Any:
        if not _is_traced(tensor):
            return func(tensor)
        if tensor.dim() == 0:
            return tensor.item()
        return [self._tolist(func, row) for row in tensor.unbind(0)]

    def _to(self, func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        types = [_device_type(value) for value in (*args, kwargs.get("device"))]
        if "cpu" in types and _is_traced(tensor):
            raise createPoptorchError(_ILLEGAL_MOVE)
        to_device = "ipu" in types or "meta" in types or any(_is_traced(arg) for arg in args)
        if not to_device:
            return func(tensor, *args, **kwargs)
        if not _is_traced(tensor):
            tensor = self._recorder.constant_for(tensor)
        args = tuple(_META if _device_type(value) == "ipu" else value for value in args)
        if _device_type(kwargs.get("device")) == "ipu":
            kwargs = {**kwargs, "device": _META}
        return func(tensor, *args, **kwargs)

    def _of_values(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is torch.from_numpy:
            return func(*args, **kwargs)
        if args and _is_traced(args[0]):
            return func(*args, **{**kwargs, "device": _META})
        device = kwargs.get("device")
        data = func(*args, **{**kwargs, "device": torch.device("cpu")})
        if device is not None and _device_type(device) == "cpu":
            return data
        return self._recorder.constant_for(data)
