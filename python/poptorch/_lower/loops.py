"""Loops around parts of a program that read and write variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import popxl
from popxl import ops


class SharedTensors:
    """Tensors that graphs of nested loops read, or write in place, by name.

    A graph takes a tensor of the graph around it as an input when it first asks for it.

    Args:
        graph: The graph whose tensors these are.
        outer: Those of the graph around it; None: `graph` is the main graph.
    """

    def __init__(self, graph: popxl.Graph, outer: SharedTensors | None = None) -> None:
        self._graph = graph
        self._outer = outer
        self._here: dict[str, popxl.Tensor] = {}
        self.taken: list[popxl.Tensor] = []

    def __getitem__(self, name: str) -> popxl.Tensor:
        if name not in self._here:
            if self._outer is None:
                raise KeyError(f"no variable is called {name}; there are {sorted(self._here)}")
            tensor = self._outer[name]
            self.taken.append(tensor)
            with self._graph:
                self._here[name] = popxl.graph_input(
                    tensor.shape, tensor.dtype, tensor.name, by_ref=True
                )
        return self._here[name]

    def get(self, name: str) -> popxl.Tensor | None:
        """Look for a tensor.

        Args:
            name: Its name.

        Returns:
            The tensor that stands for it in this graph, or None.
        """
        outer = self._outer
        is_known = name in self._here or (outer is not None and outer.get(name) is not None)
        return self[name] if is_known else None

    def add(self, name: str, tensor: popxl.Tensor) -> None:
        """Share a tensor of this graph with the graphs of loops inside.

        Args:
            name: Its name.
            tensor: The tensor.
        """
        self._here[name] = tensor

    def variable(
        self,
        name: str,
        initial: np.ndarray[Any, Any],
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> popxl.Tensor:
        """Make a variable of the main graph, unless there is one of this name.

        Args:
            name: Its name.
            initial: Its first value.
            replica_grouping: The groups of replicas that share a value; None: all.

        Returns:
            The tensor that stands for it in this graph.
        """
        if self._outer is not None:
            self._outer.variable(name, initial, replica_grouping)
        elif name not in self._here:
            with self._graph:
                self._here[name] = popxl.variable(
                    initial, name=name, replica_grouping=replica_grouping
                )
        return self[name]


# Given the carried tensors and the shared ones, in the graph where it is called, it returns the
# carried ones for the next iteration.
Body = Callable[[list[popxl.Tensor], SharedTensors], Sequence[popxl.Tensor]]


def repeated(
    name: str, count: int, carried: Sequence[popxl.Tensor], shared: SharedTensors, body: Body
) -> list[popxl.Tensor]:
    """Make the ops of a body that runs several times.

    Args:
        name: The name of the graph of the body.
        count: How many times, 1 or more; once needs no graph.
        carried: What the first iteration gets; each iteration gets what the one before returned.
        shared: Tensors of the current graph that the body may read, or write in place.
        body: What makes the ops.

    Returns:
        What the last iteration returned.
    """
    if count == 1:
        return list(body(list(carried), shared))
    graph = popxl.gcg().ir.create_empty_graph(name)
    inner = SharedTensors(graph, shared)
    with graph, popxl.in_sequence():
        inputs = [popxl.graph_input(t.shape, t.dtype, t.name) for t in carried]
        for result in body(inputs, inner):
            popxl.graph_output(result)
    return list(ops.repeat(graph, count, *carried, *inner.taken))


def called(
    name: str,
    given: Mapping[str, popxl.Tensor],
    shared: SharedTensors,
    body: Callable[[Mapping[str, popxl.Tensor], SharedTensors], None],
) -> None:
    """Make the ops of a body in a graph of its own, and call it.

    Args:
        name: The name of the graph.
        given: Tensors that the body reads, by name.
        shared: Tensors of the current graph that the body may read, or write in place.
        body: What makes the ops, given the tensors in the graph.
    """
    graph = popxl.gcg().ir.create_empty_graph(name)
    inner = SharedTensors(graph, shared)
    with graph, popxl.in_sequence():
        inputs = {key: popxl.graph_input(t.shape, t.dtype, t.name) for key, t in given.items()}
        body(inputs, inner)
    ops.call(graph, *given.values(), *inner.taken)
