"""What a training program takes of an optimizer: its update rule and its numbers."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from poptorch import optim

_MOMENTS = ("lr", "beta1", "beta2", "eps", "weight_decay")


class OptimizerKind(enum.Enum):
    """The update rules."""

    SGD1 = "SGD1"
    """SGD whose velocity has its own scale and whose hyper-parameters count one step later."""
    SGD2 = "SGD2"
    ADAM = "ADAM"
    ADAMW = "ADAMW"
    ADAMW_NO_BIAS = "ADAMW_NO_BIAS"
    RMSPROP = "RMSPROP"
    RMSPROP_CENTERED = "RMSPROP_CENTERED"
    LAMB = "LAMB"
    LAMB_NO_BIAS = "LAMB_NO_BIAS"


@dataclass(frozen=True)
class Value:
    """A number of an optimizer.

    Attributes:
        number: The number.
        constant: Whether it is compiled in.
    """

    number: float
    constant: bool


@dataclass(frozen=True)
class GroupValues:
    """A parameter group.

    Attributes:
        parameters: The parameters.
        numbers: The hyper-parameters by name: `lr`, `weight_decay`, and those of the kind, where
            `betas` are `beta1` and `beta2`.
        nesterov: Whether the momentum is Nesterov's.
        decoupled: Whether weights decay beside the moments.
    """

    parameters: tuple[torch.Tensor, ...]
    numbers: Mapping[str, Value]
    nesterov: bool
    decoupled: bool


@dataclass(frozen=True)
class OptimizerValues:
    """All of an optimizer that a program needs.

    Attributes:
        kind: The update rule.
        groups: The parameter groups.
        loss_scaling: The factor of the loss in the backward pass.
        max_grad_norm: The largest norm of all gradients together; infinite: no limit.
        accum_type: The dtype in which gradients are accumulated.
        first_type: The dtype of velocities and first moments.
        second_type: The dtype of second moments.
        use_tf_variant: Whether RMSprop is that of TensorFlow.
    """

    kind: OptimizerKind
    groups: tuple[GroupValues, ...]
    loss_scaling: Value
    max_grad_norm: Value
    accum_type: torch.dtype
    first_type: torch.dtype
    second_type: torch.dtype
    use_tf_variant: bool

    @property
    def clips(self) -> bool:
        """Whether the program limits the norm of the gradients."""
        limit = self.max_grad_norm
        return not (limit.constant and math.isinf(limit.number))

    @property
    def needs_running_mean(self) -> bool:
        """Whether gradients must be accumulated as running means, because their sums are half."""
        return self.accum_type == torch.float16 and self.kind != OptimizerKind.SGD1


# Of the groups of each kind, and which values torch's own optimizers compile in.
_GROUP_NUMBERS = {
    torch.optim.SGD: ("lr", "momentum", "dampening", "weight_decay"),
    torch.optim.Adam: _MOMENTS,
    torch.optim.AdamW: _MOMENTS,
    torch.optim.RMSprop: ("lr", "alpha", "eps", "weight_decay", "momentum"),
    optim.LAMB: (*_MOMENTS, "max_weight_norm"),
}
_CONSTANT_WHEN = {"weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0, "eps": 1e-8}
_SUPPORTED = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.RMSprop,
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.RMSprop,
    optim.LAMB,
)


def base_type(optimizer: object) -> type[torch.optim.Optimizer]:
    """Find the class by which an optimizer is treated.

    Args:
        optimizer: The optimizer.

    Returns:
        One of torch's classes, or LAMB.

    Raises:
        AssertionError: It is derived from none.
    """
    # AdamW is an Adam, so it comes first.
    order = (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop, optim.LAMB)
    for kind in order:
        if isinstance(optimizer, kind):
            return kind
    names = ", ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in _SUPPORTED)
    raise AssertionError(
        f"Unsupported optimizer type. Types supported {names}; given {type(optimizer).__qualname__}"
    )


def is_exact(optimizer: object) -> bool:
    """Tell whether an optimizer is of a class of torch or poptorch, not of one derived from it.

    Args:
        optimizer: The optimizer.

    Returns:
        Whether it is.
    """
    return type(optimizer) in _SUPPORTED


def _decouples(group: Mapping[str, Any], base: type[torch.optim.Optimizer]) -> bool:
    return base is torch.optim.AdamW or bool(group.get("decoupled_weight_decay", False))


def _kind(optimizer: torch.optim.Optimizer, base: type[torch.optim.Optimizer]) -> OptimizerKind:
    corrects = getattr(optimizer, "bias_correction", True)
    if base is torch.optim.SGD:
        combined = getattr(optimizer, "use_combined_accum", False)
        return OptimizerKind.SGD1 if combined else OptimizerKind.SGD2
    if base is torch.optim.RMSprop:
        centered = optimizer.param_groups[0]["centered"]
        return OptimizerKind.RMSPROP_CENTERED if centered else OptimizerKind.RMSPROP
    if base is optim.LAMB:
        return OptimizerKind.LAMB if corrects else OptimizerKind.LAMB_NO_BIAS
    if all(_decouples(group, base) for group in optimizer.param_groups):
        return OptimizerKind.ADAMW if corrects else OptimizerKind.ADAMW_NO_BIAS
    return OptimizerKind.ADAM


def _is_constant(
    optimizer: torch.optim.Optimizer, base: type[torch.optim.Optimizer], name: str, number: float
) -> bool:
    """Whether a number is compiled in, by the name of its attribute."""
    if name == "lr":
        return False
    if name == "alpha":
        return True
    if isinstance(optimizer, optim.Optimizer):
        attribute = "betas" if name in ("beta1", "beta2") else name
        return optimizer.variable_attrs.isConstant(attribute)
    if name == "weight_decay" and base is torch.optim.AdamW:
        return number == 1e-2
    return name in ("beta1", "beta2") or number == _CONSTANT_WHEN[name]


def _number(group: Mapping[str, Any], name: str) -> float:
    if name in ("beta1", "beta2"):
        return float(group["betas"][0 if name == "beta1" else 1])
    return float(group[name])


def _check_group(index: int, group: Mapping[str, Any], numbers: Mapping[str, Value]) -> None:
    where = f"parameter group {index}"
    for name, value in numbers.items():
        number = value.number
        # No weight is longer than infinity: no limit.
        is_limit = name == "max_weight_norm" and number == math.inf
        if not is_limit and not (math.isfinite(number) and number >= 0):
            raise ValueError(f"{where}: wanted {name} finite and not negative; given {number}")
        if name in ("beta1", "beta2") and number >= 1:
            raise ValueError(f"{where}: wanted betas below 1; given {group['betas']}")
    if group.get("nesterov") and numbers["dampening"].number > 0:
        raise ValueError(
            f"{where}: Nesterov momentum needs a dampening of 0; given "
            f"{numbers['dampening'].number}"
        )
    if numbers.get("velocity_scaling", Value(1, True)).number == 0:
        raise ValueError(f"{where}: wanted velocity_scaling > 0; given 0")
    if group.get("amsgrad"):
        raise ValueError("Only non-amsgrad Adam/AdamW optimizers are supported.")


def _read_group(
    optimizer: torch.optim.Optimizer, base: type[torch.optim.Optimizer], index: int
) -> GroupValues:
    group = optimizer.param_groups[index]
    names = _GROUP_NUMBERS[base]
    if base is torch.optim.SGD and getattr(optimizer, "use_combined_accum", False):
        names = (*names, "velocity_scaling")
    numbers = {}
    for name in names:
        number = _number(group, name)
        numbers[name] = Value(number, _is_constant(optimizer, base, name, number))
    _check_group(index, group, numbers)
    return GroupValues(
        tuple(group["params"]),
        numbers,
        nesterov=bool(group.get("nesterov", False)),
        decoupled=_decouples(group, base),
    )


def _check_centered(optimizer: torch.optim.Optimizer) -> None:
    values = [bool(group["centered"]) for group in optimizer.param_groups]
    assert len(set(values)) == 1, (
        f"All parameter groups must have the same value for the 'centered' attribute (Got {values})"
    )


def _global(optimizer: torch.optim.Optimizer, name: str, default: float) -> Value:
    """A number that the optimizer has as a whole; one of torch may have been given it."""
    if not hasattr(optimizer, name):
        return Value(default, True)
    number = float(getattr(optimizer, name))
    if not number > 0:
        raise ValueError(f"{type(optimizer).__name__}: wanted {name} > 0; given {number}")
    if isinstance(optimizer, optim.Optimizer):
        return Value(number, optimizer.variable_attrs.isConstant(name))
    return Value(number, number == default)


def _state_type(optimizer: torch.optim.Optimizer, *names: str) -> torch.dtype:
    for name in names:
        if hasattr(optimizer, name):
            return getattr(optimizer, name)
    return torch.float32


def read(optimizer: torch.optim.Optimizer) -> OptimizerValues:
    """Read what a training program needs of an optimizer.

    Args:
        optimizer: An optimizer of torch or poptorch.

    Returns:
        The values.

    Raises:
        AssertionError: The type is not supported, or groups of RMSprop differ in `centered`.
        ValueError: A number is out of its range, or `amsgrad` is asked for.
    """
    base = base_type(optimizer)
    if base is torch.optim.RMSprop:
        _check_centered(optimizer)
    loss_scaling = _global(optimizer, "loss_scaling", 1.0)
    if math.isinf(loss_scaling.number):
        raise ValueError(f"{type(optimizer).__name__}: wanted a finite loss_scaling; given inf")
    return OptimizerValues(
        kind=_kind(optimizer, base),
        groups=tuple(
            _read_group(optimizer, base, index) for index in range(len(optimizer.param_groups))
        ),
        loss_scaling=loss_scaling,
        max_grad_norm=_global(optimizer, "max_grad_norm", math.inf),
        accum_type=_state_type(optimizer, "accum_type"),
        first_type=_state_type(optimizer, "velocity_accum_type", "first_order_momentum_accum_type"),
        second_type=_state_type(optimizer, "second_order_momentum_accum_type"),
        use_tf_variant=bool(getattr(optimizer, "use_tf_variant", False)),
    )


def _updated_value(compiled: Value, new: Value, what: str) -> Value:
    if compiled.constant and compiled.number != new.number:
        raise ValueError(
            f"{what} was compiled in as {compiled.number} and cannot become {new.number}: call "
            "variable_attrs.markAsVariable on the optimizer before compiling, or give the "
            "constructor of an optimizer of poptorch.optim the argument"
        )
    return Value(new.number, compiled.constant)


def _check_structure(compiled: OptimizerValues, new: OptimizerValues) -> None:
    """Checks that the compiled program can serve the new optimizer."""

    def differs(what: str, before: object, after: object) -> None:
        if before != after:
            raise ValueError(
                f"the program was compiled for an optimizer with {what} {before}; given {after}: "
                "destroy the model and compile it again for another optimizer"
            )

    differs("type", compiled.kind.value, new.kind.value)
    differs("number of parameter groups", len(compiled.groups), len(new.groups))
    for name in ("accum_type", "first_type", "second_type", "use_tf_variant"):
        differs(name, getattr(compiled, name), getattr(new, name))
    for index, (before, after) in enumerate(zip(compiled.groups, new.groups, strict=True)):
        # Nothing of the parameters themselves, which would bring their values from the device.
        counts = [len(group.parameters) for group in (before, after)]
        differs(f"number of parameters in group {index}", *counts)
        differs(f"nesterov in group {index}", before.nesterov, after.nesterov)
        differs(f"decoupled weight decay in group {index}", before.decoupled, after.decoupled)


def with_numbers_of(compiled: OptimizerValues, new: OptimizerValues) -> OptimizerValues:
    """Give a compiled program the numbers of an optimizer.

    Args:
        compiled: What the program was compiled for.
        new: What an optimizer says now.

    Returns:
        `compiled` with the numbers of `new`; what is constant stays what it was.

    Raises:
        ValueError: A constant changed, or another kind of optimizer or of groups was given.
    """
    _check_structure(compiled, new)
    groups = tuple(
        replace(
            before,
            numbers={
                name: _updated_value(value, after.numbers[name], f"{name} of group {index}")
                for name, value in before.numbers.items()
            },
        )
        for index, (before, after) in enumerate(zip(compiled.groups, new.groups, strict=True))
    )
    return replace(
        compiled,
        groups=groups,
        loss_scaling=_updated_value(compiled.loss_scaling, new.loss_scaling, "loss_scaling"),
        max_grad_norm=_updated_value(compiled.max_grad_norm, new.max_grad_norm, "max_grad_norm"),
    )


def with_marks_of(values: OptimizerValues, new: OptimizerValues) -> OptimizerValues:
    """Give values the marks that the attributes of an optimizer have by now.

    Args:
        values: What an optimizer said.
        new: What it says now.

    Returns:
        The numbers of `values`, constant where `new` is; `values` if the groups are others.
    """
    numbers = [[group.numbers.keys() for group in one.groups] for one in (values, new)]
    if numbers[0] != numbers[1]:
        return values

    def marked(value: Value, mark: Value) -> Value:
        # What torch compiles in because it is the default may be another number by now.
        return Value(value.number, mark.constant and value.number == mark.number)

    groups = tuple(
        replace(
            before,
            numbers={name: marked(v, after.numbers[name]) for name, v in before.numbers.items()},
        )
        for before, after in zip(values.groups, new.groups, strict=True)
    )
    return replace(
        values,
        groups=groups,
        loss_scaling=marked(values.loss_scaling, new.loss_scaling),
        max_grad_norm=marked(values.max_grad_norm, new.max_grad_norm),
    )
