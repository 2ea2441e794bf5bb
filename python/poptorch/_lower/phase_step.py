"""The phases of one step: forward from the first to the last, backward from the last to the first.

A phase runs over all micro-batches before the next one begins. In the backward pass a phase is
computed again from its inputs, which alone are kept, and then differentiated.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import popxl
from poptorch import enums
from poptorch._lower.lowering import broadcast_to, cast
from poptorch._lower.phase_rows import Row
from poptorch._lower.phase_updates import PhaseUpdates
from poptorch._lower.phase_work import PhasedWork
from poptorch._lower.stage_gradients import StageGradient
from poptorch._lower.stages import ForwardStages, Source
from poptorch._lower.update_variables import WeightGradient
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.ops.random_seed import create_random_seed

# Seeds of phases are made of that of the step with numbers from here on, which no op uses.
_FIRST_PHASE_SEED = 1 << 31
_GRADIENT = "gradient"
Tensors = list[popxl.Tensor]


class _Phase:
    """One run of a phase: what it reads, and what it writes.

    Args:
        forward: All phases.
        number: The number of this one.
        writes: Whether it writes; not the second time that it is computed.

    Attributes:
        stage: The phase.
        module: The tensors of the module: those that it reads, then those that it only writes.
        streamed: What it reads that is there for each micro-batch.
        written: New values of tensors of the module, as outputs of its graph.
        written_inputs: New values of inputs of the model, by number.
    """

    def __init__(self, forward: ForwardStages, number: int, writes: bool) -> None:
        self.stage = forward.stages[number]
        self.written = {
            Source("tensor", name): one.tensor
            for name, one in forward.written.items()
            if writes and one.stage == number
        }
        self.written_inputs = {
            i: one.tensor
            for i, one in forward.written_inputs.items()
            if writes and one.stage == number
        }
        read = [source for source in self.stage.reads if source.kind == "tensor"]
        self.module = read + [source for source in self.written if source not in self.stage.reads]
        self.streamed = [source for source in self.stage.reads if source.kind != "tensor"]

    @property
    def key(self) -> Hashable:
        """What phases have in common that write the same."""
        return (self.stage.graph.id, tuple(tensor.id for tensor in self.written.values()))

    def call(self, module: Tensors, streamed: Tensors, seed: popxl.Tensor) -> CallSiteInfo:
        """Call the graph of the phase, and write what it writes to tensors of the module.

        Args:
            module: Tensors of the module.
            streamed: What is streamed.
            seed: The seed of the micro-batch.

        Returns:
            The call.
        """
        known = dict(zip(self.module, module, strict=True))
        known |= dict(zip(self.streamed, streamed, strict=True))
        given = {tensor: known[source] for source, tensor in self.stage.reads.items()}
        if self.stage.seed is not None:
            given[self.stage.seed] = seed
        call = ops.call_with_info(self.stage.graph, inputs_dict=given)
        for source, tensor in self.written.items():
            ops.var_updates.copy_var_update_(known[source], call.graph_to_parent(tensor))
        return call


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

    def run_forward(self) -> None:
        """Bring the micro-batches from the host, and run all phases that no gradient runs."""
        self._bring_inputs()
        for number in range(self._last + 1):
            # The forward pass of the one that computes the loss is that of its backward pass.
            if not self._work.forward.runs_once(number):
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

    def _weights(self, phase: _Phase) -> dict[Source, popxl.Tensor]:
        loaded = {}
        for source in phase.module:
            row = self._work.rows.of(source)
            loaded[source] = ops.remote_load(row.buffer, row.number, str(source.name))
        return loaded

    def _store_written(self, phase: _Phase, weights: Mapping[Source, popxl.Tensor]) -> None:
        for source in phase.written:
            row = self._work.rows.of(source)
            ops.remote_store(row.buffer, row.number, weights[source])

    def _seed_of(self, number: int) -> popxl.Tensor:
        if self._work.forward.stages[number].seed is None:
            return self._seed
        return create_random_seed(self._seed, _FIRST_PHASE_SEED + number)

    def _rows_of(self, sources: Sequence[Source], kind: str = "") -> list[Row]:
        return [self._work.rows.of(source, kind) for source in sources]

    def _run_forward(self, number: int) -> None:
        phase = _Phase(self._work.forward, number, writes=True)
        values = phase.stage.values
        stored = [source for source in values if self._work.rows.has(source)]
        weights = self._weights(phase)

        def body(loaded: Tensors, given: Tensors, seed: popxl.Tensor) -> tuple[Tensors, Tensors]:
            count = len(weights)
            call = phase.call(given[:count], loaded, seed)
            self._give_results(number, phase, call, given[count:])
            return [call.graph_to_parent(values[source]) for source in stored], []

        self._work.loops.run(
            ("forward", phase.key, tuple(values[source].id for source in stored)),
            self._rows_of(phase.streamed),
            self._rows_of(stored),
            [*weights.values(), *self._totals_of(number)],
            self._seed_of(number),
            body,
        )
        self._store_written(phase, weights)

    def _totals_of(self, number: int) -> Tensors:
        """The results of a phase that stay in the program."""
        pairs = zip(self._work.forward.outputs, self._totals, strict=False)
        return [total for one, total in pairs if one.stage == number]

    def _give_results(
        self, number: int, phase: _Phase, call: CallSiteInfo, totals: Tensors
    ) -> None:
        """Sends what a phase gives to the host, or keeps results for later."""
        schedule, rest = self._work.schedule, list(totals)
        for i, tensor in phase.written_inputs.items():
            ops.host_store(self._work.written_inputs[i], call.graph_to_parent(tensor))
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
        is_first_run = self._work.forward.runs_once(number)
        phase = _Phase(self._work.forward, number, writes=is_first_run)
        arriving = [source for source in gradient.provided if source is not None]
        earlier = [source for source in gradient.values if source in self._with_gradient]
        self._with_gradient |= gradient.values.keys()
        with popxl.name_scope("backward"):
            weights, sums = self._weights(phase), updates.first_sums(gradient)
        totals = self._totals_of(number) if is_first_run else []
        counters = updates.counters()

        def body(loaded: Tensors, given: Tensors, seed: popxl.Tensor) -> tuple[Tensors, Tensors]:
            values, rest = given[: len(weights)], given[len(weights) + len(counters) :]
            inputs, cotangents = loaded[: len(phase.streamed)], loaded[len(phase.streamed) :]
            call = phase.call(values, inputs, seed)
            if is_first_run:
                self._give_results(number, phase, call, rest[1 + len(sums) :])
            known = dict(zip(arriving, cotangents, strict=False))
            made = self._differentiated(gradient, call, known, rest[0])
            before = dict(zip(earlier, cotangents[len(arriving) :], strict=True))
            stored = [
                ops.add(before[source], made[tensor]) if source in before else made[tensor]
                for source, tensor in gradient.values.items()
            ]
            kept = [made[tensor] for tensor in gradient.weights.values()]
            known_weights = dict(zip(phase.module, values, strict=True))
            found = [
                WeightGradient(name, known_weights[Source("tensor", name)], one)
                for name, one in zip(gradient.weights, kept, strict=True)
            ]
            updates.observe(found, given[len(weights) : len(weights) + len(counters)])
            for total, one in zip(rest[1:], kept, strict=False) if sums else ():
                updates.add(total, one)
            return stored, kept

        with popxl.name_scope("backward"):
            kept = self._work.loops.run(
                (
                    "backward",
                    phase.key,
                    gradient.info.graph.id,
                    tuple(gradient.values[source].id for source in earlier),
                ),
                [*self._rows_of(phase.streamed), *self._rows_of([*arriving, *earlier], _GRADIENT)],
                self._rows_of(list(gradient.values), _GRADIENT),
                [*weights.values(), *counters, scale, *sums, *totals],
                self._seed_of(number),
                body,
            )
            self._store_written(phase, weights)
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
