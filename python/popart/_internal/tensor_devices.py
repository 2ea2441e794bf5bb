"""Where the ops that make and use a tensor run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from pando import _core
from popart._internal.owners import owner_of

Found = TypeVar("Found")


def _call_sites(core_tensor: _core.Tensor) -> Iterator[_core.Tensor]:
    """What call sites connect to a graph input."""
    graph = core_tensor.graph
    for caller in owner_of(graph.ir_id)._pb.graphs:
        for op in caller.ops:
            if op.kind in ("Call", "Loop", "While") and op.called_graphs[0] is graph:
                index = next(i for i, t in enumerate(graph.inputs) if t is core_tensor)
                if index < len(op.inputs) and op.inputs[index] is not None:
                    yield op.inputs[index]


def _first_found(
    core_tensor: _core.Tensor,
    visited: set[str],
    find: Callable[[_core.Tensor, set[str]], Found | None],
) -> Found | None:
    """What `find` says first of what call sites connect, for a graph input."""
    if core_tensor.kind == _core.TensorKind.GraphInput:
        for parent in _call_sites(core_tensor):
            if parent.id not in visited:
                found = find(parent, visited)
                if found is not None:
                    return found
    return None


def find_device(core_tensor: _core.Tensor, visited: set[str]) -> int | None:
    """Find the virtual device of a tensor, or of what it comes from.

    Args:
        core_tensor: The tensor.
        visited: The ids of tensors that were looked at; the search adds to it.

    Returns:
        The number of the device; None: nothing determines it.
    """
    visited.add(core_tensor.id)
    found = _first_found(core_tensor, visited, find_device)
    return core_tensor.device if found is None else found


def find_tile_set(core_tensor: _core.Tensor, visited: set[str]) -> str | None:
    """Find the tile set of a tensor, or of what it comes from.

    Args:
        core_tensor: The tensor.
        visited: The ids of tensors that were looked at; the search adds to it.

    Returns:
        `compute` or `io`; None: nothing determines it.
    """
    visited.add(core_tensor.id)
    producer = core_tensor.producer
    if producer is not None:
        if producer.kind != "IoTileCopy":
            return "io" if producer.context.io_tiles else "compute"
        source = producer.inputs[0]
        found = find_tile_set(source, visited) if source.id not in visited else None
        return "io" if found == "compute" else "compute"
    found = _first_found(core_tensor, visited, find_tile_set)
    if found is not None:
        return found
    for op, _ in core_tensor.uses:
        if op.kind != "IoTileCopy":
            return "io" if op.context.io_tiles else "compute"
    return None
