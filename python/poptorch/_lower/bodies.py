"""Lowering of parts of a recording into graphs of their own."""

from __future__ import annotations

import torch

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.lowering import Call, GraphLowering
from poptorch._lower.regions import COND, FOR_LOOP, FUNCTION, Body
from poptorch._trace.recording import Node


class BodyLowering(GraphLowering):
    """Lowers nodes into a graph that gets tensors from around it when they are first read.

    Args:
        outer: What lowers the nodes around them, into the current graph.
        graph: The new graph.
        seed: Its input for a seed; None: it gets one when a node asks.
    """

    def __init__(
        self, outer: GraphLowering, graph: popxl.Graph, seed: popxl.Tensor | None = None
    ) -> None:
        super().__init__(outer.recording, seed)
        self.gradients = outer.gradients
        self._outer = outer
        self._outer_graph = popxl.gcg()
        self._graph = graph
        self._captured: list[torch.Tensor] = []
        # What the graph is called with, behind the inputs that its maker gives it.
        self.captured_values: list[popxl.Tensor] = []

    def next_seed(self) -> popxl.Tensor:
        """Make a seed that no other op has.

        Returns:
            A uint32 tensor of shape (2,).
        """
        if self._seed is None:
            with self._outer_graph:
                seed = self._outer.next_seed()
            self._seed = self._add_input(seed, "seed")
        return super().next_seed()

    def holds(self, meta: torch.Tensor) -> bool:
        """Whether a traced tensor was made or read so far.

        Args:
            meta: The traced tensor.

        Returns:
            Whether it was, here or around the body.
        """
        return super().holds(meta) or self._outer.holds(meta)

    def read(self, meta: torch.Tensor) -> popxl.Tensor:
        """The value of a traced tensor, which becomes an input if it was made around the graph.

        Args:
            meta: The traced tensor.

        Returns:
            Its value.
        """
        if meta not in self.values and self._outer.holds(meta):
            with self._outer_graph:
                value = self._outer.read(meta)
            self._captured.append(meta)
            self.values.define(meta, self._add_input(value, value.name))
        return super().read(meta)

    def _add_input(self, value: popxl.Tensor, name: str) -> popxl.Tensor:
        self.captured_values.append(value)
        with self._graph:
            return popxl.graph_input(value.shape, value.dtype, name)

    def lower_body(self, call: Call, body: Body) -> list[popxl.Tensor]:
        """Lower all nodes.

        Args:
            call: The call of what the body belongs to.
            body: The body.

        Returns:
            Its results.

        Raises:
            Error: It writes a tensor that was made around it.
        """
        self.lower(body.nodes)
        for meta in self._captured:
            if self.values.was_written(meta):
                raise createPoptorchError(
                    f"A function that {_caller_of(call.node)} calls at {call.node.location} "
                    f"writes a tensor of shape {list(meta.shape)} and dtype {meta.dtype} from "
                    "outside of it. Give it the tensor as an input and return the new value"
                )
        return [self.read(meta) for meta in body.results]


def _caller_of(node: Node) -> str:
    if node.name == FUNCTION:
        return f"torch.autograd.Function {node.arguments['name']}"
    return {FOR_LOOP: "poptorch.for_loop()", COND: "poptorch.cond()"}[node.name]
