"""From a module and its arguments to a session: trace, lowering, compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import popart
import popxl
from pando.memory_budget import MemoryBudget
from pando.settings import use_session_settings
from poptorch import enums
from poptorch._args_parser import BoundArguments
from poptorch._compile_hooks import call_post_compile_hooks, call_pre_compile_hooks
from poptorch._compile_options import check_program, configure, device_for, profiled, use_cache
from poptorch._executable import Executable
from poptorch._file_tensors import move_to_files
from poptorch._impl import createPoptorchError
from poptorch._logging import logger
from poptorch._lower.dtypes import device_dtype
from poptorch._lower.loss_scaling import automatic_loss_scaling
from poptorch._lower.phased_program import PhasedProgramBuilder
from poptorch._lower.program import Program, ProgramBuilder
from poptorch._lower.schedule import Schedule
from poptorch._lower.table import SHAPE_RULES, is_lowered
from poptorch._lower.weight_update import WeightUpdate, names_of_groups
from poptorch._memory_fit import (
    DoesNotFitError,
    FitPlan,
    budget_of,
    check_disk,
    may_be_whole,
    plan_of,
    settings_of,
)
from poptorch._optimizer_device import DeviceOptimizer
from poptorch._options_memory import MemoryFit
from poptorch._program_variables import ProgramVariables
from poptorch._replica_groups import ReplicaGroups
from poptorch._tensor_names import names_of_tensors
from poptorch._trace.blocks import repeated_blocks
from poptorch._trace.tracer import Trace, TraceSettings, trace
from poptorch.options import Options


def schedule_of(
    options: Options, groups: Mapping[str, ReplicaGroups], anchored: Sequence[str]
) -> Schedule:
    """Choose the loops of a program.

    Args:
        options: The model's own options.
        groups: The parameters with a value for each group of replicas.
        anchored: What anchors name beside tensors of the forward pass.

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
        anchored=anchored,
    )


def _blocks_of(module: torch.nn.Module, fit: MemoryFit) -> Sequence[str]:
    return repeated_blocks(module) if fit.blocks is None else fit.blocks


def trace_module(
    module: torch.nn.Module,
    arguments: BoundArguments,
    options: Options,
    training: bool,
    groups: Mapping[str, ReplicaGroups],
    phased: bool = False,
) -> Trace:
    """Trace a module as options ask for.

    Args:
        module: The module.
        arguments: The arguments of one micro-batch.
        options: The model's own options.
        training: Whether the program trains.
        groups: The parameters with a value for each group of replicas.
        phased: Whether the program will be in phases.

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
        blocks=_blocks_of(module, options.memory_fit) if phased else (),
    )
    return trace(module, arguments, settings)


@dataclass
class CompileSettings:
    """How a module is compiled.

    Attributes:
        options: The model's own options.
        training: Whether the program trains.
        groups: The parameters with a value for each group of replicas.
        seed: The random seed.
        cache: The folder of compiled programs, or None.
        trace_made: Called when there is a trace.
        program_made: Called when there is a program, which is then compiled.
        restarted: Called when all begins anew, in phases.
    """

    options: Options
    training: bool
    groups: Mapping[str, ReplicaGroups]
    seed: int
    cache: Path | None
    trace_made: Callable[[], None]
    program_made: Callable[[], None]
    restarted: Callable[[], None]


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
        self.others = {short: long for short, (long, *_) in asked.items() if long not in named}

    def check(self, program: Program) -> None:
        """Check that a program has what is named beside tensors of the forward pass.

        Args:
            program: The program.

        Raises:
            Error: It has no such tensor.
        """
        for short, long in self.others.items():
            if long not in program.anchored:
                names = [*self.names, *program.anchor_names]
                raise createPoptorchError(
                    f"anchorTensor: there is no tensor {long} in the graph, which '{short}' names. "
                    f"PoplarExecutor.getTensorNames lists those of a model; it has {names}"
                )


def compile_module(
    module: torch.nn.Module,
    arguments: BoundArguments,
    optimizer: DeviceOptimizer | None,
    settings: CompileSettings,
) -> tuple[Executable, WeightUpdate | None]:
    """Compile a module: whole, or in phases where options name a memory that it does not fit in.

    Args:
        module: The module.
        arguments: The arguments of one micro-batch.
        optimizer: What updates its weights; None: inference.
        settings: How.

    Returns:
        The compiled model, not attached, and how weights are updated.

    Raises:
        Error: Options and module do not fit, or the module does something that no program can.
        OutOfMemoryException: The program does not fit in the memory that options name.
    """
    fit, replicas = settings.options.memory_fit, settings.options.replication_factor
    if fit is not None:
        move_to_files(module, fit.folder)
    if fit is not None and may_be_whole(fit, module.state_dict(), settings.training, replicas):
        try:
            return _compile_once(module, arguments, optimizer, settings, phased=False)
        except (popart.OutOfMemoryException, DoesNotFitError, MemoryError) as error:
            logger.info("fit_in: the whole program does not fit, so it is in phases: %s", error)
            settings.restarted()
    try:
        return _compile_once(module, arguments, optimizer, settings, phased=fit is not None)
    except DoesNotFitError as error:
        raise createPoptorchError(str(error)) from error


def _compile_once(
    module: torch.nn.Module,
    arguments: BoundArguments,
    optimizer: DeviceOptimizer | None,
    settings: CompileSettings,
    phased: bool,
) -> tuple[Executable, WeightUpdate | None]:
    options = settings.options
    traced = trace_module(module, arguments, options, settings.training, settings.groups, phased)
    settings.trace_made()
    update = None
    if optimizer is not None:
        values = optimizer.values_to_compile()
        groups = names_of_groups(values, traced.twins.originals)
        update = WeightUpdate(values, groups, automatic_loss_scaling(options._Popart.options))
    return _make_executable(traced, arguments, update, settings, phased), update


def _make_executable(
    traced: Trace,
    arguments: BoundArguments,
    update: WeightUpdate | None,
    settings: CompileSettings,
    phased: bool,
) -> Executable:
    """Compiles a trace."""
    options = settings.options
    anchors = _Anchors(options.anchored_tensors, traced)
    results = [*traced.structure.tensors(), *anchors.streamed.values()]
    others = list(dict.fromkeys(anchors.others.values()))
    schedule = schedule_of(options, settings.groups, others)
    builder = (PhasedProgramBuilder if phased else ProgramBuilder)(
        traced.recording, traced.inputs, traced.twins, results, schedule, update, settings.seed
    )
    program = builder.build()
    buffers = program.written - traced.twins.parameters
    needs_device = bool(results or traced.recording.nodes)
    is_empty = not (needs_device or traced.structure.has_host_tensors)
    check_program([] if is_empty else program.devices, buffers, options)
    anchors.check(program)
    configure(program.ir, options)
    if settings.cache is not None:
        use_cache(program.ir, settings.cache)
    settings.program_made()
    fit: MemoryFit | None = options.memory_fit
    budget = None if fit is None else budget_of(fit, program)
    session = session_of(program, options, budget)
    folder = fit.folder if phased and fit is not None else None
    return Executable(
        arguments=arguments,
        structure=traced.structure,
        shapes=[(tuple(meta.shape), device_dtype(meta.dtype)) for meta in results],
        program=program,
        session=session,
        variables=ProgramVariables(session, program.rows, folder),
        schedule=schedule,
        seed=settings.seed,
        tensor_names=[*anchors.names, *program.anchor_names],
        anchors=list(anchors.streamed),
        other_anchors=anchors.others,
        needs_device=needs_device,
        budget=budget,
        plan=_plan_of(program, options, budget, session),
    )


def session_of(program: Program, options: Options, budget: MemoryBudget | None) -> popxl.Session:
    """Compile a program.

    Args:
        program: The program.
        options: The model's own options.
        budget: The shares of the memory that options name; None: they name none.

    Returns:
        A session without a device.

    Raises:
        OutOfMemoryException: The program does not fit in the memory that options name.
    """
    # The module has the weights, of which another copy would only take memory.
    settings: dict[str, Any] = {"keep_host_values": False}
    if budget is not None:
        settings = settings_of(options.memory_fit, budget)
    with profiled(options), use_session_settings(**settings):
        return popxl.Session(program.ir, device_for(options), weights_to_host_on_exit=True)


def _plan_of(
    program: Program, options: Options, budget: MemoryBudget | None, session: popxl.Session
) -> FitPlan | None:
    """How a program fits in the memory that options name."""
    if budget is None:
        return None
    plan = plan_of(options.memory_fit, budget, program, session)
    check_disk(options.memory_fit, plan.remote_bytes)
    return plan
