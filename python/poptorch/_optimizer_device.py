"""The optimizer of a training executor: its numbers and its state on the device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from poptorch import enums, optim
from poptorch._logging import logger
from poptorch._lower.update_variables import UpdateState
from poptorch._optimizer_attributes import AttributeWatch
from poptorch._optimizer_base import NamedTensors
from poptorch._optimizer_scalars import variable_numbers
from poptorch._optimizer_state import TorchOptimizerState, state_of
from poptorch._optimizer_values import OptimizerValues, read, with_marks_of, with_numbers_of
from poptorch._private_torch import mark_as_stepped
from poptorch._program_variables import ProgramVariables
from poptorch._replica_groups import ReplicaGroups
from poptorch.options import Options


class _Program:
    """What a compiled program has of an optimizer.

    Args:
        variables: The variables of the program.
        values: What the program was made for.
        names: The names of its variables.
        groups: The groups of replicas of parameters that have some, by name.
        replicas: The number of all replicas.
    """

    def __init__(
        self,
        variables: ProgramVariables,
        values: OptimizerValues,
        names: UpdateState,
        groups: Mapping[str, ReplicaGroups],
        replicas: int,
    ) -> None:
        self._variables = variables
        self.values = values
        self._names = names
        self._replicas = replicas
        # The count of steps is that of all weights.
        self._groups = {
            key: groups[weight]
            for key, (kind, _, weight) in ((key, key.partition("___")) for key in names.states)
            if weight in groups and kind != "Step"
        }
        self._written = self._numbers(values)

    def _numbers(self, values: OptimizerValues) -> dict[str, np.ndarray]:
        numbers = variable_numbers(values)
        return {name: numbers[name] for name in self._names.scalars}

    def write_numbers(self, values: OptimizerValues, again: bool = False) -> None:
        """Writes the numbers that are not on the device already.

        Args:
            values: The numbers.
            again: Whether the device may have others than were written.
        """
        numbers = self._numbers(values)
        changed = {name: n for name, n in numbers.items() if again or n != self._written[name]}
        if changed:
            self._variables.set_variables(changed)
            self._written = numbers

    def read_state(self) -> dict[str, NamedTensors]:
        """Reads the state and the numbers.

        Returns:
            New tensors.
        """
        states, scalars = self._names.states, self._names.scalars
        values = self._variables.get_variables({*states.values(), *scalars})
        arrays = {key: values[name] for key, name in states.items()}
        for key, groups in self._groups.items():
            arrays[key] = groups.to_host(arrays[key], self._replicas)
        return {
            "ipu_state": {key: _tensor(array) for key, array in arrays.items()},
            "ipu_param": {name: _tensor(values[name]) for name in scalars},
        }

    def write_state(self, state: NamedTensors) -> None:
        """Writes what there is of a state; all of it is checked before.

        Args:
            state: The state by the keys of `ipu_state`.
        """
        arrays: dict[str, np.ndarray] = {}
        for key, name in self._names.states.items():
            if key not in state:
                logger.warning(
                    f"The loaded optimizer state has no '{key}': the device keeps its value"
                )
                continue
            array = state[key].detach().numpy()
            if key in self._groups:
                array = self._groups[key].to_device(key, array, self._replicas)
            if name in arrays and not np.array_equal(arrays[name], array):
                raise ValueError(
                    f"optimizer state: '{key}' is {array} and was {arrays[name]} for another "
                    "weight; the program has one value for all weights: give the same to all"
                )
            arrays[name] = array
        self._variables.set_variables(arrays)


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(array))


class DeviceOptimizer:
    """The optimizer that an executor was given, and its counterpart on the device.

    Args:
        optimizer: The optimizer.
        options: The executor's own options. If gradients must be accumulated as running means, they
            say so afterwards.

    Raises:
        AssertionError: The type of the optimizer is not supported.
        ValueError: One of its numbers is out of range.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, options: Options) -> None:
        self._options = options
        self._watch = AttributeWatch(options.relax_optimizer_checks)
        self._watch.see(optimizer)
        self._program: _Program | None = None
        self._values = read(optimizer)
        self._choose_strategy(self._values)
        self._was_attached = False
        self.optimizer = optimizer
        self._state = state_of(optimizer)

    def values_to_compile(self) -> OptimizerValues:
        """Give what a program takes of the optimizer.

        Returns:
            The numbers as they were when the optimizer was set, constant as they are marked now.
        """
        return with_marks_of(self._values, read(self.optimizer))

    def compiled(
        self,
        variables: ProgramVariables,
        values: OptimizerValues,
        names: UpdateState,
        groups: Mapping[str, ReplicaGroups] | None = None,
        replicas: int = 1,
    ) -> None:
        """Begin with a program.

        Args:
            variables: Those of the program, with the names of `names`.
            values: What the program was made for.
            names: What `add_updates` gave.
            groups: The groups of replicas of parameters that have some, by name; None: none has.
            replicas: The number of all replicas.
        """
        self._program = _Program(variables, values, names, groups or {}, replicas)
        self._was_attached = False
        self._connect()

    def destroyed(self) -> None:
        """Let go of the program, whose state was read before."""
        self._disconnect()
        self._program = None

    def closed(self) -> None:
        """Note that the device is gone with the process: state that only it had is gone too."""
        self._was_attached = False

    def attached(self) -> None:
        """Note that the program is on a device, and write a state that was loaded."""
        self._was_attached = True
        if self._program is None:
            return
        state = self._state
        if state.host_state_is_dirty:
            self._program.write_state(state.get_state_dict()["ipu_state"])
            state.host_state_is_dirty = False
        # The state that was loaded may have been a part of what the device has.
        state.ipu_state_is_dirty = True

    def write_loaded_state(self) -> None:
        """Write a state that was loaded since the program is on a device."""
        if self._state.host_state_is_dirty:
            self.attached()

    def before_run(self) -> None:
        """Write a state that was loaded since, and note that the device will have a newer one."""
        self.write_loaded_state()
        # Before the run, which an interrupt may end.
        self._state.ipu_state_is_dirty = True

    def restored(self) -> None:
        """Note that a checkpoint was brought back: its state counts, and the numbers set since."""
        if self._program is not None:
            self._program.write_numbers(self._values, again=True)
        self._state.host_state_is_dirty = False
        self._state.ipu_state_is_dirty = True

    def read_back(self) -> None:
        """Bring newer state to the optimizer if it is poptorch's, which can be asked for it."""
        optimizer = self._own()
        if optimizer is not None:
            self._read(optimizer)

    def read_state(self) -> None:
        """Bring newer state to where the host keeps it, whatever the optimizer."""
        self._read(self._state)

    def _newer_state(
        self, state: optim.Optimizer | TorchOptimizerState
    ) -> dict[str, NamedTensors] | None:
        """What the device has, if that is newer than what the host has."""
        if self._program is None or not self._was_attached:
            return None
        if not state.ipu_state_is_dirty or state.host_state_is_dirty:
            return None
        return self._program.read_state()

    def _read(self, state: optim.Optimizer | TorchOptimizerState) -> None:
        newer = self._newer_state(state)
        if newer is not None:
            state.set_state_dict(newer)
            state.ipu_state_is_dirty = False

    def state_beside(self) -> dict[str, NamedTensors]:
        """Give the newest state that a pickle of the optimizer does not have.

        Returns:
            `ipu_state` and `ipu_param`; empty if there is none, or the optimizer is poptorch's.
        """
        if self._own() is not None:
            return {}
        newer = self._newer_state(self._state)
        return self._state.get_state_dict() if newer is None else newer

    def set(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the numbers of an optimizer, and its state if it is another one and has some.

        Args:
            optimizer: The optimizer.

        Raises:
            AssertionError: The type of the optimizer is not supported.
            ValueError: One of its numbers is out of range; or a program has been compiled, and a
                constant, the type or the groups differ from what it was compiled for.
        """
        values = read(optimizer)
        self._choose_strategy(values)
        if self._program is not None:
            values = with_numbers_of(self._program.values, values)
        self._watch.see(optimizer)
        if optimizer is not self.optimizer:
            self._read(self._state)
            self._disconnect()
            self.optimizer = optimizer
            self._state = state_of(optimizer)
            self._connect()
        self._values = values
        if self._program is not None:
            self._program.write_numbers(values)

    def _choose_strategy(self, values: OptimizerValues) -> None:
        """Sums of gradients in half precision may overflow: means must be kept in their place."""
        training = self._options.Training
        running = enums.MeanReductionStrategy.Running
        is_mean = training.accumulation_and_replication_reduction_type == enums.ReductionType.Mean
        is_running = training.meanAccumulationAndReplicationReductionStrategy == running
        if not (values.needs_running_mean and is_mean) or is_running:
            return
        if self._program is not None:
            raise ValueError(
                "The optimizer's accum_type is torch.float16. That changes "
                "meanAccumulationAndReplicationReductionStrategy to "
                "poptorch.MeanReductionStrategy.Running but the executable is already compiled."
            )
        self._options._unfreeze()
        training.setMeanAccumulationAndReplicationReductionStrategy(running)
        self._options._freeze()

    def _own(self) -> optim.Optimizer | None:
        """The optimizer if it is poptorch's, which programs ask for state."""
        return self.optimizer if isinstance(self.optimizer, optim.Optimizer) else None

    def _connect(self) -> None:
        if self._program is None:
            return
        optimizer = self._own()
        if optimizer is not None:
            optimizer.connect(self.read_back)
        self._state.host_state_is_dirty = self._state.has_state()
        self._state.ipu_state_is_dirty = self._was_attached
        mark_as_stepped(self.optimizer)

    def _disconnect(self) -> None:
        optimizer = self._own()
        if optimizer is not None:
            optimizer.disconnect()
