"""The device variables of update rules, and arithmetic of numbers that may be in variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import torch

import popxl
from poptorch._optimizer_scalars import Scalar
from popxl import ops

# A number that is compiled in, or a float32 tensor of one element.
Factor: TypeAlias = float | popxl.Tensor

# The virtual device of numbers that weights of several devices need.
HOME = 0

_NUMPY_TYPES = {torch.float32: np.float32, torch.float16: np.float16}


class PlacedWeight(Protocol):
    """A weight that will be updated."""

    @property
    def name(self) -> str:
        """The name of the weight."""

    @property
    def device(self) -> int | None:
        """The virtual device of the weight; None: that of the context."""


@dataclass(frozen=True)
class WeightPlace:
    """A weight whose gradient is still to be computed.

    Attributes:
        name: The name of the weight.
        device: The virtual device of the weight; None: that of the context.
    """

    name: str
    device: int | None = None


@dataclass(frozen=True)
class WeightGradient:
    """A weight and its gradient.

    Attributes:
        name: The name of the weight.
        weight: The weight, a tensor of the current graph that writes go through to the variable.
        gradient: Its gradient, reduced over micro-batches and replicas, of the weight's shape; with
            loss scaling still in it.
        grouping: The groups of replicas that share a value; None: all replicas share one.
        device: The virtual device of the weight; None: that of the context.
    """

    name: str
    weight: popxl.Tensor
    gradient: popxl.Tensor
    grouping: popxl.ReplicaGrouping | None = None
    device: int | None = None


class MakeVariable(Protocol):
    """Makes variables of the main graph. The same name again means the same variable."""

    def __call__(
        self, name: str, initial: np.ndarray, weight: WeightGradient | None
    ) -> popxl.Tensor:
        """Makes a variable, or finds it.

        Args:
            name: Its name.
            initial: Its first value; where `weight` has a grouping of several groups, one value for
                each along the first axis.
            weight: The weight that it belongs to, on whose replicas and device it must be; None:
                all replicas share it.

        Returns:
            A tensor of the current graph that reads and writes the variable.
        """
        ...


@dataclass
class UpdateState:
    """What an update rule keeps on the device.

    Attributes:
        states: The names of variables by the keys of `ipu_state`; several keys may share one.
        scalars: The names of scalar variables, which are the keys of `ipu_param` too.
    """

    states: dict[str, str] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)


class UpdateVariables:
    """Makes the variables of update rules and notes their names.

    Args:
        make: Makes a variable.
    """

    def __init__(self, make: MakeVariable) -> None:
        self._make = make
        self._scalars: dict[str, popxl.Tensor] = {}
        self._held: dict[str, tuple[popxl.Tensor, popxl.Tensor]] = {}
        self.noted = UpdateState()

    def scalar(self, scalar: Scalar) -> Factor:
        """Give a scalar to a rule.

        Args:
            scalar: The scalar.

        Returns:
            The number if it is constant, else its variable.
        """
        if scalar.constant:
            return scalar.number
        if scalar.name not in self._scalars:
            initial = np.array(scalar.number, np.float32)
            self._scalars[scalar.name] = self._make(scalar.name, initial, None)
            self.noted.scalars.append(scalar.name)
        return self._scalars[scalar.name]

    def held(self, prefix: str, scalar: Scalar, current: popxl.Tensor) -> popxl.Tensor:
        """Give a number as it was in the step before.

        Args:
            prefix: What the name begins with.
            scalar: What the number is first.
            current: The number now, which `finish` holds for the next step.

        Returns:
            The number, a float32 tensor of rank 0.
        """
        name = f"{prefix}___{scalar.name}"
        if name not in self._held:
            self._held[name] = (self.scalar_state(name, scalar.number), current)
        return self._held[name][0]

    def finish(self) -> None:
        """Hold the numbers of this step for the next one."""
        # The last first: what it holds may be what an earlier one still holds.
        for held, current in reversed(self._held.values()):
            ops.var_updates.copy_var_update_(held, current)

    def state(
        self, prefix: str, weight: WeightGradient, dtype: torch.dtype, value: float = 0.0
    ) -> popxl.Tensor:
        """Make state of the shape of a weight.

        Args:
            prefix: What the name begins with.
            weight: The weight.
            dtype: The dtype, float32 or float16.
            value: The first value of all elements.

        Returns:
            The state.
        """
        shape = weight.weight.shape
        if weight.grouping is not None and weight.grouping.num_groups > 1:
            shape = (weight.grouping.num_groups, *shape)
        initial = np.broadcast_to(_NUMPY_TYPES[dtype](value), shape)
        return self._state(f"{prefix}___{weight.name}", initial, weight)

    def scalar_state(self, name: str, value: float) -> popxl.Tensor:
        """Make state of one number.

        Args:
            name: The name.
            value: The first value.

        Returns:
            The state, a float32 tensor of rank 0.
        """
        return self._state(name, np.array(value, np.float32), None)

    def shown(self, name: str, value: popxl.Tensor) -> None:
        """Keep a number where it can be looked at. It is no state.

        Args:
            name: The name of the variable.
            value: The number, a float32 tensor of rank 0.
        """
        kept = self._make(name, np.array(0, np.float32), None)
        ops.var_updates.copy_var_update_(kept, value)

    def shared_count(self, weights: Sequence[PlacedWeight]) -> popxl.Tensor:
        """Make one count of steps, which `ipu_state` has for every weight.

        Args:
            weights: The weights, at least one.

        Returns:
            The count, a float32 tensor of rank 0.
        """
        name = f"Step___{weights[0].name}"
        for weight in weights:
            self.noted.states[f"Step___{weight.name}"] = name
        return self._make(name, np.array(0, np.float32), None)

    def _state(self, name: str, initial: np.ndarray, weight: WeightGradient | None) -> popxl.Tensor:
        self.noted.states[name] = name
        return self._make(name, initial, weight)


def on_device(device: int | None) -> AbstractContextManager[object]:
    """Put the ops created in the body on a virtual device.

    Args:
        device: The device; None: that of the context.

    Returns:
        The context manager.
    """
    return nullcontext() if device is None else popxl.ipu(device)


def home_of(weights: Iterable[PlacedWeight]) -> int | None:
    """Choose the virtual device of numbers that several weights need, their home.

    Args:
        weights: The weights.

    Returns:
        Device 0, or None if no weight names a device.
    """
    return None if all(weight.device is None for weight in weights) else HOME


def moved(factor: Factor, device: int | None) -> Factor:
    """Bring a number from home to a virtual device.

    Args:
        factor: The number.
        device: The device; None: it stays.

    Returns:
        The number there.
    """
    if device is None or device == HOME or not isinstance(factor, popxl.Tensor):
        return factor
    return ops.ipu_copy(factor, device, HOME)


def brought_home(t: popxl.Tensor, device: int | None) -> popxl.Tensor:
    """Bring a tensor from a virtual device home.

    Args:
        t: The tensor.
        device: Its device; None: it is there.

    Returns:
        The tensor there.
    """
    return t if device is None or device == HOME else ops.ipu_copy(t, HOME, device)


def product(*factors: Factor) -> Factor:
    """Multiply numbers; what is known is multiplied at once.

    Args:
        *factors: The numbers.

    Returns:
        The product, a number if all are.
    """
    number, result = 1.0, None
    for factor in factors:
        if isinstance(factor, popxl.Tensor):
            result = factor if result is None else ops.mul(result, factor)
        else:
            number *= factor
    if result is None:
        return number
    return result if number == 1.0 else result * number


def negative(factor: Factor) -> Factor:
    """Negate a number.

    Args:
        factor: The number.

    Returns:
        The negative, a number if it is.
    """
    return ops.negate(factor) if isinstance(factor, popxl.Tensor) else -factor


def as_tensor(factor: Factor) -> popxl.Tensor:
    """Make a tensor of a number.

    Args:
        factor: The number.

    Returns:
        A float32 tensor of one element.
    """
    return factor if isinstance(factor, popxl.Tensor) else popxl.constant(factor, popxl.float32)


def as_float32(t: popxl.Tensor) -> popxl.Tensor:
    """Cast a tensor to float32.

    Args:
        t: The tensor.

    Returns:
        `t` itself if it is float32 already.
    """
    return t if t.dtype == popxl.float32 else ops.cast(t, popxl.float32)


def is_number(factor: Factor, number: float) -> bool:
    """Tell whether a number is known, and to be a certain one.

    Args:
        factor: The number.
        number: What it is compared with.

    Returns:
        Whether it is that number.
    """
    return not isinstance(factor, popxl.Tensor) and factor == number
