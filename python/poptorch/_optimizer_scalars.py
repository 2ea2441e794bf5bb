"""The scalars of update rules: which device variables there are, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from poptorch._optimizer_values import GroupValues, OptimizerKind, OptimizerValues, Value

# Beside the groups' own. They are the same for all groups.
LOSS_SCALING = "lossScaling_FLOAT"
MAX_GRAD_NORM = "maxGradNorm_FLOAT"


@dataclass(frozen=True)
class Scalar:
    """A number of an update rule.

    Attributes:
        name: The name of the device variable, if it is not constant.
        number: The number.
        constant: Whether it is compiled in.
    """

    name: str
    number: float
    constant: bool


def _combined(function: np.ufunc, *values: Value) -> Value:
    """A number that is computed from others: constant if they are."""
    number = values[0].number
    for value in values[1:]:
        number = float(function(number, value.number))
    return Value(number, all(value.constant for value in values))


def _kept_share(dampening: Value) -> Value:
    return Value(1 - dampening.number, dampening.constant)


def _sgd(group: GroupValues, kind: OptimizerKind) -> dict[str, tuple[str, Value]]:
    numbers = group.numbers
    rate, momentum = numbers["lr"], numbers["momentum"]
    gradient, decay = _kept_share(numbers["dampening"]), numbers["weight_decay"]
    if has_no_velocity(group):
        return {
            "rate": ("scaledLearningRate0", _combined(np.multiply, rate, gradient)),
            "decay": ("weightDecay", decay),
        }
    number = 2
    if kind == OptimizerKind.SGD1:
        number = 1
        scaling = numbers["velocity_scaling"]
        rate = _combined(np.divide, rate, scaling)
        gradient = _combined(np.multiply, gradient, scaling)
    return {
        "rate": (f"scaledLearningRate{number}", rate),
        "decay": ("weightDecay", decay),
        "momentum": (f"scaledMomentum{number}", momentum),
        "gradient": (f"dampeningScaleFactor{number}", gradient),
        **({"scaling": ("velocityScaling", scaling)} if number == 1 else {}),
    }


def _renamed(group: GroupValues, names: Mapping[str, str]) -> dict[str, tuple[str, Value]]:
    roles = {"lr": "rate", "weight_decay": "decay", "max_weight_norm": "limit"}
    return {
        roles.get(attribute, attribute): (names[attribute], value)
        for attribute, value in group.numbers.items()
    }


_MOMENT_NAMES = {
    "lr": "learningRate",
    "beta1": "adamBeta1",
    "beta2": "adamBeta2",
    "eps": "adamEps",
    "weight_decay": "weightDecay",
    "max_weight_norm": "maxWeightNorm",
}
_ADAPTIVE_NAMES = {
    "lr": "learningRate",
    "alpha": "adaptiveAlpha",
    "eps": "adaptiveEps",
    "weight_decay": "weightDecay",
    "momentum": "adaptiveMomentum",
}


def has_no_velocity(group: GroupValues) -> bool:
    """Tell whether weights of a group move by their gradient alone.

    Args:
        group: A group of an optimizer with momentum.

    Returns:
        Whether the momentum is the constant 0.
    """
    return group.numbers["momentum"] == Value(0.0, True)


def group_scalars(values: OptimizerValues, index: int) -> dict[str, Scalar]:
    """Compute the scalars of a parameter group.

    Args:
        values: What the program takes of its optimizer.
        index: The group.

    Returns:
        The scalars by their role in the rule, whose products of hyper-parameters they are: `rate`,
        `decay`, `momentum`, `gradient` (the share of a gradient that goes into a velocity),
        `scaling` (of a velocity), `beta1`, `beta2`, `eps`, `alpha`, `limit` (of a weight's norm).
    """
    group = values.groups[index]
    if values.kind in (OptimizerKind.SGD1, OptimizerKind.SGD2):
        named = _sgd(group, values.kind)
    elif values.kind in (OptimizerKind.RMSPROP, OptimizerKind.RMSPROP_CENTERED):
        named = _renamed(group, _ADAPTIVE_NAMES)
    else:
        named = _renamed(group, _MOMENT_NAMES)
    suffix = "default___FLOAT" if index == 0 else f"specific___group{index}"
    return {
        role: Scalar(f"{prefix}___{suffix}", value.number, value.constant)
        for role, (prefix, value) in named.items()
    }


def global_scalars(values: OptimizerValues) -> dict[str, Scalar]:
    """Give the scalars of the optimizer as a whole.

    Args:
        values: What the program takes of its optimizer.

    Returns:
        `loss_scaling` and `max_grad_norm`.
    """
    return {
        "loss_scaling": Scalar(
            LOSS_SCALING, values.loss_scaling.number, values.loss_scaling.constant
        ),
        "max_grad_norm": Scalar(
            MAX_GRAD_NORM, values.max_grad_norm.number, values.max_grad_norm.constant
        ),
    }


def variable_numbers(values: OptimizerValues) -> dict[str, np.ndarray]:
    """Give what the scalar variables of a program hold.

    Args:
        values: What the program takes of its optimizer.

    Returns:
        float32 arrays of rank 0 by the name of the variable.
    """
    scalars = list(global_scalars(values).values())
    for index in range(len(values.groups)):
        scalars += group_scalars(values, index).values()
    return {one.name: np.array(one.number, np.float32) for one in scalars if not one.constant}
