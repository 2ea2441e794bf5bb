"""What the phases of a program work with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import popxl
from poptorch._lower.phase_loops import PhaseLoops
from poptorch._lower.phase_rows import RowTable, StoredRow
from poptorch._lower.schedule import Schedule
from poptorch._lower.stage_gradients import StageGradient
from poptorch._lower.stages import ForwardStages


@dataclass
class PhasedWork:
    """What the phases of a program do.

    Attributes:
        forward: The phases, as stages.
        gradients: Their gradient graphs.
        rows: Where tensors are.
        loops: The loops over micro-batches.
        schedule: The loops around them.
        stored: The variables that are in remote buffers, by name.
        groupings: The groups of replicas that share a parameter, by its name; others all share.
        inputs: The streams of the model's inputs.
        outputs: The streams of its results.
        written_inputs: The streams of inputs that the model writes, by number of the input.
    """

    forward: ForwardStages
    gradients: Sequence[StageGradient | None]
    rows: RowTable
    loops: PhaseLoops
    schedule: Schedule
    stored: dict[str, StoredRow]
    groupings: Mapping[str, popxl.ReplicaGrouping]
    inputs: Sequence[popxl.HostToDeviceStream] = ()
    outputs: Sequence[popxl.DeviceToHostStream] = ()
    written_inputs: Mapping[int, popxl.DeviceToHostStream] = field(default_factory=dict)
