"""Loops of phases over micro-batches, whose inputs and outputs are rows of remote buffers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import popxl
from poptorch._lower.phase_rows import Row
from popxl import ops
from popxl.ops.random_seed import create_random_seed

# Given what was loaded, what is given and the seed of the micro-batch, in the graph where it is
# called, it returns what is to be stored, and what the caller gets if there is one micro-batch.
Body = Callable[
    [list[popxl.Tensor], list[popxl.Tensor], popxl.Tensor],
    tuple[Sequence[popxl.Tensor], Sequence[popxl.Tensor]],
]


class PhaseLoops:
    """Runs bodies over all micro-batches of a step.

    Args:
        micro_batches: Their number. For one, bodies are made in the current graph, where their
            loads can start early; for more, each is a graph that phases of one kind share.
    """

    def __init__(self, micro_batches: int) -> None:
        self.micro_batches = micro_batches
        self._graphs: dict[Hashable, popxl.Graph] = {}

    def run(
        self,
        key: Hashable,
        loads: Sequence[Row],
        stores: Sequence[Row],
        given: Sequence[popxl.Tensor],
        seed: popxl.Tensor,
        body: Body,
    ) -> Sequence[popxl.Tensor]:
        """Make the ops of a body for all micro-batches.

        Args:
            key: What phases have in common that run the same body.
            loads: The rows of the first micro-batch that are loaded; those of the others follow.
            stores: The rows of the first micro-batch that its results go to.
            given: Tensors of the current graph that all micro-batches read, or write in place.
            seed: The seed of the first micro-batch.
            body: What makes the ops.

        Returns:
            What the body gave beside what is stored, if there is one micro-batch; else nothing.
        """
        if self.micro_batches == 1:
            loaded = [ops.remote_load(row.buffer, row.number) for row in loads]
            stored, kept = body(loaded, list(given), seed)
            for row, value in zip(stores, stored, strict=True):
                ops.remote_store(row.buffer, row.number, value)
            return kept
        # A graph has its buffers, and gets the rows.
        key = (key, *(row.buffer.remote_buffer_id for row in (*loads, *stores)))
        if key not in self._graphs:
            self._graphs[key] = self._loop_graph(len(self._graphs), loads, stores, given, body)
        first = popxl.constant(0, popxl.uint32)
        numbers = [popxl.constant(row.number, popxl.uint32) for row in (*loads, *stores)]
        ops.repeat(self._graphs[key], self.micro_batches, first, seed, *numbers, *given)
        return ()

    def _loop_graph(
        self,
        number: int,
        loads: Sequence[Row],
        stores: Sequence[Row],
        given: Sequence[popxl.Tensor],
        body: Body,
    ) -> popxl.Graph:
        graph = popxl.gcg().ir.create_empty_graph(f"phase_{number}")
        with graph, popxl.in_sequence():
            index = popxl.graph_input((), popxl.uint32, "micro_batch")
            seed = popxl.graph_input((2,), popxl.uint32, "seed")
            first = [popxl.graph_input((), popxl.uint32, "row") for _ in (*loads, *stores)]
            inner = [popxl.graph_input(t.shape, t.dtype, t.name, by_ref=True) for t in given]
            rows = [start + index for start in first]
            loaded = [
                ops.remote_load(row.buffer, place) for row, place in zip(loads, rows, strict=False)
            ]
            stored, _ = body(loaded, inner, seed)
            for row, place, value in zip(stores, rows[len(loads) :], stored, strict=True):
                ops.remote_store(row.buffer, place, value)
            popxl.graph_output(index + popxl.constant(1, popxl.uint32))
            popxl.graph_output(create_random_seed(seed, 0))
        return graph
