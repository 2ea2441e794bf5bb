"""The phases of one step: forward from the first to the last, backward from the last to the first.

A phase runs over all micro-batches before the next one begins. In the backward pass a phase is
computed again from its inputs, which alone are kept, and then differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import popxl
from poptorch import enums
from poptorch._lower.lowering import broadcast_to, cast
from poptorch._lower.phase_rows import Row
from poptorch._lower.phase_updates import PhaseUpdates
from poptorch._lower.phase_work import PhasedWork
from poptorch._lower.stage_gradients import StageGradient
from poptorch._lower.stages import Source, StageGraph
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.ops.random_seed import create_random_seed

# Seeds of phases are made of that of the step with numbers from here on, which no op uses.
_FIRST_PHASE_SEED = 1 << 31
_GRADIENT = "gradient"
Tensors = list[popxl.Tensor]


@dataclass
class _Reads:
    """What a phase reads.

    Attributes:
        module: Tensors of the module.
        streamed: What is there for each micro-batch.
    """

    module: list[Source] = field(default_factory=list)
    streamed: list[Source] = field(default_factory=list)

    @classmethod
    def of(cls, stage: StageGraph) -> _Reads:
        """Sort what a phase reads.

        Args:
            stage: The phase.

        Returns:
            Its sources.
        """
        reads = cls()
        for source in stage.reads:
            (reads.module if source.kind == "tensor" else reads.streamed).append(source)
        return reads

    def call(self, stage: StageGraph, values: Tensors, seed: popxl.Tensor) -> CallSiteInfo:
        """Call the graph of the phase.

        Args:
            stage: The phase.
            values: Tensors of the module, then what is streamed.
            seed: The seed of the micro-batch.

        Returns:
            The call.
        """
        sources = [*self.module, *self.streamed]
        given = {stage.reads[source]: value for source, value in zip(sources, values, strict=True)}
        if stage.seed is not None:
            given[stage.seed] = seed
        return ops.call_with_info(stage.graph, inputs_dict=given)


class PhaseStep:
    """The ops of one step, in the current graph.

    Args:
        work: What there is to do.
        seed: The seed of the step.
        totals: Results that stay in the program, in the order of the results; none where every
            micro-batch sends its own.
    """

    def __init__(self, work: PhasedWork, seed: popxl.Tensor, totals: Tensors) -> None:
        self._work = work
        self._seed = seed
        self._totals = totals
        self._with_gradient: set[Source] = set()

    @property
    def _last(self) -> int:
        return len(self._work.forward.stages) - 1

    @property
    def _ends_with_loss(self) -> bool:
        """Whether the last phase computes the loss: its forward pass is that of its backward."""
        loss = self._work.forward.loss
        return loss is not None and loss.stage == self._last

    def run_forward(self) -> None:
        """Bring the micro-batches from the host, and run all phases that no gradient runs."""
        self._bring_inputs()
        count = self._last if self._ends_with_loss else self._last + 1
        for number in range(count):
            with popxl.name_scope("forward"):
                self._run_forward(number)

    def run_backward(self, scale: popxl.Tensor, updates: PhaseUpdates) -> None:
        """Run the backward pass of all phases, and update their weights.

        Args:
            scale: The gradient of the loss: a float32 tensor of one element.
            updates: What updates the weights.
        """
        for number, gradient in reversed(list(enumerate(self._work.gradients))):
            if gradient is not None:
                self._run_backward(number, gradient, scale, updates)

    def _bring_inputs(self) -> None:
        streams, rows = self._work.inputs, self._work.rows
        sources = [Source("input", i) for i in range(len(streams))]
        read = [source for source in sources if rows.has(source)]

        def body(_loaded: Tensors, _given: Tensors, _seed: popxl.Tensor) -> tuple[Tensors, Tensors]:
            tensors = [ops.host_load(stream) for stream in streams]
            return [tensors[int(source.name)] for source in read], []

        stores = [rows.of(source) for source in read]
        self._work.loops.run("inputs", [], stores, [], self._seed, body)

    def _weights(self, reads: _Reads) -> dict[Source, popxl.Tensor]:
        loaded = {}
        for source in reads.module:
            row = self._work.rows.of(source)
            loaded[source] = ops.remote_load(row.buffer, row.number, str(source.name))
        return loaded

    def _seed_of(self, number: int) -> popxl.Tensor:
        if self._work.forward.stages[number].seed is None:
            return self._seed
        return create_random_seed(self._seed, _FIRST_PHASE_SEED + number)

    def _rows_of(self, sources: Sequence[Source], kind: str = "") -> list[Row]:
        return [self._work.rows.of(source, kind) for source in sources]

    def _run_forward(self, number: int) -> None:
        stage, reads = (
            self._work.forward.stages[number],
            _Reads.of(self._work.forward.stages[number]),
        )
        stored = [source for source in stage.values if self._work.rows.has(source)]

        def body(loaded: Tensors, given: Tensors, seed: popxl.Tensor) -> tuple[Tensors, Tensors]:
            count = len(reads.module)
            call = reads.call(stage, [*given[:count], *loaded], seed)
            self._give_results(number, call, given[count:])
            return [call.graph_to_parent(stage.values[source]) for source in stored], []

        self._work.loops.run(
            ("forward", stage.graph.id, tuple(stage.values[source].id for source in stored)),
            self._rows_of(reads.streamed),
            self._rows_of(stored),
            [*self._weights(reads).values(), *self._totals_of(number)],
            self._seed_of(number),
            body,
        )

    def _totals_of(self, number: int) -> Tensors:
        """The results of a phase that stay in the program."""
        pairs = zip(self._work.forward.outputs, self._totals, strict=False)
        return [total for one, total in pairs if one.stage == number]

    def _give_results(self, number: int, call: CallSiteInfo, totals: Tensors) -> None:
        """Sends the results of a phase to the host, or keeps them for later."""
        schedule, rest = self._work.schedule, list(totals)
        for index, one in enumerate(self._work.forward.outputs):
            if one.stage != number:
                continue
            result = call.graph_to_parent(one.tensor)
            if schedule.stores_each:
                ops.host_store(self._work.outputs[index], result)
                continue
            total = rest.pop(0)
            is_sum = schedule.output_mode is enums.OutputMode.Sum
            ops.var_updates.copy_var_update_(total, ops.add(total, result) if is_sum else result)

    def _run_backward(
        self, number: int, gradient: StageGradient, scale: popxl.Tensor, updates: PhaseUpdates
    ) -> None:
        """Computes a phase again, differentiates it and updates its weights."""
        stage, reads = (
            self._work.forward.stages[number],
            _Reads.of(self._work.forward.stages[number]),
        )
        arriving = [source for source in gradient.provided if source is not None]
        earlier = [source for source in gradient.values if source in self._with_gradient]
        self._with_gradient |= gradient.values.keys()
        with popxl.name_scope("backward"):
            weights, sums = self._weights(reads), updates.first_sums(gradient)
        totals = self._totals_of(number) if number == self._last else []

        def body(loaded: Tensors, given: Tensors, seed: popxl.Tensor) -> tuple[Tensors, Tensors]:
            values, rest = given[: len(reads.module)], given[len(reads.module) :]
            inputs, cotangents = loaded[: len(reads.streamed)], loaded[len(reads.streamed) :]
            call = reads.call(stage, [*values, *inputs], seed)
            if number == self._last:
                self._give_results(number, call, rest[1 + len(sums) :])
            known = dict(zip(arriving, cotangents, strict=False))
            made = self._differentiated(gradient, call, known, rest[0])
            before = dict(zip(earlier, cotangents[len(arriving) :], strict=True))
            stored = [
                ops.add(before[source], made[tensor]) if source in before else made[tensor]
                for source, tensor in gradient.values.items()
            ]
            kept = [made[tensor] for tensor in gradient.weights.values()]
            for total, one in zip(rest[1:], kept, strict=False) if sums else ():
                updates.add(total, one)
            return stored, kept

        with popxl.name_scope("backward"):
            kept = self._work.loops.run(
                ("backward", gradient.info.graph.id, tuple(gradient.values[s].id for s in earlier)),
                [*self._rows_of(reads.streamed), *self._rows_of([*arriving, *earlier], _GRADIENT)],
                self._rows_of(list(gradient.values), _GRADIENT),
                [*weights.values(), scale, *sums, *totals],
                self._seed_of(number),
                body,
            )
        # Outside of scopes, for the names of variables are a contract.
        updates.update(gradient, weights, sums or list(kept))

    def _differentiated(
        self,
        gradient: StageGradient,
        call: CallSiteInfo,
        known: dict[Source, popxl.Tensor],
        scale: popxl.Tensor,
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """The gradients of the inputs of a graph that was called."""
        assert self._work.forward.loss is not None
        loss = self._work.forward.loss.tensor
        seeds = [
            broadcast_to(cast(scale, loss.dtype), loss.shape) if source is None else known[source]
            for source in gradient.provided
        ]
        info = gradient.info
        called = ops.call_with_info(info.graph, *seeds, inputs_dict=info.inputs_dict(call))
        return dict(info.fwd_graph_ins_to_grad_parent_outs(called))
