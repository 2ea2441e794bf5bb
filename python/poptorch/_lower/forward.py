"""The graph of the forward pass of one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

import popxl
from poptorch._lower.dtypes import popxl_dtype
from poptorch._lower.lowering import GraphLowering
from poptorch._trace.recording import Node, Recording

SEED = "seed"


@dataclass
class ForwardGraph:
    """The forward pass as a graph.

    Attributes:
        graph: The graph. Its inputs are the seed, the inputs of the model, then its tensors.
        seed: The input for the seed.
        inputs: The graph's inputs for the inputs of the model, in order.
        tensors: The graph's inputs for parameters and buffers, by name.
        outputs: The graph's tensors for the results of the model, in order.
        written: New values of parameters and buffers that the model writes, by name.
        written_inputs: New values of inputs that the model writes, by number.
        loss: The graph's tensor for the loss; None in inference.
        random: Whether random numbers are drawn.
    """

    graph: popxl.Graph
    seed: popxl.Tensor
    inputs: list[popxl.Tensor]
    tensors: dict[str, popxl.Tensor]
    outputs: list[popxl.Tensor] = field(default_factory=list)
    written: dict[str, popxl.Tensor] = field(default_factory=dict)
    written_inputs: dict[int, popxl.Tensor] = field(default_factory=dict)
    loss: popxl.Tensor | None = None
    random: bool = False


def make_forward_graph(
    ir: popxl.Ir,
    recording: Recording,
    inputs: Sequence[torch.Tensor],
    tensors: Mapping[str, torch.Tensor],
    results: Sequence[torch.Tensor],
    loss: tuple[Node, torch.Tensor] | None,
) -> ForwardGraph:
    """Lower a recording into a graph.

    Args:
        ir: Where the graph is made.
        recording: The traced forward pass.
        inputs: The meta tensors of the inputs.
        tensors: The meta tensors of parameters and buffers by name.
        results: The meta tensors of the results.
        loss: The node that computes the loss, and its result; None in inference.

    Returns:
        The graph.
    """
    graph = ir.create_empty_graph("forward")
    with graph:
        seed = popxl.graph_input((2,), popxl.uint32, SEED)
        given = [
            popxl.graph_input(
                tuple(meta.shape), popxl_dtype(meta.dtype), f"input/{i}" if i else "input"
            )
            for i, meta in enumerate(inputs)
        ]
        held = {
            name: popxl.graph_input(tuple(meta.shape), popxl_dtype(meta.dtype), name)
            for name, meta in tensors.items()
        }
        forward = ForwardGraph(graph, seed, given, held)
        lowering = GraphLowering(recording, seed)
        for meta, value in zip([*inputs, *tensors.values()], [*given, *held.values()], strict=True):
            lowering.values.define(meta, value)
        _lower_all(forward, lowering, recording, loss)
        forward.outputs = [lowering.read(meta) for meta in results]
        forward.written = {
            name: lowering.read(meta)
            for name, meta in tensors.items()
            if lowering.values.was_written(meta)
        }
        forward.written_inputs = {
            i: lowering.read(meta)
            for i, meta in enumerate(inputs)
            if lowering.values.was_written(meta)
        }
        forward.random = lowering.uses_random_numbers
        for value in _all_outputs(forward):
            popxl.graph_output(value)
    return forward


def _lower_all(
    forward: ForwardGraph,
    lowering: GraphLowering,
    recording: Recording,
    loss: tuple[Node, torch.Tensor] | None,
) -> None:
    if loss is None:
        lowering.lower(recording.nodes)
        return
    node, result = loss
    # By identity: nodes are equal when their arguments are, which tensors cannot tell.
    end = next(i for i, other in enumerate(recording.nodes) if other is node) + 1
    lowering.lower(recording.nodes[:end])
    forward.loss = lowering.read(result)
    lowering.lower(recording.nodes[end:])


def _all_outputs(forward: ForwardGraph) -> list[popxl.Tensor]:
    outputs = [*forward.outputs, *forward.written.values(), *forward.written_inputs.values()]
    return outputs if forward.loss is None else [*outputs, forward.loss]
