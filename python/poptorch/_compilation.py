"""From a module and its arguments to a session: trace, lowering, compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import popxl
from pando.session_info import cache_file
from poptorch import enums
from poptorch._args_parser import BoundArguments, Structure
from poptorch._compile_hooks import call_post_compile_hooks, call_pre_compile_hooks
from poptorch._compile_options import check_program, configure, device_for, profiled, use_cache
from poptorch._impl import createPoptorchError
from poptorch._lower.dtypes import device_dtype, host_array, host_tensor
from poptorch._lower.program import GRADIENT, Program, ProgramBuilder
from poptorch._lower.schedule import Schedule
from poptorch._lower.table import SHAPE_RULES, is_lowered
from poptorch._lower.weight_update import WeightUpdate
from poptorch._replica_groups import ReplicaGroups
from poptorch._tensor_names import names_of_tensors
from poptorch._trace.tracer import Trace, TraceSettings, trace
from poptorch.options import Options

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
        seed: The random seed.
        tensor_names: What anchors can name.
        anchors: The short names of the anchors that follow the results.
        read_anchors: The variables that other anchors are, by short name.
        file: What the compiler wrote for the program, name and content; None: not kept.
    """

    arguments: BoundArguments
    structure: Structure
    shapes: list[tuple[tuple[int, ...], torch.dtype]]
    program: Program
    session: popxl.Session
    schedule: Schedule
    seed: int = 0
    tensor_names: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    read_anchors: dict[str, str] = field(default_factory=dict)
    file: tuple[str, bytes] | None = None

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


# An updated weight is called so, before its name.
_UPDATED = "UpdatedVar___"


def schedule_of(options: Options, groups: Mapping[str, ReplicaGroups]) -> Schedule:
    """Choose the loops of a program.

    Args:
        options: The model's own options.
        groups: The parameters with a value for each group of replicas.

    Returns:
        The loops.
    """
    reduction = options.Training.accumulation_and_replication_reduction_type
    return Schedule(
        iterations=options.device_iterations,
        accumulation=options.Training.gradient_accumulation,
        replicas=options.replication_factor,
        output_mode=options.output_mode,
        mean=reduction == enums.ReductionType.Mean,
        strategy=options._execution_strategy,
        num_io_tiles=options.TensorLocations.num_io_tiles,
        mean_strategy=options.Training.meanAccumulationAndReplicationReductionStrategy,
        groups=dict(groups),
        kept_gradients=frozenset(
            str(long).removeprefix(GRADIENT)
            for long, *_ in options.anchored_tensors.values()
            if str(long).startswith(GRADIENT)
        ),
    )


def trace_module(
    module: torch.nn.Module,
    arguments: BoundArguments,
    options: Options,
    training: bool,
    groups: Mapping[str, ReplicaGroups],
) -> Trace:
    """Trace a module as options ask for.

    Args:
        module: The module.
        arguments: The arguments of one micro-batch.
        options: The model's own options.
        training: Whether the program trains.
        groups: The parameters with a value for each group of replicas.

    Returns:
        The trace.

    Raises:
        Error: The module does something that no program can.
    """
    settings = TraceSettings(
        lowers=is_lowered,
        shape_rules=SHAPE_RULES,
        location_excludes=options.source_location_excludes,
        module_names=options.module_namescope_enabled,
        strategy=options._execution_strategy,
        training=training,
        before=call_pre_compile_hooks,
        after=call_post_compile_hooks,
        per_replica=groups,
    )
    return trace(module, arguments, settings)


@dataclass
class CompileSettings:
    """How a trace is compiled.

    Attributes:
        options: The model's own options.
        schedule: The loops around the traced module.
        seed: The random seed.
        cache: The folder of compiled programs, or None.
        program_made: Called when there is a program, which is then compiled.
    """

    options: Options
    schedule: Schedule
    seed: int
    cache: Path | None
    program_made: Callable[[], None]


class _Anchors:
    """The tensors that options ask for, beside the results.

    Args:
        asked: By short name, the name in the model and what else options say.
        traced: The traced module.
    """

    def __init__(self, asked: Mapping[str, Sequence[Any]], traced: Trace) -> None:
        named = names_of_tensors(traced.recording.nodes, traced.inputs, traced.twins.metas)
        self.names = list(named)
        self.streamed = {
            short: named[str(long)] for short, (long, *_) in asked.items() if long in named
        }
        self._others = {short: long for short, (long, *_) in asked.items() if long not in named}

    def variables(self, ir: popxl.Ir) -> dict[str, str]:
        """Find the anchors that are variables of the program, as the state of an optimizer.

        Args:
            ir: The program.

        Returns:
            The names of variables by the anchors' short names.

        Raises:
            Error: There is no such variable.
        """
        found = {}
        for short, long in self._others.items():
            name = long.removeprefix(_UPDATED)
            if name not in ir._variables:
                raise createPoptorchError(
                    f"anchorTensor: there is no tensor {long} in the graph, which '{short}' names. "
                    f"PoplarExecutor.getTensorNames lists those of a model; it has {self.names}"
                )
            found[short] = name
        return found


def _names_of_updates(program: Program, update: WeightUpdate | None, traced: Trace) -> list[str]:
    """What anchors of a training program can name beside tensors of the forward pass."""
    if update is None:
        return []
    weights = [name for name in traced.twins.parameters if name in program.written]
    state = [*update.state.scalars, *update.state.states.values()]
    found = [prefix + name for name in sorted(weights) for prefix in (GRADIENT, _UPDATED)]
    return [*found, *dict.fromkeys(state)]


def make_executable(
    traced: Trace,
    arguments: BoundArguments,
    update: WeightUpdate | None,
    settings: CompileSettings,
) -> Executable:
    """Compile a trace.

    Args:
        traced: The traced module.
        arguments: What it was traced with.
        update: How weights are updated; None: inference.
        settings: How.

    Returns:
        The compiled model, not attached.

    Raises:
        Error: Options and program do not fit.
    """
    options = settings.options
    anchors = _Anchors(options.anchored_tensors, traced)
    results = [*traced.structure.tensors(), *anchors.streamed.values()]
    builder = ProgramBuilder(
        traced.recording,
        traced.inputs,
        traced.twins,
        results,
        settings.schedule,
        update,
        settings.seed,
    )
    program = builder.build()
    buffers = program.written - traced.twins.parameters
    is_empty = not (results or traced.recording.nodes or traced.structure.has_host_tensors)
    check_program([] if is_empty else program.devices, buffers, options)
    read_anchors = anchors.variables(program.ir)
    configure(program.ir, options)
    if settings.cache is not None:
        use_cache(program.ir, settings.cache)
    settings.program_made()
    with profiled(options):
        session = popxl.Session(program.ir, device_for(options), weights_to_host_on_exit=True)
    return Executable(
        arguments=arguments,
        structure=traced.structure,
        shapes=[(tuple(meta.shape), device_dtype(meta.dtype)) for meta in results],
        program=program,
        session=session,
        schedule=settings.schedule,
        seed=settings.seed,
        tensor_names=[*anchors.names, *_names_of_updates(program, update, traced)],
        anchors=list(anchors.streamed),
        read_anchors=read_anchors,
    )
