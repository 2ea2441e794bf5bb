"""The whole program: streams, iterations, accumulation, gradients, updates and replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import popxl
from poptorch import enums
from poptorch._lower.dtypes import host_array
from poptorch._lower.forward import make_forward_graph
from poptorch._lower.loops import SharedTensors, repeated
from poptorch._lower.losses import find_loss, weights_of
from poptorch._lower.lowering import broadcast_to, cast
from poptorch._lower.ops_pointwise import number
from poptorch._lower.regions import fold_regions
from poptorch._lower.update_variables import WeightGradient
from poptorch._lower.weight_update import WeightUpdate
from poptorch._trace.recording import Recording
from poptorch._trace.twins import Twins
from popxl import ops
from popxl.ops.random_seed import create_random_seed

SEED_VARIABLE = "randomSeed___fromHost"


@dataclass
class Schedule:
    """How many micro-batches there are, and what becomes of their results.

    Attributes:
        iterations: Device iterations of a run.
        accumulation: Micro-batches of a weight update.
        replicas: Replicas of the program.
        output_mode: Which results come back; never `Default`.
        mean: Whether gradients are averaged over micro-batches and replicas, or summed.
    """

    iterations: int = 1
    accumulation: int = 1
    replicas: int = 1
    output_mode: enums.OutputMode = enums.OutputMode.All
    mean: bool = True

    @property
    def transfers(self) -> int:
        """Micro-batches that a replica gets in a run."""
        return self.iterations * self.accumulation

    @property
    def stores_each(self) -> bool:
        """Whether every micro-batch sends its results to the host."""
        one = self.transfers == 1
        return one or self.output_mode in (enums.OutputMode.All, enums.OutputMode.EveryN)


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
    """

    ir: popxl.Ir
    inputs: list[popxl.HostToDeviceStream]
    outputs: list[popxl.DeviceToHostStream]
    written_inputs: dict[int, popxl.DeviceToHostStream]
    names: list[str]
    written: set[str] = field(default_factory=set)


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
        self.ir.num_host_transfers = schedule.transfers
        loss = None if update is None else find_loss(recording)
        self._forward = make_forward_graph(self.ir, recording, inputs, twins.metas, results, loss)
        weights = {name: meta for name, meta in twins.metas.items() if name in twins.parameters}
        self._weights = [] if loss is None else weights_of(loss[1], weights)
        self._gradient_graph = self._differentiate()
        self._seed = seed

    def _differentiate(self) -> Any:
        forward = self._forward
        if forward.loss is None:
            return None
        wanted = [forward.tensors[name] for name in self._weights]
        return popxl.transforms.autodiff(
            forward.graph, grads_provided=[forward.loss], grads_required=wanted
        )

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
            last = repeated("iteration", schedule.iterations, carried, variables, self._iteration)
            if self._forward.random:
                ops.var_updates.copy_var_update_(seed_variable, last[0])
            if not schedule.stores_each:
                for stream, result in zip(self._outputs, last[1:], strict=True):
                    ops.host_store(stream, result)
        program = Program(
            self.ir, self._inputs, self._outputs, self._written_inputs, list(self._twins.metas)
        )
        program.written = set(self._forward.written) | set(self._weights)
        return program

    def _make_variables(self) -> SharedTensors:
        shared = SharedTensors(self.ir.main_graph)
        for name, original in self._twins.originals.items():
            shared.variable(name, host_array(original))
        replicas = self._schedule.replicas
        seeds = np.array([[self._seed & 0xFFFFFFFF, r] for r in range(replicas)], np.uint32)
        if replicas > 1:
            shared.variable(SEED_VARIABLE, seeds, self.ir.replica_grouping(group_size=1))
        else:
            shared.variable(SEED_VARIABLE, seeds[0])
        return shared

    def _make_streams(self) -> None:
        forward = self._forward
        self._inputs = [popxl.h2d_stream(t.shape, t.dtype, name=t.name) for t in forward.inputs]
        self._outputs = [
            popxl.d2h_stream(t.shape, t.dtype, name=f"output/{i}" if i else "output")
            for i, t in enumerate(forward.outputs)
        ]
        self._written_inputs = {
            i: popxl.d2h_stream(t.shape, t.dtype, name=f"written_input/{i}")
            for i, t in forward.written_inputs.items()
        }

    def _first_results(self) -> list[popxl.Tensor]:
        """What the loops carry before the first micro-batch, where results stay in the program."""
        if self._schedule.stores_each:
            return []
        return [
            ops.init(stream.shape, stream.dtype, name=f"{stream.tensor_id}_carried")
            for stream in self._outputs
        ]

    def _iteration(
        self, carried: list[popxl.Tensor], shared: SharedTensors
    ) -> Sequence[popxl.Tensor]:
        """A weight update, or in inference a micro-batch."""
        if self._update is None:
            return self._micro_batch(carried, shared, {})[0]
        accumulation = self._schedule.accumulation
        if accumulation == 1:
            carried, gradients = self._micro_batch(carried, shared, {})
        else:
            sums = {
                name: ops.init(shared[name].shape, popxl.float32, name=f"Accum___{name}")
                for name in self._weights
            }
            prefix = "Accum___"

            def body(
                inner: list[popxl.Tensor], inner_shared: SharedTensors
            ) -> Sequence[popxl.Tensor]:
                targets = {name: inner_shared[prefix + name] for name in sums}
                return self._micro_batch(inner, inner_shared, targets)[0]

            for name, total in sums.items():
                shared.add(prefix + name, total)
            carried = repeated("micro_batch", accumulation, carried, shared, body)
            gradients = sums
        self._apply(gradients, shared)
        return carried

    def _micro_batch(
        self, carried: list[popxl.Tensor], shared: SharedTensors, sums: Mapping[str, popxl.Tensor]
    ) -> tuple[list[popxl.Tensor], dict[str, popxl.Tensor]]:
        """Forward and backward pass of one micro-batch; gradients go to the sums, if any."""
        forward = self._forward
        seed, *results = carried
        given: dict[popxl.Tensor, popxl.Tensor] = {forward.seed: seed}
        for stream, target in zip(self._inputs, forward.inputs, strict=True):
            given[target] = ops.host_load(stream)
        for name, target in forward.tensors.items():
            given[target] = shared[name]
        info = ops.call_with_info(forward.graph, inputs_dict=given)
        gradients = self._gradients(info, shared)
        if self._update is not None:
            self._update.observe(list(gradients.values()), shared)
        for name, total in sums.items():
            ops.var_updates.accumulate_(total, gradients[name])
        for name, value in forward.written.items():
            ops.var_updates.copy_var_update_(shared[name], info.graph_to_parent(value))
        for place, changed in forward.written_inputs.items():
            ops.host_store(self._written_inputs[place], info.graph_to_parent(changed))
        made = [info.graph_to_parent(t) for t in forward.outputs]
        if self._schedule.stores_each:
            for target_stream, result in zip(self._outputs, made, strict=True):
                ops.host_store(target_stream, result)
        elif self._schedule.output_mode is enums.OutputMode.Sum:
            results = [ops.add(total, result) for total, result in zip(results, made, strict=True)]
        else:
            results = made
        next_seed = create_random_seed(seed, 0) if forward.random else seed
        return [next_seed, *results], gradients

    def _gradients(self, info: Any, shared: SharedTensors) -> dict[str, popxl.Tensor]:
        if self._gradient_graph is None or self._update is None:
            return {}
        loss = self._forward.loss
        assert loss is not None
        factor = self._update.seed_factor(shared)
        scale = factor if isinstance(factor, popxl.Tensor) else number(factor, popxl.float32)
        seed_gradient = broadcast_to(cast(scale, loss.dtype), loss.shape)
        called = ops.call_with_info(
            self._gradient_graph.graph,
            seed_gradient,
            inputs_dict=self._gradient_graph.inputs_dict(info),
        )
        by_input = self._gradient_graph.fwd_graph_ins_to_grad_parent_outs(called)
        return {
            name: by_input[self._forward.tensors[name]]
            for name in self._weights
            if self._forward.tensors[name] in by_input
        }

    def _apply(self, gradients: Mapping[str, popxl.Tensor], shared: SharedTensors) -> None:
        assert self._update is not None
        schedule = self._schedule
        micro_batches = schedule.accumulation * schedule.replicas
        reduced = {}
        for name, gradient in gradients.items():
            if schedule.replicas > 1:
                gradient = ops.collectives.replicated_all_reduce(gradient)
            if schedule.mean and micro_batches > 1:
                gradient = ops.mul(gradient, number(1 / micro_batches, gradient.dtype))
            reduced[name] = WeightGradient(name, shared[name], gradient)
        self._update.apply(reduced, shared)
