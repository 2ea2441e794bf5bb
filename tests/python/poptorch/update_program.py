"""A popxl program that takes gradients from the host and updates weights with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch

import popxl
from poptorch._lower.loss_scaling import AutomaticLossScaling, LossScale, with_variable_loss_scaling
from poptorch._lower.update_variables import UpdateVariables, WeightGradient, on_device
from poptorch._lower.updates import add_updates
from poptorch._optimizer_scalars import variable_numbers
from poptorch._optimizer_values import OptimizerValues, read, with_numbers_of
from popxl import ops

POPXL_TYPES = {torch.float32: popxl.float32, torch.float16: popxl.float16}


class UpdateProgram:
    """The update of the parameters of an optimizer, `p0`, `p1` and so on.

    Args:
        optimizer: The optimizer, whose parameters are the first weights.
        automatic: The settings of automatic loss scaling, if it is on.
        devices: The virtual device of each weight; None: that of the context.
        replicas: The number of replicas. Gradients then have one entry for each.
        per_replica: The names of weights that every replica has a value of its own for.
        values: What the program takes of the optimizer; None: all that it says.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        automatic: AutomaticLossScaling | None = None,
        devices: Sequence[int] | None = None,
        replicas: int = 1,
        per_replica: Collection[str] = (),
        values: OptimizerValues | None = None,
    ) -> None:
        self._devices, self._per_replica = devices, per_replica
        self.values = read(optimizer) if values is None else values
        if automatic is not None:
            self.values = with_variable_loss_scaling(self.values)
        self._variables: dict[str, popxl.Tensor] = {}
        self._weights: list[popxl.Tensor] = []
        self._streams: list[popxl.HostToDeviceStream] = []
        self.ir = popxl.Ir(replication=replicas)
        with self.ir.main_graph, popxl.in_sequence():
            groups = [[self._weight(p) for p in group.parameters] for group in self.values.groups]
            if automatic is not None:
                scale = LossScale(self.values, UpdateVariables(self._make_variable), automatic)
                scale.observe([weight for group in groups for weight in group], scale.counters())
            self.state = add_updates(self.values, groups, self._make_variable, automatic)
        self.session = popxl.Session(self.ir, "cpu")

    def _weight(self, parameter: torch.Tensor) -> WeightGradient:
        index = len(self._weights)
        name, dtype = f"p{index}", POPXL_TYPES[parameter.dtype]
        device = None if self._devices is None else self._devices[index]
        grouping, shape = None, tuple(parameter.shape)
        if name in self._per_replica:
            grouping, shape = self.ir.replica_grouping(group_size=1), shape[1:]
        with on_device(device):
            weight = popxl.variable(
                parameter.detach().numpy(), dtype, name, replica_grouping=grouping
            )
            stream = popxl.h2d_stream(shape, dtype, f"g_{name}")
            gradient = ops.host_load(stream)
            if self.ir.replication_factor > 1 and grouping is None:
                gradient = ops.collectives.replicated_all_reduce(gradient, "mean")
        self._weights.append(weight)
        self._streams.append(stream)
        return WeightGradient(name, weight, gradient, grouping, device)

    def _make_variable(
        self, name: str, initial: np.ndarray, weight: WeightGradient | None
    ) -> popxl.Tensor:
        if name not in self._variables:
            grouping = None if weight is None else weight.grouping
            self._variables[name] = popxl.variable(initial, name=name, replica_grouping=grouping)
        return self._variables[name]

    def run(self, gradients: Sequence[np.ndarray]) -> None:
        """Updates the weights once."""
        arrays = [
            np.asarray(gradient, stream.dtype.as_numpy())
            for gradient, stream in zip(gradients, self._streams, strict=True)
        ]
        inputs = dict(zip(self._streams, arrays, strict=True))
        if self.session.is_attached:
            self.session.run(inputs)
            return
        with self.session:
            self.session.run(inputs)

    def set_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Writes the numbers of an optimizer."""
        numbers = variable_numbers(with_numbers_of(self.values, read(optimizer)))
        used = {name: numbers[name] for name in self.state.scalars}
        self.session.set_variables(used)

    def weights(self) -> list[np.ndarray]:
        """The weights now."""
        values = self.session.get_tensors_data(self._weights)
        return [values[weight].copy() for weight in self._weights]

    def value(self, name: str) -> np.ndarray:
        """A state of the update now, by its key in `ipu_state`."""
        return self.session.get_variable(self.state.states[name])
