"""One trace of a module, from its arguments to what it returned."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

from pando.interrupts import HeldInterrupts
from poptorch import _impl
from poptorch._args_parser import BoundArguments, Structure
from poptorch._impl import createPoptorchError
from poptorch._ops import trace_state
from poptorch._private_torch import BatchNorm, without_modes, without_validation
from poptorch._strategies import ExecutionStrategy
from poptorch._trace.blocks import block_marks
from poptorch._trace.device import DeviceMode
from poptorch._trace.functions import functions_recorded
from poptorch._trace.recorder import Recorder, ShapeRule
from poptorch._trace.recording import Recording, check_not_empty
from poptorch._trace.twins import Twins, module_scopes, twins_in


@dataclass
class Trace:
    """A traced forward pass.

    Attributes:
        recording: What it called.
        inputs: The meta tensors of its inputs, in canonical order.
        twins: Parameters and buffers.
        structure: What it returned.
    """

    recording: Recording
    inputs: list[torch.Tensor]
    twins: Twins
    structure: Structure


@dataclass
class TraceSettings:
    """How a module is traced.

    Attributes:
        lowers: Whether an operator is lowered as it is, by name.
        shape_rules: Results in place of those of torch's meta kernels, by name.
        location_excludes: Parts of file names that are not the user's program.
        module_names: Whether modules name their ops.
        strategy: Where blocks run.
        training: Whether the program trains.
        before: What is called when tracing is on.
        after: What is called when it ends, also when it fails.
        per_replica: The names of parameters that have one value for each group of replicas.
        blocks: The paths of modules whose calls are noted with their ops.
    """

    lowers: Callable[[str], bool]
    shape_rules: Mapping[str, ShapeRule]
    location_excludes: Sequence[str]
    module_names: bool
    strategy: ExecutionStrategy
    training: bool
    before: Callable[[], None]
    after: Callable[[], None]
    per_replica: Collection[str] = ()
    blocks: Collection[str] = ()


def _check_shapes(given: Sequence[tuple[str, torch.Size]], metas: Iterable[torch.Tensor]) -> None:
    for (what, shape), meta in zip(given, metas, strict=True):
        if shape != meta.shape:
            raise createPoptorchError(
                f"{what} of shape {list(shape)} is changed to shape {list(meta.shape)} in "
                "place. Use the form that returns a view, such as squeeze for squeeze_"
            )


def _check_results(results: Iterable[torch.Tensor]) -> None:
    for result in results:
        if result.is_complex():
            raise createPoptorchError(
                f"A result of the model is complex, {result.dtype} of shape {list(result.shape)}; "
                "results are real: return torch.view_as_real of it"
            )


def _check_statistics(part: torch.nn.Module, _inputs: object) -> None:
    """A cumulative mean weighs a batch by a count, which Python would have to know."""
    cumulates = part.training and part.track_running_stats and part.momentum is None
    if cumulates:
        raise createPoptorchError(
            f"{type(part).__name__} with momentum=None is unsupported in training: its running "
            "statistics are cumulative. Give it a momentum, such as 0.1, or call eval() on it"
        )


@contextmanager
def _on_the_host(twins: Twins) -> Iterator[None]:
    """Functions of torch, and the module's tensors, are as they are outside of the trace."""
    with without_modes(), twins.away():
        yield


@contextmanager
def _statistics_checked(module: torch.nn.Module) -> Iterator[None]:
    norms = [part for part in module.modules() if isinstance(part, BatchNorm)]
    handles = [norm.register_forward_pre_hook(_check_statistics) for norm in norms]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def trace(module: torch.nn.Module, arguments: BoundArguments, settings: TraceSettings) -> Trace:
    """Call a module once, on tensors without data, and record what it does.

    The module is as it was afterwards, also when it raises.

    Args:
        module: The module.
        arguments: The arguments of one micro-batch.
        settings: How.

    Returns:
        The trace.

    Raises:
        Error: The module does something that no program can.
    """
    recorder = Recorder(settings.lowers, settings.shape_rules, list(settings.location_excludes))
    given = [named.tensor for named in arguments.tensors()]
    check_not_empty(given)
    metas = [torch.empty_like(tensor.contiguous(), device="meta") for tensor in given]
    bound = arguments.with_tensors(metas)
    # Only the module itself can be interrupted: what is replaced for the trace is always put back.
    with HeldInterrupts() as held, ExitStack() as stack:
        twins = stack.enter_context(twins_in(module, settings.per_replica))
        for name, (meta, buffer) in twins.complex_buffers.items():
            recorder.complex_numbers.define_buffer(name, meta, buffer)
        stack.enter_context(module_scopes(module, recorder.state, settings.module_names))
        stack.enter_context(_statistics_checked(module))
        stack.enter_context(block_marks(module, recorder, settings.blocks))
        stack.enter_context(without_validation())
        _impl.set_dispatch_tracing(True)
        stack.callback(_impl.set_dispatch_tracing, False)
        stack.callback(settings.after)
        settings.before()
        state = stack.enter_context(
            trace_state.tracing(
                settings.strategy, settings.training, functools.partial(_on_the_host, twins)
            )
        )
        recorder.recording.host_layers = state.host_layers
        shapes = [("An input", meta.shape) for meta in metas]
        shapes += [(f"The tensor {name}", meta.shape) for name, meta in twins.metas.items()]
        with (
            recorder.recording_on(),
            DeviceMode(recorder),
            functions_recorded(settings.training),
            held.allowed(),
        ):
            output = module(*bound.args, **bound.kwargs)
        _check_shapes(shapes, (*metas, *twins.metas.values()))
        structure = Structure(output)
        check_not_empty(structure.tensors())
        _check_results(structure.tensors())
    return Trace(recorder.recording, metas, twins, structure)
