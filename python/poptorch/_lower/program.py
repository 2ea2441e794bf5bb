"""The whole program: streams, iterations, accumulation, gradients, updates and replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

import popxl
from poptorch import enums
from poptorch._lower.dtypes import popxl_dtype, zeros_like
from poptorch._lower.loops import SharedTensors, called, repeated
from poptorch._lower.losses import find_loss, weights_of
from poptorch._lower.lowering import cast
from poptorch._lower.micro_batch import MicroBatch
from poptorch._lower.ops_pointwise import number
from poptorch._lower.overlap import check_overlaps
from poptorch._lower.phase_rows import StoredRow
from poptorch._lower.pipelines import PipelineWork, run_pipeline
from poptorch._lower.regions import fold_regions
from poptorch._lower.schedule import GRADIENT, REDUCED_GRADIENT, SUM, UPDATED, Schedule
from poptorch._lower.segments import Segment, split_into_segments
from poptorch._lower.stage_gradients import differentiate_stages
from poptorch._lower.stages import StageMaker
from poptorch._lower.update_variables import WeightGradient, on_device, product
from poptorch._lower.weight_update import WeightUpdate
from poptorch._trace.recording import Recording
from poptorch._trace.twins import Twins
from popxl import ops
from popxl.ops.random_seed import create_random_seed

SEED_VARIABLE = "randomSeed___fromHost"


@dataclass
class Program:
    """A program that can be compiled and run.

    Attributes:
        ir: The popxl program.
        inputs: The streams of the model's inputs, in order.
        outputs: The streams of its results, in order.
        written_inputs: The streams of inputs that the model writes, by number of the input.
        names: The names of all variables of the user's module.
        written: The names of those that a run changes.
        anchored: The streams of what anchors name beside tensors of the forward pass, by that name.
        anchor_names: What they can name so.
        devices: The virtual devices of its ops.
        rows: The variables of the module and of the optimizer that are rows of remote buffers.
        phases: Its parts that are in memory one after another.
        graphs: How many different graphs the forward passes of these are.
        phase_bytes: The weights and the state of the optimizer of the largest phase.
    """

    ir: popxl.Ir
    inputs: list[popxl.HostToDeviceStream]
    outputs: list[popxl.DeviceToHostStream]
    written_inputs: dict[int, popxl.DeviceToHostStream]
    names: list[str]
    written: set[str] = field(default_factory=set)
    anchored: dict[str, popxl.DeviceToHostStream] = field(default_factory=dict)
    anchor_names: list[str] = field(default_factory=list)
    devices: set[int] = field(default_factory=set)
    rows: dict[str, StoredRow] = field(default_factory=dict)
    phases: int = 1
    graphs: int = 1
    phase_bytes: int = 0


class ProgramBuilder:
    """Makes a program of a recording.

    Args:
        recording: The traced forward pass.
        inputs: The meta tensors of one micro-batch of the inputs.
        twins: Parameters and buffers of the module.
        results: The meta tensors of the results.
        schedule: The loops around them.
        update: How weights are updated; None: inference.
        seed: The random seed.
    """

    def __init__(
        self,
        recording: Recording,
        inputs: Sequence[torch.Tensor],
        twins: Twins,
        results: Sequence[torch.Tensor],
        schedule: Schedule,
        update: WeightUpdate | None,
        seed: int,
    ) -> None:
        recording.check_supported()
        recording.nodes = fold_regions(recording.nodes)
        self._schedule = schedule
        self._update = update
        self._twins = twins
        self.ir = popxl.Ir(replication=schedule.replicas)
        self._groupings = {name: one.grouping(self.ir) for name, one in schedule.groups.items()}
        self.ir.num_host_transfers = schedule.transfers
        loss = None if update is None else find_loss(recording)
        segments = self._split(recording)
        self._is_pipelined = schedule.pipelines(segments, update is not None)
        check_overlaps(
            recording.nodes,
            inputs,
            results,
            schedule.output_mode,
            schedule.num_io_tiles,
            self._is_pipelined,
        )
        maker = StageMaker(recording, segments, inputs, twins.metas)
        self._forward = maker.make(self.ir, results, loss)
        weights = {name: meta for name, meta in twins.metas.items() if name in twins.parameters}
        self._weights = [] if loss is None else weights_of(loss[1], weights)
        self._share_graphs(maker, segments)
        self._gradients = differentiate_stages(self._forward, self._weights)
        self._seed = seed
        self._anchored: dict[str, popxl.DeviceToHostStream] = {}

    def _split(self, recording: Recording) -> list[Segment]:
        """The parts of the forward pass that are graphs of their own."""
        return split_into_segments(self._schedule.strategy, recording.nodes)

    def _share_graphs(self, maker: StageMaker, segments: Sequence[Segment]) -> None:
        """Lets parts run the graphs of others, where that is worth while."""

    def build(self) -> Program:
        """Make the program.

        Returns:
            The program, with the values that the module's tensors have now.
        """
        schedule = self._schedule
        with self.ir.main_graph, popxl.in_sequence():
            variables = self._make_variables()
            self._make_streams()
            seed_variable = variables[SEED_VARIABLE]
            carried = [seed_variable, *self._first_results()]
            last = self._run(carried, variables)
            if not self._outputs:
                # A model may return only what it found on the host; a session wants an op.
                ops.identity(seed_variable)
            if self._forward.random:
                ops.var_updates.copy_var_update_(seed_variable, last[0])
            if not schedule.stores_each:
                for stream, result in zip(self._outputs, last[1:], strict=True):
                    ops.host_store(stream, result)
        names = list(self._twins.metas)
        program = Program(self.ir, self._inputs, self._outputs, self._written_inputs, names)
        program.devices = self._forward.devices
        program.written = set(self._forward.written) | set(self._weights)
        program.anchored, program.anchor_names = self._anchored, list(self._anchor_names())
        return program

    def _make_variables(self) -> SharedTensors:
        schedule = self._schedule
        shared = SharedTensors(self.ir.main_graph)
        for name, original in self._twins.originals.items():
            # The values are written when a device is attached.
            array, groups = zeros_like(original), schedule.groups.get(name)
            if groups is not None:
                array = groups.to_device(name, array, schedule.replicas)
            shared.variable(name, array, self._groupings.get(name))
        self._add_seed(shared)
        return shared

    def _add_seed(self, shared: SharedTensors) -> None:
        replicas = self._schedule.replicas
        seeds = np.array([[self._seed & 0xFFFFFFFF, r] for r in range(replicas)], np.uint32)
        if replicas > 1:
            shared.variable(SEED_VARIABLE, seeds, self.ir.replica_grouping(group_size=1))
        else:
            shared.variable(SEED_VARIABLE, seeds[0])

    def _make_streams(self) -> None:
        forward = self._forward
        self._inputs = [
            popxl.h2d_stream(
                tuple(meta.shape), popxl_dtype(meta.dtype), name=f"input/{i}" if i else "input"
            )
            for i, meta in enumerate(forward.inputs)
        ]
        self._outputs = [
            _stream_of(one.tensor, f"output/{i}" if i else "output")
            for i, one in enumerate(forward.outputs)
        ]
        self._written_inputs = {
            i: _stream_of(one.tensor, f"written_input/{i}")
            for i, one in forward.written_inputs.items()
        }

    def _first_results(self) -> list[popxl.Tensor]:
        """What the loops carry before the first micro-batch, where results stay in the program."""
        if self._schedule.stores_each:
            return []
        results = []
        for stream, device in zip(self._outputs, self._output_devices(), strict=True):
            with popxl.ipu(device):
                name = f"{stream.tensor_id}_carried"
                results.append(ops.init(stream.shape, stream.dtype, name=name))
        return results

    def _output_devices(self) -> list[int]:
        forward = self._forward
        return [forward.stages[one.stage].ipu for one in forward.outputs]

    def _run(self, carried: list[popxl.Tensor], shared: SharedTensors) -> list[popxl.Tensor]:
        iterations = self._schedule.iterations
        if self._update is None:
            self._store_anchored(shared)
            return self._micro_batches("iteration", iterations, carried, shared, {})
        return repeated("iteration", iterations, carried, shared, self._update_step)

    def _anchor_names(self) -> dict[str, str]:
        """What anchors can name beside tensors of the forward pass, and how it is shared."""
        found = {SEED_VARIABLE: SEED_VARIABLE}
        if self._update is None:
            return found
        for name in sorted(self._weights):
            found |= {prefix + name: GRADIENT + name for prefix in (GRADIENT, REDUCED_GRADIENT)}
            found[UPDATED + name] = name
            if self._schedule.accumulation > 1:
                found[SUM + name] = SUM + name
        state = self._update.state
        return {**found, **state.states, **dict(zip(state.scalars, state.scalars, strict=True))}

    def _value_of(self, name: str, shared: SharedTensors) -> popxl.Tensor | None:
        """What is shared by that name in the current graph, or None."""
        return shared.get(name)

    def _store_anchored(self, shared: SharedTensors) -> None:
        """Sends the host what anchors name, after an update or before a run of inference."""
        names = self._anchor_names()
        for anchor in self._schedule.anchored:
            value = self._value_of(names.get(anchor, anchor), shared)
            if value is not None:
                self._anchored[anchor] = _stream_of(value, f"anchor/{anchor}")
                ops.host_store(self._anchored[anchor], value)

    def _update_step(
        self, carried: list[popxl.Tensor], shared: SharedTensors
    ) -> Sequence[popxl.Tensor]:
        """All micro-batches of one update of the weights, and the update."""
        accumulation = self._schedule.accumulation
        if accumulation == 1:
            carried, gradients = self._micro_batch(carried, shared)
        else:
            gradients = self._first_sums(shared)
            carried = self._micro_batches("micro_batch", accumulation, carried, shared, gradients)
        if len(self._forward.devices) == 1:
            self._apply(gradients, shared)
        else:
            # In a graph of its own, where all tensors are on the device of the ops that use them.
            called("update", gradients, shared, self._apply)
        self._store_anchored(shared)
        return carried

    def _first_sums(self, shared: SharedTensors) -> dict[str, popxl.Tensor]:
        assert self._update is not None
        dtype = popxl_dtype(self._update.values.accum_type)
        sums = {}
        for name in self._weights:
            with popxl.ipu(self._forward.home_of(name)):
                shape = shared[name].shape
                sums[name] = ops.init(shape, dtype, name=SUM + name)
        return sums

    def _micro_batches(
        self,
        name: str,
        count: int,
        carried: list[popxl.Tensor],
        shared: SharedTensors,
        sums: Mapping[str, popxl.Tensor],
    ) -> list[popxl.Tensor]:
        """So many micro-batches, whose gradients are added to the sums."""
        for weight, total in sums.items():
            shared.add(SUM + weight, total)
        if self._is_pipelined:
            return self._pipeline(count, carried, shared, sums)

        # Means need the number of micro-batches before this one.
        keeps_means = self._schedule.keeps_means and bool(sums)
        first_counts = [number(0.0, popxl.float32)] if keeps_means else []

        def body(inner: list[popxl.Tensor], inner_shared: SharedTensors) -> Sequence[popxl.Tensor]:
            counts, rest = inner[: len(first_counts)], inner[len(first_counts) :]
            rest, gradients = self._micro_batch(rest, inner_shared)
            for weight in sums:
                total = inner_shared[SUM + weight]
                if counts:
                    ops.var_updates.accumulate_mean_(total, gradients[weight], counts[0])
                else:
                    ops.var_updates.accumulate_(total, gradients[weight])
            return [*(count + 1.0 for count in counts), *rest]

        last = repeated(name, count, [*first_counts, *carried], shared, body)
        return last[len(first_counts) :]

    def _micro_batch(
        self, carried: list[popxl.Tensor], shared: SharedTensors
    ) -> tuple[list[popxl.Tensor], dict[str, popxl.Tensor]]:
        """Forward and backward pass of one micro-batch; gives the gradients."""
        forward = self._forward
        seed, *results = carried
        batch = MicroBatch(forward, self._gradients, self._inputs, shared)
        for stage in forward.stages:
            with popxl.ipu(stage.ipu):
                batch.run_stage(seed)
        gradients = self._gradients_of(batch, shared)
        for name, value in forward.written.items():
            batch.write(name, value)
        for place, changed in forward.written_inputs.items():
            ops.host_store(self._written_inputs[place], batch.value(changed))
        made = [batch.value(one) for one in forward.outputs]
        if self._schedule.stores_each:
            for target_stream, result in zip(self._outputs, made, strict=True):
                ops.host_store(target_stream, result)
        elif self._schedule.output_mode is enums.OutputMode.Sum:
            results = [ops.add(total, result) for total, result in zip(results, made, strict=True)]
        else:
            results = made
        next_seed = create_random_seed(seed, 0) if forward.random else seed
        return [next_seed, *results], gradients

    def _gradients_of(self, batch: MicroBatch, shared: SharedTensors) -> dict[str, popxl.Tensor]:
        """The gradients of a micro-batch, from the last stage to the first."""
        if self._update is None:
            return {}
        gradients: dict[str, popxl.Tensor] = {}
        scale = self._scale(shared)
        for index, stage in reversed(list(enumerate(self._forward.stages))):
            with popxl.ipu(stage.ipu):
                for name, gradient in batch.run_gradient(index, scale).items():
                    earlier = gradients.get(name)
                    gradients[name] = gradient if earlier is None else ops.add(earlier, gradient)
        for name in self._weights:
            if name not in gradients:
                with popxl.ipu(self._forward.home_of(name)):
                    weight = shared[name]
                    gradients[name] = ops.init(weight.shape, weight.dtype, f"{GRADIENT}{name}")
        self._update.observe(gradients, shared)
        return gradients

    def _scale(self, shared: SharedTensors) -> popxl.Tensor:
        """What the gradient of the loss is."""
        assert self._update is not None
        factor = product(self._update.seed_factor(shared), 1 / self._schedule.seed_divisor)
        return factor if isinstance(factor, popxl.Tensor) else number(factor, popxl.float32)

    def _pipeline(
        self,
        count: int,
        carried: list[popxl.Tensor],
        shared: SharedTensors,
        sums: Mapping[str, popxl.Tensor],
    ) -> list[popxl.Tensor]:
        seed, *results = carried
        totals = []
        for result, device in zip(results, self._output_devices(), strict=False):
            with popxl.ipu(device):
                totals.append(ops.identity(result))
        taken: dict[str, popxl.Tensor] = {}

        def keep(made: Mapping[int, popxl.Tensor]) -> None:
            for i, result in made.items():
                if self._schedule.stores_each:
                    ops.host_store(self._outputs[i], result)
                    continue
                is_sum = self._schedule.output_mode is enums.OutputMode.Sum
                kept = ops.add(totals[i], result) if is_sum else result
                ops.var_updates.copy_var_update_(totals[i], kept)

        def take(gradients: Mapping[str, popxl.Tensor], is_last: bool) -> None:
            for name, gradient in gradients.items():
                share = 1 / count if self._schedule.keeps_means else None
                ops.var_updates.accumulate_(sums[name], gradient, share)
            taken.update(gradients)
            if is_last and self._update is not None:
                self._update.observe(taken, shared)

        work = PipelineWork(
            self._forward,
            MicroBatch(self._forward, self._gradients, self._inputs, shared, snapshots=True),
            keep,
            lambda place, changed: ops.host_store(self._written_inputs[place], changed),
            None if self._update is None else lambda: self._scale(shared),
            take,
        )
        return [run_pipeline(count, work, seed), *totals]

    def _apply(self, gradients: Mapping[str, popxl.Tensor], shared: SharedTensors) -> None:
        assert self._update is not None
        reduced = {name: self._reduced(name, one, shared) for name, one in gradients.items()}
        self._update.apply(reduced, shared)

    def _reduced(self, name: str, gradient: popxl.Tensor, shared: SharedTensors) -> WeightGradient:
        """The gradient of a weight over all micro-batches and replicas, on the weight's device."""
        assert self._update is not None
        grouping = self._groupings.get(name)
        device = self._forward.home_of(name) if len(self._forward.devices) > 1 else None
        with on_device(device):
            accum_type = self._update.values.accum_type
            gradient = over_replicas(gradient, self._schedule, accum_type, grouping)
        reduced = WeightGradient(name, shared[name], gradient, grouping, device)
        if name in self._schedule.kept_gradients:
            keep_gradient(reduced, shared)
        return reduced


def over_replicas(
    gradient: popxl.Tensor,
    schedule: Schedule,
    accum_type: torch.dtype,
    grouping: popxl.ReplicaGrouping | None = None,
) -> popxl.Tensor:
    """Reduce the accumulated gradient of a weight, as the schedule says.

    Args:
        gradient: That of one replica.
        schedule: Says how many replicas there are, and whether the result is a sum or a mean.
        accum_type: What the optimizer accumulates in.
        grouping: The groups of replicas that share the weight; None: all share it.

    Returns:
        That of all replicas of a group.
    """
    replicas = schedule.replicas if grouping is None else grouping.group_size
    if replicas > 1:
        summand = cast(gradient, popxl.float32) if accum_type == torch.float32 else gradient
        gradient = ops.collectives.replicated_all_reduce(summand, "add", grouping)
    divisor = schedule.gradient_divisor(replicas)
    return ops.mul(gradient, number(1 / divisor, gradient.dtype)) if divisor > 1 else gradient


def keep_gradient(one: WeightGradient, shared: SharedTensors) -> None:
    """Copy a gradient to a variable, where it can be read.

    Args:
        one: The gradient.
        shared: The variables, in the current graph.
    """
    groups = 1 if one.grouping is None else one.grouping.num_groups
    shape = (groups, *one.gradient.shape) if groups > 1 else one.gradient.shape
    initial = np.zeros(shape, np.float32)
    kept = shared.variable(GRADIENT + one.name, initial, one.grouping)
    ops.var_updates.copy_var_update_(kept, cast(one.gradient, popxl.float32))


def _stream_of(t: popxl.Tensor, name: str) -> popxl.DeviceToHostStream:
    return popxl.d2h_stream(t.shape, t.dtype, name=name)
