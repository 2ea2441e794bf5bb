"""The phases of a forward pass: parts between which values go through remote buffers.

Phases whose ops are the same but for the tensors that they work with have one graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

import popxl
from poptorch._lower.dtypes import host_array
from poptorch._lower.regions import Body
from poptorch._lower.segments import Segment, is_mark
from poptorch._lower.stages import (
    ForwardStages,
    Source,
    StageGraph,
    StageMaker,
    StageTensor,
)
from poptorch._trace.recorder import memory_of
from poptorch._trace.recording import Node


def split_into_phases(nodes: Sequence[Node], blocks: Sequence[str]) -> list[Segment]:
    """Split the nodes of a recording where a repeated block begins or the last of several ends.

    Args:
        nodes: The nodes in program order.
        blocks: For each call of a block, what it is repeated in.

    Returns:
        What is before the blocks, each call of a block with what follows it up to the next one of
        the same module, and what is between or behind them; at least one segment.
    """
    last = {parent: number for number, parent in enumerate(blocks)}
    segments: list[Segment] = []
    current: int | None = None
    for node in nodes:
        if is_mark(node):
            continue
        block: int | None = node.block
        if block == -1:
            inside = current is not None and current >= 0 and last[blocks[current]] != current
            # Between blocks of one module it belongs to the block before.
            block = current if inside else None
        if not segments or block != current:
            segments.append(Segment(0, []))
            current = block
        segments[-1].nodes.append(node)
    return segments or [Segment(0, [])]


class _Signature:
    """What the ops of a segment are, with tensors by the order in which they are met.

    Args:
        maker: What made the graphs of all segments.
        kinds: What the tensors of the module are, by `id` of the meta tensor.
    """

    def __init__(self, maker: StageMaker, kinds: Mapping[int, object]) -> None:
        self._maker = maker
        self._kinds = kinds
        self._numbers: dict[int, int] = {}
        self._memories: dict[int, int] = {}
        self.tensors: list[torch.Tensor] = []

    def of(self, nodes: Sequence[Node]) -> tuple[Any, ...]:
        """Describe nodes.

        Args:
            nodes: The nodes in order.

        Returns:
            A tuple that can be compared: equal for segments with the same ops.
        """
        return tuple(self._node(node) for node in nodes)

    def counterpart(self, tensor: int, other: _Signature) -> torch.Tensor | None:
        """Find what stands in an equal signature where a tensor stands in this one.

        Args:
            tensor: The `id` of the tensor.
            other: The equal signature.

        Returns:
            The tensor there; None if this signature has none of that `id`.
        """
        place = self._numbers.get(tensor)
        return None if place is None else other.tensors[place]

    def _node(self, node: Node) -> tuple[Any, ...]:
        return (
            (node.name, node.overload, node.written, node.from_grad),
            (node.grad_enabled, node.is_loss, tuple(node.requires_grad)),
            tuple((name, self._value(value)) for name, value in node.arguments.items()),
            tuple(self._tensor(tensor, None) for tensor in node.outputs),
        )

    def _value(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, self._origin(value))
        if isinstance(value, (list, tuple)):
            return tuple(map(self._value, value))
        if isinstance(value, Body):
            given = self._value(value.given)
            return (given, self.of(value.nodes), self._value(value.results))
        return (type(value).__name__, repr(value))

    def _tensor(self, tensor: torch.Tensor, origin: object) -> tuple[Any, ...]:
        number = self._numbers.get(id(tensor))
        if number is not None:
            return (number,)
        self._numbers[id(tensor)] = len(self.tensors)
        self.tensors.append(tensor)
        memory = self._memories.setdefault(memory_of(tensor), len(self._memories))
        return (len(self.tensors), memory, _geometry(tensor), tensor.requires_grad, origin)

    def _origin(self, tensor: torch.Tensor) -> object:
        """What a tensor is that no node of the segment has made."""
        data = self._maker.recording.data_of(tensor)
        if data is not None:
            return hashlib.sha256(host_array(data).tobytes()).digest()
        base = self._maker.base_of(tensor)
        return (_geometry(base), self._kinds.get(id(base), "value"))


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tuple(tensor.shape), tensor.dtype, tensor.stride(), tensor.storage_offset())


def share_graphs(
    maker: StageMaker,
    segments: Sequence[Segment],
    forward: ForwardStages,
    kinds: Mapping[int, object],
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """Let phases with the same ops run the graph of the first of them.

    Args:
        maker: What made the graphs.
        segments: The segments.
        forward: The forward pass, one stage for each segment; stages are replaced by those that
            have the graph of an earlier one.
        kinds: What the tensors of the module are, by `id` of the meta tensor: those of two phases
            that share a graph are of equal kinds.
        tensors: The meta tensors of the module by name.
    """
    # Results, and inputs that are written, are tensors of the graph of their own phase.
    ends = [*forward.outputs, *forward.written_inputs.values()]
    alone = {one.stage for one in ends if one is not None}
    if forward.loss is not None:
        alone.add(forward.loss.stage)
    signatures = [_Signature(maker, kinds) for _ in segments]
    texts = [one.of(segment.nodes) for one, segment in zip(signatures, segments, strict=True)]
    first: dict[Any, int] = {}
    shared = list(forward.stages)
    for number, stage in enumerate(forward.stages):
        template = number if number in alone else first.setdefault(texts[number], number)
        if template == number or not _same_reads(stage, forward.stages[template]):
            continue
        pair = (signatures[number], signatures[template])
        values = _values_of_template(maker, stage, template, *pair)
        written = _written_of_template(forward, number, template, tensors, *pair)
        if values is None or written is None:
            continue
        forward.written |= written
        other = forward.stages[template]
        inputs = list(other.reads.values())
        reads = dict(zip(stage.reads, inputs, strict=True))
        shared[number] = replace(
            stage, graph=other.graph, seed=other.seed, reads=reads, values=values
        )
    forward.stages = shared


def _same_reads(stage: StageGraph, template: StageGraph) -> bool:
    def described(one: StageGraph) -> list[Any]:
        return [(source.kind, t.shape, t.dtype) for source, t in one.reads.items()]

    return described(stage) == described(template)


def _values_of_template(
    maker: StageMaker,
    stage: StageGraph,
    template: int,
    signature: _Signature,
    template_signature: _Signature,
) -> dict[Source, popxl.Tensor] | None:
    """The values of a phase as outputs of its template's graph; None: some are not its own."""
    values = {}
    for source in stage.values:
        same = signature.counterpart(int(source.name), template_signature)
        if same is None:
            return None
        values[source] = maker.value_of(same, template)
    return values


def _written_of_template(
    forward: ForwardStages,
    number: int,
    template: int,
    tensors: Mapping[str, torch.Tensor],
    signature: _Signature,
    template_signature: _Signature,
) -> dict[str, StageTensor] | None:
    """What a phase writes, as outputs of its template's graph; None: that one does not."""
    of_template = {
        id(tensors[name]): one.tensor
        for name, one in forward.written.items()
        if one.stage == template
    }
    written = {}
    for name, one in forward.written.items():
        if one.stage != number:
            continue
        same = signature.counterpart(id(tensors[name]), template_signature)
        if same is None or id(same) not in of_template:
            return None
        written[name] = StageTensor(number, of_template[id(same)])
    return written
