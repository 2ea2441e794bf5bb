"""The ops of one micro-batch: calls of the stages and of their gradient graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import popxl
from poptorch._lower.loops import SharedTensors
from poptorch._lower.lowering import broadcast_to, cast
from poptorch._lower.stage_gradients import StageGradient
from poptorch._lower.stages import ForwardStages, Source, StageTensor
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.transforms import GradGraphInfo

# What a gradient graph is called with, given the forward call.
Activations = Callable[[CallSiteInfo, GradGraphInfo], Mapping[popxl.Tensor, popxl.Tensor]]


def kept_activations(
    call: CallSiteInfo, info: GradGraphInfo
) -> Mapping[popxl.Tensor, popxl.Tensor]:
    """What a gradient graph needs of the forward call as it is.

    Args:
        call: The forward call.
        info: The gradient graph.

    Returns:
        Tensors by input of the gradient graph.
    """
    return info.inputs_dict(call)


def moved(t: popxl.Tensor, source: int, destination: int) -> popxl.Tensor:
    """A tensor on a device.

    Args:
        t: The tensor.
        source: The device that it is on.
        destination: The device.

    Returns:
        The tensor itself where both are the same, else a copy.
    """
    return t if source == destination else ops.ipu_copy(t, destination, source)


class MicroBatch:
    """One micro-batch in the current graph. Stages are called in order.

    Args:
        forward: The forward pass.
        gradients: The gradient graphs of its stages.
        streams: The streams of the model's inputs.
        shared: The variables, in the current graph.
        snapshots: Whether stages get copies of the tensors that they write: later micro-batches
            may have written them again when the gradient is computed.
    """

    def __init__(
        self,
        forward: ForwardStages,
        gradients: Sequence[StageGradient | None],
        streams: Sequence[popxl.HostToDeviceStream],
        shared: SharedTensors,
        snapshots: bool = False,
    ) -> None:
        self._forward = forward
        self._gradients = gradients
        self._streams = streams
        self._shared = shared
        self._snapshots = snapshots
        self._inputs: dict[int, popxl.Tensor] = {}
        self._values: dict[Source, popxl.Tensor] = {}
        # Gradients of values, with the devices that made them.
        self._cotangents: dict[Source, list[tuple[popxl.Tensor, int]]] = {}
        self._calls: list[CallSiteInfo] = []

    def run_stage(self, seed: popxl.Tensor) -> None:
        """Call the next stage.

        Args:
            seed: The seed of the micro-batch.
        """
        number = len(self._calls)
        stage = self._forward.stages[number]
        given = {} if stage.seed is None else {stage.seed: seed}
        if number == 0:
            self._load_unread()
        for source, target in stage.reads.items():
            given[target] = self._read(source)
        call = ops.call_with_info(stage.graph, inputs_dict=given)
        self._calls.append(call)
        for source, tensor in stage.values.items():
            self._values[source] = call.graph_to_parent(tensor)

    def _load_unread(self) -> None:
        """Streams go on also where nothing reads them."""
        read = {
            source.name
            for stage in self._forward.stages
            for source in stage.reads
            if source.kind == "input"
        }
        for number in range(len(self._streams)):
            if number not in read:
                self._load(number)

    def _load(self, number: int) -> popxl.Tensor:
        if number not in self._inputs:
            self._inputs[number] = ops.host_load(self._streams[number])
        return self._inputs[number]

    def _read(self, source: Source) -> popxl.Tensor:
        if source.kind == "value":
            return self._values[source]
        if source.kind == "input":
            return self._load(int(source.name))
        name = str(source.name)
        tensor = self._shared[name]
        copies = self._snapshots and name in self._forward.written
        return ops.identity(tensor) if copies else tensor

    def value(self, one: StageTensor) -> popxl.Tensor:
        """A tensor of a stage that was called, in the current graph.

        Args:
            one: The tensor.

        Returns:
            The tensor of the current graph, on the device of the stage.
        """
        return self._calls[one.stage].graph_to_parent(one.tensor)

    def write(self, name: str, one: StageTensor) -> None:
        """Give a parameter or buffer the value that a stage has made.

        Args:
            name: Its name.
            one: The value.
        """
        value = self._at_home(name, self.value(one), one.stage)
        ops.var_updates.copy_var_update_(self._shared[name], value)

    def _at_home(self, name: str, t: popxl.Tensor, stage: int) -> popxl.Tensor:
        """A tensor of a stage on the device of a parameter or buffer."""
        return moved(t, self._forward.stages[stage].ipu, self._forward.home_of(name))

    def run_gradient(
        self, number: int, scale: popxl.Tensor, activations: Activations = kept_activations
    ) -> dict[str, popxl.Tensor]:
        """Call the gradient graph of a stage, behind those of all later stages.

        Args:
            number: The number of the stage.
            scale: The gradient of the loss: a float32 tensor of one element.
            activations: What the graph is called with.

        Returns:
            The gradients of weights by name, on the devices of these.
        """
        gradient = self._gradients[number]
        if gradient is None:
            return {}
        device = self._forward.stages[number].ipu
        seeds = [
            self._loss_gradient(scale) if source is None else self._cotangent(source, device)
            for source in gradient.provided
        ]
        called = ops.call_with_info(
            gradient.info.graph,
            *seeds,
            inputs_dict=activations(self._calls[number], gradient.info),
        )
        by_input = gradient.info.fwd_graph_ins_to_grad_parent_outs(called)
        for source, tensor in gradient.values.items():
            self._cotangents.setdefault(source, []).append((by_input[tensor], device))
        return {
            name: self._at_home(name, by_input[tensor], number)
            for name, tensor in gradient.weights.items()
        }

    def _cotangent(self, source: Source, device: int) -> popxl.Tensor:
        """The gradient of a value: the sum of what all stages that read it give."""
        parts = self._cotangents[source]
        if len(parts) == 1:
            return parts[0][0]
        return functools.reduce(ops.add, [moved(t, at, device) for t, at in parts])

    def _loss_gradient(self, scale: popxl.Tensor) -> popxl.Tensor:
        assert self._forward.loss is not None
        loss = self._forward.loss.tensor
        return broadcast_to(cast(scale, loss.dtype), loss.shape)
