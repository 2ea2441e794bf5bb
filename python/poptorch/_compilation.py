"""From a module and its arguments to a session: trace, lowering, compilation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import popxl
from poptorch._args_parser import BoundArguments, Structure
from poptorch._lower.dtypes import device_dtype, host_array, host_tensor
from poptorch._lower.program import Program, ProgramBuilder
from poptorch._lower.schedule import Schedule
from poptorch._lower.weight_update import WeightUpdate
from poptorch._trace.tracer import Trace

_Array = np.ndarray[Any, Any]


@dataclass
class Executable:
    """A compiled model.

    Attributes:
        arguments: The arguments that it was compiled for: those of one micro-batch.
        structure: What a run returns.
        shapes: For each result of a micro-batch, its shape and dtype.
        program: The popxl program.
        session: The session that runs it.
        schedule: The loops of the program, and how replicas share parameters.
    """

    arguments: BoundArguments
    structure: Structure
    shapes: list[tuple[tuple[int, ...], torch.dtype]]
    program: Program
    session: popxl.Session
    schedule: Schedule

    def __bool__(self) -> bool:
        return True

    @property
    def attached(self) -> bool:
        """Whether the session holds a device."""
        return self.session.is_attached

    def read(self, names: Sequence[str]) -> dict[str, torch.Tensor]:
        """Read variables from the device, or from the host where no device is held.

        Args:
            names: Their names.

        Returns:
            Tensors that share no memory with others.
        """
        arrays = self.session.get_variables(names)
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
        self.session.set_variables(arrays)


def make_executable(
    traced: Trace,
    arguments: BoundArguments,
    schedule: Schedule,
    update: WeightUpdate | None,
    seed: int,
) -> Executable:
    """Compile a trace.

    Args:
        traced: The traced module.
        arguments: What it was traced with.
        schedule: The loops around it.
        update: How weights are updated; None: inference.
        seed: The random seed.

    Returns:
        The compiled model, not attached.
    """
    results = traced.structure.tensors()
    builder = ProgramBuilder(
        traced.recording, traced.inputs, traced.twins, results, schedule, update, seed
    )
    program = builder.build()
    session = popxl.Session(program.ir, "cpu", weights_to_host_on_exit=True)
    shapes = [(tuple(meta.shape), device_dtype(meta.dtype)) for meta in results]
    return Executable(arguments, traced.structure, shapes, program, session, schedule)
