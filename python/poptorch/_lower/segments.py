"""Which parts of a recording run on which virtual device, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from poptorch._impl import createPoptorchError
from poptorch._lower.regions import Body
from poptorch._strategies import ExecutionStrategy, PipelinedExecution, ShardedExecution
from poptorch._trace.recorder import memory_of
from poptorch._trace.recording import Node, tensors_in


@dataclass
class Segment:
    """Nodes that run one after another on one device.

    Attributes:
        ipu: The virtual device.
        nodes: The nodes in order.
    """

    ipu: int
    nodes: list[Node]


def memories_read(node: Node) -> Iterator[int]:
    """Find the memories that a node reads, or the nodes of its bodies.

    Args:
        node: The node.

    Yields:
        The memory of each tensor that it is given.
    """
    for tensor in tensors_in(node.arguments):
        yield memory_of(tensor)
    for value in node.arguments.values():
        if isinstance(value, Body):
            for inner in value.nodes:
                yield from memories_read(inner)


def memories_written(node: Node) -> Iterator[int]:
    """Find the memories that a node changes.

    Args:
        node: The node.

    Yields:
        The memory of each tensor that it writes in place.
    """
    for name in node.written:
        for tensor in tensors_in(node.arguments[name]):
            yield memory_of(tensor)


def is_mark(node: Node) -> bool:
    """Tell whether a node only says something about others.

    Args:
        node: The node.

    Returns:
        Whether it does.
    """
    return node.name.startswith("poptorch::") and not node.outputs


def _rank(strategy: ExecutionStrategy, node: Node) -> int:
    """Nodes of a lower rank run before those of a higher one."""
    if isinstance(strategy, ShardedExecution):
        return 0
    placement = node.placement
    return placement.stage if isinstance(strategy, PipelinedExecution) else placement.phase


def _check_order(strategy: ExecutionStrategy, nodes: Sequence[Node]) -> None:
    """Nodes that need what earlier ones leave must not have a lower rank than these."""
    last_write: dict[int, tuple[int, Node]] = {}
    last_use: dict[int, tuple[int, Node]] = {}
    for node in nodes:
        rank = _rank(strategy, node)
        made = {memory_of(tensor) for tensor in node.outputs}
        written = set(memories_written(node)) | (made - last_use.keys())
        for memory in {*memories_read(node), *written, *made}:
            before = (last_use if memory in written else last_write).get(memory)
            if before is not None and before[0] > rank:
                kind = "stage" if isinstance(strategy, PipelinedExecution) else "phase"
                raise createPoptorchError(
                    f"{node.name} at {node.location} is in {kind} {rank} and needs what "
                    f"{before[1].name} at {before[1].location} does in {kind} {before[0]}: the "
                    f"{kind}s of blocks must ascend along data dependencies. "
                    "poptorch.AutoStage.AutoIncrement numbers blocks in the order of the program"
                )
            for last in (last_write, last_use) if memory in written else (last_use,):
                if memory not in last or last[memory][0] <= rank:
                    last[memory] = rank, node


def split_into_segments(strategy: ExecutionStrategy, nodes: Sequence[Node]) -> list[Segment]:
    """Order the nodes of a recording by stages or phases, and split them where the device changes.

    Args:
        strategy: The execution strategy of the model.
        nodes: The nodes in the order of the program.

    Returns:
        The segments in order, at least one.

    Raises:
        Error: A node needs what a node of a later stage or phase does.
    """
    ops = [node for node in nodes if not is_mark(node)]
    _check_order(strategy, ops)
    ops.sort(key=lambda node: _rank(strategy, node))
    segments: list[Segment] = []
    for node in ops:
        if not segments or segments[-1].ipu != node.placement.ipu:
            segments.append(Segment(node.placement.ipu, []))
        segments[-1].nodes.append(node)
    return segments or [Segment(0, [])]
