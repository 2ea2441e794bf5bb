"""Pipelines: stages that work on different micro-batches at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import popxl
from pando import _core
from popart._internal import ir as _ir
from popxl.context import create_op, get_current_context
from popxl.ops.call import CallSiteInfo
from popxl.ops.utils import check_in_graph
from popxl.transforms.autodiff import GradGraphInfo

__all__ = ["Pipelining", "get_op_pipeline_stage", "pipelined_execution"]

# Those whose contexts are open.
_open_pipelines: list[Pipelining] = []


class Pipelining:
    """The stages of a pipeline while it is being built, and then its schedule.

    Args:
        graph: The graph in which the ops are created.
    """

    def __init__(self, graph: popxl.Graph) -> None:
        self._graph = graph
        self._current: list[int] = []
        self._staged: list[tuple[_core.Op, int]] = []
        self._stage_of: dict[int, int] = {}
        self._schedule: _core.PipelineSchedule | None = None

    @property
    def schedule(self) -> _core.PipelineSchedule:
        """Which stage works on which micro-batch in which cycle; `print` shows it as a table.

        Raises:
            RuntimeError: The pipeline is being built.
        """
        if self._schedule is None:
            raise RuntimeError(
                "schedule: wanted a pipeline that is complete; leave `with "
                "pipelined_execution(steps)` first"
            )
        return self._schedule

    def _record(self, op: _core.Op) -> None:
        if op.graph is not self._graph._pb:
            return
        if not self._current:
            raise RuntimeError(
                f"{op.describe()} was created inside pipelined_execution but outside a stage: "
                "create it inside `with pipeline.stage(i):`"
            )
        self._staged.append((op, self._current[-1]))
        self._stage_of[op.id] = self._current[-1]

    def _stage_of_tensor(self, t: popxl.Tensor) -> int | None:
        producer = t._pb.producer
        return None if producer is None else self._stage_of.get(producer.id)

    @contextmanager
    def stage(self, stage: int) -> Iterator[None]:
        """A context in which ops belong to a stage.

        Args:
            stage: 0, 1, 2, ...; a stage may be entered several times.

        Raises:
            ValueError: The number is negative.
        """
        if stage < 0:
            raise ValueError(f"wanted a stage of 0 or more; given {stage}")
        self._current.append(stage)
        try:
            yield
        finally:
            self._current.pop()

    def stash_and_restore_tensor(
        self, t: popxl.Tensor, from_stage: int | None = None
    ) -> popxl.Tensor:
        """A tensor as its stage made it for the micro-batch that the current stage works on.

        Args:
            t: A tensor of an earlier stage.
            from_stage: That stage; None means the one that made `t`.

        Returns:
            A tensor of the current stage with those values.

        Raises:
            RuntimeError: There is no current stage, or no stage made `t` and none is given.
            TypeError: The stage is not before the current one.
        """
        if not self._current:
            raise RuntimeError("stash_and_restore_tensor: wanted to be called inside a stage")
        check_in_graph(self._graph, t=t)
        source = self._stage_of_tensor(t) if from_stage is None else from_stage
        if source is None:
            raise RuntimeError(
                f"stash_and_restore_tensor: no stage of the pipeline makes {t!r}; give from_stage"
            )
        if source >= self._current[-1]:
            raise TypeError(
                f"stash_and_restore_tensor: wanted a tensor of a stage before stage "
                f"{self._current[-1]}; {t!r} is of stage {source}"
            )
        op = create_op("Identity", [t], {}, names=[f"{t.name}_restored"], settings_name="restore")
        restored: popxl.Tensor = popxl.Tensor._from_pb(op.outputs[0])
        return restored

    def stash_and_restore_activations(
        self, call_info: CallSiteInfo, grad_info: GradGraphInfo
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """What a gradient graph needs of a forward call that was made in an earlier stage.

        Args:
            call_info: The forward call.
            grad_info: The contract of the gradient graph.

        Returns:
            Gradient graph input -> tensor, for the `args` of its call. What earlier stages of the
            pipeline made is restored; variables and other tensors from outside are passed as they
            are.

        Raises:
            RuntimeError: There is no current stage.
        """
        activations = grad_info.inputs_dict(call_info)
        if not self._current:
            raise RuntimeError("stash_and_restore_activations: wanted to be called inside a stage")
        if self._stage_of.get(call_info._pb.id) == self._current[-1]:
            return activations
        restored: dict[popxl.Tensor, popxl.Tensor] = {}
        for tensor in activations.values():
            stage = self._stage_of_tensor(tensor)
            if tensor not in restored and stage is not None and stage != self._current[-1]:
                restored[tensor] = self.stash_and_restore_tensor(tensor)
        return {key: restored.get(tensor, tensor) for key, tensor in activations.items()}


@contextmanager
def pipelined_execution(steps: int) -> Iterator[Pipelining]:
    """Turns the ops created in the body, each inside a stage, into a pipeline.

    With S stages, stage k works on micro-batch c - k in cycle c. The results are those of running
    all stages in order for every micro-batch, if state is only read in the stage that writes it. On
    exit the ops are in a graph of their own that the current graph calls once.

    Args:
        steps: The number of micro-batches, at least S: F in inference and 2 F - 1 in training, with
            F forward stages of which the last one computes its gradient too. A run uses every
            stream so often.

    Yields:
        The pipeline, with its `stage` contexts.

    Raises:
        ValueError: There are fewer steps.
        RuntimeError: An op was created outside of a stage.
    """
    graph = popxl.gcg()
    pipeline = Pipelining(graph)
    _open_pipelines.append(pipeline)
    listeners: list[Any] = get_current_context()._created_listeners
    listeners.append(pipeline._record)
    try:
        yield pipeline
    finally:
        listeners.remove(pipeline._record)
        _open_pipelines.remove(pipeline)
    context = get_current_context()
    schedule = _core.pipeline(
        graph._pb, pipeline._staged, steps, context.op_context("pipelined_execution")
    )
    pipeline._schedule = schedule
    graph.ir._pipelines.append(schedule)
    (call,) = (
        op for op in graph._pb.ops if schedule.graph in [callee.id for callee in op.called_graphs]
    )
    context._ops_moved(graph._pb, call)


def get_op_pipeline_stage(op: _ir.Op) -> int | None:
    """The stage that an op was created in, while its pipeline is being built and afterwards.

    Afterwards the ops of stage k are those of the graph `pipeline.schedule.stages[k].graph`.

    Args:
        op: An op of the internal graph, as `graph._pb_graph.getOps()` lists them.

    Returns:
        The number of the stage; None for an op that was created outside of pipelines or in a graph
        that a stage calls.
    """
    core_op: _core.Op = op._pb
    for pipeline in _open_pipelines:
        if core_op.graph is pipeline._graph._pb and core_op.id in pipeline._stage_of:
            return pipeline._stage_of[core_op.id]
    for schedule in popxl.Ir._from_core_id(core_op.graph.ir_id)._pipelines:
        for index, stage in enumerate(schedule.stages):
            if stage.graph == core_op.graph.id:
                return index
    return None


_INSTEAD = {
    "PipelineBoundGraph": "pipelined_execution makes and calls the graph of a pipeline by itself",
    "StageContext": "`pipeline.stage(i)` gives the context of a stage",
    "Stash": "`pipeline.stash_and_restore_tensor` keeps tensors for later stages",
    "Restore": "`pipeline.stash_and_restore_tensor` gives tensors of earlier stages",
}


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        raise AttributeError(f"{name} is not available: {_INSTEAD[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
