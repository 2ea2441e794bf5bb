"""A compiled model: its program, its session and its variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

import popxl
from pando.memory_budget import MemoryBudget
from pando.session_info import cache_file
from poptorch._args_parser import BoundArguments, Structure
from poptorch._lower.dtypes import host_array, host_tensor
from poptorch._lower.program import Program
from poptorch._lower.schedule import Schedule
from poptorch._memory_fit import FitPlan
from poptorch._program_variables import ProgramVariables

_Array = np.ndarray[Any, Any]


@dataclass
class Executable:
    """A compiled model.

    Attributes:
        arguments: The arguments that it was compiled for: those of one micro-batch.
        modes: Which modules were in training mode when it was compiled, by name.
        structure: What a run returns.
        shapes: For each result of a micro-batch, its shape and dtype.
        program: The popxl program.
        session: The session that runs it.
        variables: Its variables.
        schedule: The loops of the program, and how replicas share parameters.
        seed: The random seed.
        tensor_names: What anchors can name.
        anchors: The short names of the anchors that follow the results.
        other_anchors: What other anchors name, by short name.
        file: What the compiler wrote for the program, name and content; None: not kept.
        needs_device: Whether it has an op to run.
        budget: The shares of the memory that options name; None: they name none.
        plan: How it fits in them.
    """

    arguments: BoundArguments
    structure: Structure
    shapes: list[tuple[tuple[int, ...], torch.dtype]]
    program: Program
    session: popxl.Session
    variables: ProgramVariables
    schedule: Schedule
    modes: dict[str, bool] = field(default_factory=dict)
    seed: int = 0
    tensor_names: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    other_anchors: dict[str, str] = field(default_factory=dict)
    file: tuple[str, bytes] | None = None
    needs_device: bool = True
    budget: MemoryBudget | None = None
    plan: FitPlan | None = None

    def __bool__(self) -> bool:
        return True

    @property
    def attached(self) -> bool:
        """Whether the session holds a device."""
        return self.session.is_attached

    @property
    def was_read(self) -> bool:
        """Whether the program was read from a file instead of being compiled."""
        return cache_file(self.session) is not None

    @cached_property
    def run(self) -> Callable[[Sequence[_Array], Sequence[_Array]], None]:
        """Prepare runs of the program.

        Returns:
            A function of the arrays of `program.inputs`, in that order, and of those that a run
            fills: first the results, then what is anchored, then the inputs that the model writes.
        """
        program = self.program
        written = program.written_inputs.values()
        outputs = [*program.outputs, *program.anchored.values(), *written]
        return self.session._array_runner(program.inputs, outputs)

    def read(self, names: Sequence[str]) -> dict[str, torch.Tensor]:
        """Read variables from the device, or from the host where no device is held.

        Args:
            names: Their names.

        Returns:
            Tensors that share no memory with others.
        """
        arrays = self.variables.get_variables(names)
        for name in self.schedule.groups.keys() & arrays.keys():
            groups = self.schedule.groups[name]
            arrays[name] = groups.to_host(arrays[name], self.schedule.replicas)
        return {name: host_tensor(array) for name, array in arrays.items()}

    def write(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Write variables to the device, or to the host where no device is held.

        Args:
            tensors: The values by name.
        """
        arrays = {name: host_array(t) for name, t in tensors.items()}
        for name in self.schedule.groups.keys() & arrays.keys():
            groups = self.schedule.groups[name]
            arrays[name] = groups.to_device(name, arrays[name], self.schedule.replicas)
        self.variables.set_variables(arrays)
