"""How a training program updates its weights, in terms of its loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.loops import SharedTensors
from poptorch._lower.loss_scaling import (
    AutomaticLossScaling,
    LossScale,
    with_variable_loss_scaling,
)
from poptorch._lower.update_variables import (
    Factor,
    MakeVariable,
    UpdateState,
    UpdateVariables,
    WeightGradient,
)
from poptorch._lower.updates import add_updates
from poptorch._optimizer_values import OptimizerValues


@dataclass
class WeightUpdate:
    """The update of a training program.

    Attributes:
        values: What the program takes of its optimizer.
        groups: The names of the weights of each parameter group.
        automatic: The settings of automatic loss scaling; None: it is off.
    """

    values: OptimizerValues
    groups: Sequence[Sequence[str]]
    automatic: AutomaticLossScaling | None = None

    def __post_init__(self) -> None:
        if self.automatic is not None:
            self.values = with_variable_loss_scaling(self.values)
        self.state = UpdateState()

    def _make(self, shared: SharedTensors) -> MakeVariable:
        def make(
            name: str, initial: np.ndarray[Any, Any], weight: WeightGradient | None
        ) -> popxl.Tensor:
            return shared.variable(name, initial, None if weight is None else weight.grouping)

        return make

    def loss_scale(self, shared: SharedTensors) -> LossScale:
        """Give the loss scale in the current graph.

        Args:
            shared: The variables, in the current graph.

        Returns:
            The loss scale.
        """
        return LossScale(self.values, UpdateVariables(self._make(shared)), self.automatic)

    def seed_factor(self, shared: SharedTensors) -> Factor:
        """What the seed of the gradient is multiplied by.

        Args:
            shared: The variables, in the current graph.

        Returns:
            The loss scale.
        """
        return self.loss_scale(shared).factor()

    def observe(self, gradients: Mapping[str, popxl.Tensor], shared: SharedTensors) -> None:
        """Let automatic loss scaling see the gradients of a micro-batch.

        Args:
            gradients: The gradients by name of the weight.
            shared: The variables, in the current graph.
        """
        if self.automatic is None:
            return
        scale = self.loss_scale(shared)
        found = [WeightGradient(name, shared[name], one) for name, one in gradients.items()]
        scale.observe(found, scale.counters())

    def apply(self, gradients: Mapping[str, WeightGradient], shared: SharedTensors) -> None:
        """Make the ops that update the weights, in the current graph.

        Args:
            gradients: The reduced gradients by name of the weight.
            shared: The variables, in the current graph.
        """
        groups = [[gradients[name] for name in names if name in gradients] for names in self.groups]
        self.state = add_updates(self.values, groups, self._make(shared), self.automatic)


def names_of_groups(
    values: OptimizerValues, tensors: Mapping[str, torch.Tensor]
) -> list[list[str]]:
    """Find the names of the weights of each parameter group.

    Args:
        values: What the program takes of its optimizer.
        tensors: The parameters of the module by name.

    Returns:
        For each group the names of its parameters.

    Raises:
        Error: A parameter of the optimizer is not in the module.
    """
    names = {id(tensor): name for name, tensor in tensors.items()}
    addresses = {tensor.data_ptr(): name for name, tensor in tensors.items()}
    groups = []
    for index, group in enumerate(values.groups):
        found = []
        for parameter in group.parameters:
            name = names.get(id(parameter)) or addresses.get(parameter.data_ptr())
            if name is None:
                raise createPoptorchError(
                    f"The optimizer has a parameter of shape {list(parameter.shape)} in group "
                    f"{index} that is not in the model; its parameters are {sorted(tensors)}"
                )
            found.append(name)
        groups.append(found)
    return groups
