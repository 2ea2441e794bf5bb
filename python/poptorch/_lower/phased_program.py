"""A program in phases: a part of the model is in memory, with its weights, only when it runs.

All else is in remote buffers: weights, state of the optimizer, what goes from phase to phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import popxl
from poptorch._impl import createPoptorchError
from poptorch._logging import logger
from poptorch._lower.loops import SharedTensors, repeated
from poptorch._lower.phase_loops import PhaseLoops
from poptorch._lower.phase_rows import RowTable, StoredRow
from poptorch._lower.phase_step import PhaseStep
from poptorch._lower.phase_updates import PhaseUpdates
from poptorch._lower.phase_work import PhasedWork
from poptorch._lower.phase_writes import check_writes
from poptorch._lower.phases import share_graphs, split_into_phases
from poptorch._lower.program import Program, ProgramBuilder
from poptorch._lower.segments import Segment
from poptorch._lower.stages import Source, StageGraph, StageMaker
from poptorch._trace.recording import Recording
from popxl import ops
from popxl.ops.random_seed import create_random_seed


class PhasedProgramBuilder(ProgramBuilder):
    """Makes a program in phases of a recording whose nodes know their blocks."""

    def _split(self, recording: Recording) -> list[Segment]:
        segments = split_into_phases(recording.nodes, recording.blocks)
        if len(segments) == 1:
            raise createPoptorchError(
                "fit_in: the model is too large for the memory as a whole, and no module of it was "
                "called that repeats: name those that are to be phases, fit_in(..., "
                "blocks=['encoder', 'decoder'])"
            )
        if any(node.placement.ipu > 0 for node in recording.nodes):
            logger.warning("fit_in: all phases run on one device; those of blocks are not used")
        return segments

    def _share_graphs(self, maker: StageMaker, segments: Sequence[Segment]) -> None:
        kinds: dict[int, object] = {id(meta): "tensor" for meta in self._twins.metas.values()}
        groups = self._update.groups if self._update is not None else ()
        for index, names in enumerate(groups):
            kinds |= {id(self._twins.metas[name]): index for name in names if name in self._weights}
        share_graphs(maker, segments, self._forward, kinds, self._twins.metas)

    def build(self) -> Program:
        """Make the program.

        Returns:
            The program; the tensors of the module are in its rows.
        """
        schedule, forward = self._schedule, self._forward
        count = schedule.iterations if self._update is None else schedule.accumulation
        check_writes(forward, self._gradients, count)
        with self.ir.main_graph:
            rows = RowTable(forward.stages, forward.written, count)
            sources = {name: Source("tensor", name) for name in self._twins.metas}
            stored = {
                name: StoredRow(rows.of(source), grouping=self._groupings.get(name))
                for name, source in sources.items()
                if rows.has(source)
            }
        loops = PhaseLoops(count)
        self._work = PhasedWork(
            forward, self._gradients, rows, loops, schedule, stored, self._groupings
        )
        program = super().build()
        # A tensor that nothing reads or writes is not in the program.
        program.names = [name for name in program.names if name in stored]
        program.rows = stored
        program.phases = len(forward.stages)
        program.graphs = len({stage.graph.id for stage in forward.stages})
        program.phase_bytes = max(self._bytes_of(stage, stored) for stage in forward.stages)
        return program

    def _bytes_of(self, stage: StageGraph, stored: Mapping[str, StoredRow]) -> int:
        """The weights of a phase with the state of the optimizer that belongs to them."""
        weights = {str(source.name) for source in stage.reads if source.kind == "tensor"}
        return sum(
            one.nbytes for name, one in stored.items() if name.rpartition("___")[2] in weights
        )

    def _make_variables(self) -> SharedTensors:
        shared = SharedTensors(self.ir.main_graph)
        self._add_seed(shared)
        return shared

    def _run(self, carried: list[popxl.Tensor], shared: SharedTensors) -> list[popxl.Tensor]:
        iterations = 1 if self._update is None else self._schedule.iterations
        self._work.inputs, self._work.outputs = self._inputs, self._outputs
        self._work.written_inputs = self._written_inputs
        return repeated("iteration", iterations, carried, shared, self._step)

    def _value_of(self, name: str, shared: SharedTensors) -> popxl.Tensor | None:
        if name not in self._work.stored:
            return super()._value_of(name, shared)
        row = self._work.stored[name].row
        return ops.remote_load(row.buffer, row.number, name)

    def _step(self, carried: list[popxl.Tensor], shared: SharedTensors) -> Sequence[popxl.Tensor]:
        """All phases of one update of the weights, or of a run of inference."""
        seed, *results = carried
        totals = [ops.identity(result) for result in results]
        step = PhaseStep(self._work, seed, totals)
        step.run_forward()
        if self._update is not None and self._forward.loss is not None:
            updates = PhaseUpdates(self._work, self._update, shared)
            step.run_backward(self._scale(shared), updates)
            updates.finish()
        self._store_anchored(shared)
        return [create_random_seed(seed, 0) if self._forward.random else seed, *totals]
