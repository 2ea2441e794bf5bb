"""What the optimizers of poptorch have besides those of torch."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import torch

# Tensors of the host by name.
NamedTensors: TypeAlias = dict[str, torch.Tensor]

ACCUMULATION_TYPES = "either torch.float32 or torch.float16"


class VariableAttributes:
    """Which attributes of an optimizer may change after compilation.

    A constant attribute is part of the compiled program; a variable one is a number in the memory
    of the device, which `PoplarExecutor.setOptimizer` writes. Marks count until compilation.

    Args:
        variable: The attributes that are variable at first.
        allowed: All attributes.
    """

    def __init__(self, variable: Iterable[str], allowed: Iterable[str]) -> None:
        self._allowed = frozenset(allowed)
        self._variable = set(variable) & self._allowed

    def _check(self, attr: str) -> None:
        assert attr in self._allowed, (
            f"Unknown attribute '{attr}': the attributes of this optimizer are "
            f"{', '.join(sorted(self._allowed))}"
        )

    def isConstant(self, attr: str) -> bool:
        """Tell whether an attribute is compiled in.

        Args:
            attr: The name of the attribute.

        Returns:
            Whether it is constant.

        Raises:
            AssertionError: The optimizer has no such attribute.
        """
        self._check(attr)
        return attr not in self._variable

    def markAsConstant(self, attr: str) -> None:
        """Let an attribute be compiled in.

        Args:
            attr: The name of the attribute.

        Raises:
            AssertionError: The optimizer has no such attribute.
        """
        self._check(attr)
        self._variable.discard(attr)

    def markAsVariable(self, attr: str) -> None:
        """Let an attribute be a number that can change between runs.

        Args:
            attr: The name of the attribute.

        Raises:
            AssertionError: The optimizer has no such attribute.
        """
        self._check(attr)
        self._variable.add(attr)


def given_arguments(**arguments: Any) -> dict[str, Any]:
    """Drop the arguments that are None, so that torch's defaults apply.

    Args:
        **arguments: Arguments by name.

    Returns:
        Those that are not None.
    """
    return {name: value for name, value in arguments.items() if value is not None}


def torch_arguments(
    kind: type[torch.optim.Optimizer], given: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Select the arguments for the constructor of an optimizer of torch.

    Args:
        kind: The optimizer of torch.
        given: Arguments of poptorch's constructor; those that this torch lacks are left out.
        more: Further keyword arguments of the caller, which must be torch's.

    Returns:
        The arguments by name.

    Raises:
        TypeError: This torch has no such argument.
    """
    known = inspect.signature(kind.__init__).parameters
    for name in more:
        if name not in known:
            raise TypeError(
                f"{kind.__name__}: unexpected argument '{name}': torch {torch.__version__} has "
                f"{', '.join(list(known)[2:])}"
            )
    return {**{name: value for name, value in given.items() if name in known}, **more}


def accumulation_type(value: torch.dtype | None, text: str = ACCUMULATION_TYPES) -> torch.dtype:
    """Check the type in which something of an optimizer is kept.

    Args:
        value: The type; None: float32.
        text: What the message says is possible.

    Returns:
        The type.

    Raises:
        AssertionError: It is neither float32 nor float16.
    """
    if value is None:
        return torch.float32
    assert value in (torch.float32, torch.float16), f"Accumulation types must be {text}"
    return value


def moment_types(
    gradient: torch.dtype | None,
    first: torch.dtype | None,
    second: torch.dtype | None,
    text: str = ACCUMULATION_TYPES,
) -> dict[str, torch.dtype]:
    """Check the types in which an optimizer with moments keeps things.

    Args:
        gradient: The type of the accumulated gradient; None: float32.
        first: The type of the first moment.
        second: The type of the second moment.
        text: What the message says is possible.

    Returns:
        The types by the names of the attributes.

    Raises:
        AssertionError: One is neither float32 nor float16.
    """
    return {
        "accum_type": accumulation_type(gradient, text),
        "first_order_momentum_accum_type": accumulation_type(first, text),
        "second_order_momentum_accum_type": accumulation_type(second, text),
    }


class Optimizer(torch.optim.Optimizer):
    """The base of the optimizers of poptorch.

    `step` is that of torch, for training without poptorch. A training executor does not call it: it
    reads the attributes of the optimizer, and its program has an update rule of its own, whose
    state lies on the device. `state_dict` and `load_state_dict` read and write that state.

    Attributes:
        variable_attrs: Which attributes may change after compilation.
        ipu_state_is_dirty: Whether the device has newer state than the host.
        host_state_is_dirty: Whether the host has state that the device has yet to get.
    """

    variable_attrs: VariableAttributes
    ipu_state_is_dirty: bool
    host_state_is_dirty: bool
    # What torch does not know and pickles must keep.
    _own_attributes: tuple[str, ...] = ()

    def _begin(
        self, own: Mapping[str, Any], variable: Iterable[str], others: Iterable[str] = ()
    ) -> None:
        """Takes what torch's constructor did not: called at the end of constructors. `others`: of
        attributes that are in neither."""
        self.__dict__.update(own)
        self._own_attributes = tuple(own)
        self.variable_attrs = VariableAttributes(variable, [*self.defaults, *own, *others])
        self._device_state: dict[str, NamedTensors] = {}
        self.ipu_state_is_dirty = False
        self.host_state_is_dirty = False
        self._read_device: Callable[[], Callable[[], None] | None] | None = None

    def _add_group_default(self, name: str, value: Any) -> None:
        """A setting of groups that torch does not know."""
        self.defaults[name] = value
        for group in self.param_groups:
            group.setdefault(name, value)

    def connect(self, read_device: Callable[[], None]) -> None:
        """Let an executor bring its state when it is asked for.

        Args:
            read_device: A method, held weakly, that calls `set_state_dict` with the newest state if
                `ipu_state_is_dirty`.
        """
        self._read_device = weakref.WeakMethod(read_device)

    def disconnect(self) -> None:
        """Forget the executor; the state that was read last stays."""
        self._read_device = None

    def set_state_dict(self, state: Mapping[str, NamedTensors]) -> None:
        """Take device state.

        Args:
            state: `ipu_state` and `ipu_param`, tensors by name.
        """
        self._device_state = dict(state)

    def get_state_dict(self) -> dict[str, NamedTensors]:
        """Give the device state that the host has, without asking the device.

        Returns:
            `ipu_state` and `ipu_param`, tensors by name; empty if there is none.
        """
        return self._device_state

    def has_state(self) -> bool:
        """Tell whether the host has device state.

        Returns:
            Whether it has.
        """
        return bool(self._device_state)

    def _newest_state(self) -> dict[str, NamedTensors]:
        read = self._read_device() if self._read_device is not None else None
        if read is not None:
            read()
        return self._device_state

    def state_dict(self) -> dict[str, Any]:
        """Give the state as a dictionary, which the device is asked for if it has a newer one.

        Returns:
            `ipu_state`: state tensors by name, such as `Accl1___fc.weight`, and `ipu_param`: scalar
            ones, such as `learningRate___default___FLOAT`, None both before the optimizer has run
            on a device; and torch's `state` and `param_groups`.
        """
        state: dict[str, NamedTensors | None] = {"ipu_state": None, "ipu_param": None}
        for name, tensors in self._newest_state().items():
            state[name] = dict(tensors)
        return {**state, **super().state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take a state that `state_dict` gave; the device gets it before the next run.

        Hyper-parameters reach the device by `PoplarExecutor.setOptimizer`.

        Args:
            state_dict: The dictionary.

        Raises:
            RuntimeError: It is empty, or that of an optimizer of torch.
        """
        if not state_dict:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        super().load_state_dict(dict(state_dict))
        if "ipu_state" not in state_dict or "ipu_param" not in state_dict:
            raise RuntimeError("Only IPU optimizer states can be loaded onto the IPU.")
        if state_dict["ipu_state"] is None or state_dict["ipu_param"] is None:
            return
        self.set_state_dict({name: dict(state_dict[name]) for name in ("ipu_state", "ipu_param")})
        self.host_state_is_dirty = True
        self.ipu_state_is_dirty = False

    def __getstate__(self) -> dict[str, Any]:
        kept = (*self._own_attributes, "_own_attributes", "variable_attrs")
        return {
            **super().__getstate__(),
            **{name: self.__dict__[name] for name in kept},
            "_device_state": self._newest_state(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The loader of torch gives a dictionary with groups and state alone.
        super().__setstate__(state)
        if "_device_state" in state:
            self._read_device = None
            self.ipu_state_is_dirty = False
            self.host_state_is_dirty = self.has_state()
