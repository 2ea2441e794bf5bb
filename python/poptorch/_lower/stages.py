"""The forward pass of one micro-batch as graphs, one for each segment of the recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

import popxl
from poptorch._lower.dtypes import popxl_dtype
from poptorch._lower.lowering import Gradients, GraphLowering
from poptorch._lower.segments import Segment, memories_written
from poptorch._lower.views import detached_view
from poptorch._trace.recorder import memory_of
from poptorch._trace.recording import Node, Recording
from popxl import ops

SEED = "seed"


@dataclass(frozen=True)
class Source:
    """Where a graph gets one of its inputs from.

    Attributes:
        kind: `input` of the model, `tensor` of the module, or `value` that an earlier stage made.
        name: The number of the input, the name of the tensor, or the identity of the value.
        stage: The stage that made the value; -1 for others.
    """

    kind: str
    name: int | str
    stage: int = -1


@dataclass
class StageGraph:
    """One segment as a graph.

    Attributes:
        ipu: The virtual device.
        graph: The graph.
        seed: Its input for the seed of the micro-batch; None: it draws no random numbers.
        reads: Its other inputs by where they come from.
        metas: The meta tensors of those inputs.
        values: Its outputs that later stages read.
    """

    ipu: int
    graph: popxl.Graph
    seed: popxl.Tensor | None = None
    reads: dict[Source, popxl.Tensor] = field(default_factory=dict)
    metas: dict[Source, torch.Tensor] = field(default_factory=dict)
    values: dict[Source, popxl.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class StageTensor:
    """A tensor of one of the graphs.

    Attributes:
        stage: The number of the graph.
        tensor: The tensor.
    """

    stage: int
    tensor: popxl.Tensor


@dataclass
class ForwardStages:
    """The forward pass as graphs.

    Attributes:
        stages: The graphs in the order in which they run, at least one.
        inputs: The meta tensors of the inputs of the model.
        outputs: The results of the model, in order.
        written: New values of parameters and buffers that the model writes, by name.
        written_inputs: New values of inputs that the model writes, by number.
        loss: The loss; None in inference.
        gradients: Of functions that have a gradient of their own.
    """

    stages: list[StageGraph]
    inputs: list[torch.Tensor]
    outputs: list[StageTensor] = field(default_factory=list)
    written: dict[str, StageTensor] = field(default_factory=dict)
    written_inputs: dict[int, StageTensor] = field(default_factory=dict)
    loss: StageTensor | None = None
    gradients: Gradients = field(default_factory=dict)

    @property
    def random(self) -> bool:
        """Whether random numbers are drawn."""
        return any(stage.seed is not None for stage in self.stages)

    def runs_once(self, number: int) -> bool:
        """Whether a phase need not be computed again for its gradient.

        Args:
            number: Its number.

        Returns:
            Whether it is the last one and computes the loss: its gradient follows at once.
        """
        last = len(self.stages) - 1
        return number == last and self.loss is not None and self.loss.stage == last

    def home_of(self, name: str) -> int:
        """Find the device of a parameter or buffer.

        Args:
            name: Its name.

        Returns:
            The device of the first stage that reads it; 0 where none does.
        """
        source = Source("tensor", name)
        return next((stage.ipu for stage in self.stages if source in stage.reads), 0)

    @property
    def devices(self) -> set[int]:
        """The virtual devices that it needs."""
        return {stage.ipu for stage in self.stages}


class StageLowering(GraphLowering):
    """Lowers a segment into a graph that takes what it reads of others as inputs.

    Args:
        maker: What makes all graphs of the forward pass.
        number: The number of the graph.
        stage: The graph.
    """

    def __init__(self, maker: StageMaker, number: int, stage: StageGraph) -> None:
        super().__init__(maker.recording, None)
        self._maker = maker
        self._number = number
        self._stage = stage
        self._seeds = maker.seeds_drawn
        self.gradients = maker.gradients

    def next_seed(self) -> popxl.Tensor:
        """Make a seed that no other op of the forward pass has.

        Returns:
            A uint32 tensor of shape (2,).
        """
        if self._seed is None:
            with self._stage.graph:
                self._seed = self._stage.seed = popxl.graph_input((2,), popxl.uint32, SEED)
        seed = super().next_seed()
        self._maker.seeds_drawn = self._seeds
        return seed

    def read(self, meta: torch.Tensor) -> popxl.Tensor:
        """The value of a traced tensor, which becomes an input if it was made elsewhere.

        Args:
            meta: The traced tensor.

        Returns:
            Its value.
        """
        if meta not in self.values:
            self._bring(meta)
        return super().read(meta)

    def holds(self, meta: torch.Tensor) -> bool:
        """Whether a traced tensor was made or read so far.

        Args:
            meta: The traced tensor.

        Returns:
            Whether it was, in this stage or an earlier one, or comes from outside.
        """
        return super().holds(meta) or self._maker.knows(meta, self._number)

    def _bring(self, meta: torch.Tensor) -> None:
        base = self._maker.base_of(meta)
        if base not in self.values:
            source = self._maker.source_of(base, self._number)
            if source is None:
                return
            self._stage.metas[source] = base
            with self._stage.graph:
                value = popxl.graph_input(
                    tuple(base.shape), popxl_dtype(base.dtype), _input_name(source)
                )
            self._stage.reads[source] = value
            self.values.define(base, value)
        if base is not meta:
            replay, inverse = self.values.by_position(base, meta), None
            if base.requires_grad and not meta.requires_grad:
                replay, inverse = detached_view(replay, self.values.scatter(base, meta))
            self.values.define_view(meta, base, replay(super().read(base)), replay, inverse)


def _input_name(source: Source) -> str:
    if source.kind == "input":
        return f"input/{source.name}" if source.name else "input"
    return str(source.name) if source.kind == "tensor" else f"stage_{source.stage}_value"


class StageMaker:
    """Makes the graphs of the forward pass.

    Args:
        recording: The traced forward pass.
        segments: Its segments.
        inputs: The meta tensors of the inputs.
        tensors: The meta tensors of parameters and buffers by name.
    """

    def __init__(
        self,
        recording: Recording,
        segments: Sequence[Segment],
        inputs: Sequence[torch.Tensor],
        tensors: Mapping[str, torch.Tensor],
    ) -> None:
        self.recording = recording
        self.seeds_drawn = 0
        self._segments = segments
        self._inputs = list(inputs)
        self._tensors = dict(tensors)
        self._outside = {id(meta): Source("input", i) for i, meta in enumerate(inputs)}
        self._outside |= {id(meta): Source("tensor", name) for name, meta in tensors.items()}
        self._lowerings: list[StageLowering] = []
        self._forward = ForwardStages([], self._inputs)
        self.gradients = self._forward.gradients
        self._find_bases()

    def _find_bases(self) -> None:
        """For each memory the tensor that all others of the memory are views of."""
        nodes = [node for segment in self._segments for node in segment.nodes]
        self._written = {memory for node in nodes for memory in memories_written(node)}
        made = [meta for node in nodes for meta in node.outputs]
        constants = [meta for meta, _ in self.recording.constants.values()]
        self._bases: dict[int, torch.Tensor] = {}
        self._known: set[int] = set()
        for meta in (*self._inputs, *self._tensors.values(), *constants, *made):
            self._bases.setdefault(memory_of(meta), meta)
            self._known.add(id(meta))

    def base_of(self, meta: torch.Tensor) -> torch.Tensor:
        """The tensor through which the value of another one passes between stages.

        Args:
            meta: A traced tensor.

        Returns:
            The tensor itself, unless its memory is written or torch made it without an operator:
            then the first tensor of the memory.
        """
        memory = memory_of(meta)
        itself = id(meta) in self._known and memory not in self._written
        return meta if itself else self._bases.get(memory, meta)

    def knows(self, meta: torch.Tensor, before: int) -> bool:
        """Whether a tensor comes from outside of a stage.

        Args:
            meta: A traced tensor.
            before: The number of the stage.

        Returns:
            Whether it is an input, a tensor of the module, or of an earlier stage.
        """
        base = self.base_of(meta)
        return id(base) in self._outside or self._holder_of(base, before) is not None

    def _holder_of(self, base: torch.Tensor, before: int) -> int | None:
        """The last stage that wrote or made a tensor."""
        for number in reversed(range(before)):
            values = self._lowerings[number].values
            if base in values and values.was_written(base):
                return number
        if id(base) in self._outside or id(base) in self.recording.constants:
            return None
        for number in range(before):
            if base in self._lowerings[number].values:
                return number
        return None

    def source_of(self, base: torch.Tensor, before: int) -> Source | None:
        """Find where a stage gets a tensor from.

        Args:
            base: The tensor.
            before: The number of the stage.

        Returns:
            Where from; None: it is a constant, or nothing made it.
        """
        holder = self._holder_of(base, before)
        if holder is None:
            return self._outside.get(id(base))
        self.value_of(base, holder)
        return Source("value", id(base), holder)

    def value_of(self, base: torch.Tensor, number: int) -> popxl.Tensor:
        """Give a tensor as an output of a stage.

        Args:
            base: The tensor, which the stage made or wrote.
            number: The number of the stage.

        Returns:
            The output of its graph, one for all who ask.
        """
        source = Source("value", id(base), number)
        stage = self._forward.stages[number]
        if source not in stage.values:
            stage.values[source] = self._output(number, base)
        return stage.values[source]

    def _output(self, number: int, meta: torch.Tensor) -> popxl.Tensor:
        """A value at the end of a stage, as an output of its graph."""
        stage = self._forward.stages[number]
        with stage.graph, popxl.ipu(stage.ipu):
            value = self._lowerings[number].read(meta)
            if len(self._segments) > 1 and value in stage.graph.inputs:
                # What a stage only passes on would stay where the stage before has made it.
                value = ops.identity(value)
            popxl.graph_output(value)
        return value

    def make(
        self,
        ir: popxl.Ir,
        results: Sequence[torch.Tensor],
        loss: tuple[Node, torch.Tensor] | None,
    ) -> ForwardStages:
        """Make the graphs.

        Args:
            ir: Where they are made.
            results: The meta tensors of the results.
            loss: The node that computes the loss, and its result; None in inference.

        Returns:
            The graphs.
        """
        forward = self._forward
        for number, segment in enumerate(self._segments):
            name = "forward" if len(self._segments) == 1 else f"forward_{number}"
            stage = StageGraph(segment.ipu, ir.create_empty_graph(name))
            forward.stages.append(stage)
            self._lowerings.append(StageLowering(self, number, stage))
            with stage.graph, popxl.ipu(stage.ipu):
                self._lower(number, segment, loss)
        forward.outputs = [self._last_value(meta) for meta in results]
        forward.written = {
            name: self._last_value(meta)
            for name, meta in self._tensors.items()
            if self._was_written(meta)
        }
        forward.written_inputs = {
            i: self._last_value(meta)
            for i, meta in enumerate(self._inputs)
            if self._was_written(meta)
        }
        return forward

    def _lower(self, number: int, segment: Segment, loss: tuple[Node, torch.Tensor] | None) -> None:
        lowering = self._lowerings[number]
        # By identity: nodes are equal when their arguments are, which tensors cannot tell.
        ends = [i for i, node in enumerate(segment.nodes) if loss is not None and node is loss[0]]
        if not ends or loss is None:
            lowering.lower(segment.nodes)
            return
        lowering.lower(segment.nodes[: ends[0] + 1])
        value = lowering.read(loss[1])
        popxl.graph_output(value)
        self._forward.loss = StageTensor(number, value)
        lowering.lower(segment.nodes[ends[0] + 1 :])

    def _was_written(self, meta: torch.Tensor) -> bool:
        values = [lowering.values for lowering in self._lowerings]
        return any(meta in one and one.was_written(meta) for one in values)

    def _last_value(self, meta: torch.Tensor) -> StageTensor:
        """The value of a tensor behind all stages, as an output of the one that has it."""
        holder = self._holder_of(self.base_of(meta), len(self._lowerings))
        number = len(self._lowerings) - 1 if holder is None else holder
        return StageTensor(number, self._output(number, meta))
