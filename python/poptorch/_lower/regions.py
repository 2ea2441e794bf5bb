"""Marks around parts of a recording, folded into one node for each part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from poptorch._impl import createPoptorchError
from poptorch._trace.recorder import memory_of
from poptorch._trace.recording import Node, tensors_in

FOR_LOOP, COND, HOST_CALL = "poptorch::for_loop", "poptorch::cond", "poptorch::host_call"
FUNCTION = "poptorch::function"
_FIRST = {
    "poptorch::start_for_loop",
    "poptorch::start_if_block",
    "poptorch::call_cpu_op",
    "poptorch::begin_function",
    "poptorch::begin_multi_conv",
}
_LAST = {
    "poptorch::end_for_loop",
    "poptorch::end_if_block",
    "poptorch::end_cpu_op",
    "poptorch::end_function",
    "poptorch::end_multi_conv",
}


# What folding leaves none of.
MARKS = frozenset((*_FIRST, *_LAST, "poptorch::start_else_block", "poptorch::begin_backward"))


@dataclass
class Body:
    """Nodes that run as a graph of their own.

    Attributes:
        nodes: The nodes, in which regions are folded too.
        results: The meta tensors that leave it.
        given: Meta tensors that it is given, and that nothing around it makes.
    """

    nodes: list[Node]
    results: list[Any]
    given: list[Any] = field(default_factory=list)


def fold_regions(nodes: Iterable[Node]) -> list[Node]:
    """Make one node of every loop, condition, call of the host, and function with a backward.

    Args:
        nodes: The nodes of a recording in program order.

    Returns:
        The nodes, with `poptorch::for_loop`, `poptorch::cond`, `poptorch::host_call` and
        `poptorch::function` in place of the marks and what they enclose.

    Raises:
        Error: A multi-convolution has no convolutions, or some that need each other.
    """
    open_regions: list[tuple[Node | None, list[Node]]] = [(None, [])]
    for node in nodes:
        if node.name in _FIRST:
            open_regions.append((node, []))
        elif node.name in _LAST:
            first, inside = open_regions.pop()
            assert first is not None
            open_regions[-1][1].extend(_folded(first, inside, node))
        else:
            open_regions[-1][1].append(node)
    return open_regions[0][1]


def _folded(first: Node, inside: list[Node], last: Node) -> list[Node]:
    if last.name == "poptorch::end_multi_conv":
        _check_multi_conv(inside)
        return [replace(node, scope=_joined(node.scope, "MultiConv")) for node in inside]
    if last.name == "poptorch::end_for_loop":
        arguments = {
            "inputs": last.arguments["inputs"],
            "trip_count": last.arguments["trip_count"],
            "body": Body(inside, last.arguments["outputs"]),
        }
        return [replace(last, name=FOR_LOOP, arguments=arguments)]
    if last.name == "poptorch::end_if_block":
        return [replace(last, name=COND, arguments=_branches(inside, last))]
    if last.name == "poptorch::end_function":
        return [replace(last, name=FUNCTION, arguments=_function(inside, last))]
    return [replace(last, name=HOST_CALL, arguments=first.arguments)]


def _joined(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name


def _split(inside: list[Node], mark: str) -> tuple[list[Node], Node, list[Node]]:
    """The nodes before a mark, the mark, and those behind it."""
    middle = next(i for i, node in enumerate(inside) if node.name == mark)
    return inside[:middle], inside[middle], inside[middle + 1 :]


def _function(inside: list[Node], last: Node) -> dict[str, Any]:
    forward, mark, backward = _split(inside, "poptorch::begin_backward")
    given, results = last.arguments, mark.arguments["results"]
    return {
        "inputs": given["inputs"],
        "differentiable": given["differentiable"],
        "forward": Body(forward, results),
        "backward": Body(backward, given["input_gradients"], mark.arguments["gradients"]),
        "name": given["name"],
    }


def _branches(inside: list[Node], last: Node) -> dict[str, Any]:
    then_nodes, mark, else_nodes = _split(inside, "poptorch::start_else_block")
    return {
        "condition": last.arguments["condition"],
        "then_body": Body(then_nodes, mark.arguments["outputs_true"]),
        "else_body": Body(else_nodes, last.arguments["outputs"]),
    }


def _check_multi_conv(inside: list[Node]) -> None:
    """Each convolution must be computed of nothing that another one gives."""
    derived: set[int] = set()
    found = False
    for node in inside:
        memories = {memory_of(tensor) for tensor in tensors_in(node.arguments)}
        is_conv = node.name.startswith("aten::") and "conv" in node.name
        if is_conv and memories & derived:
            raise createPoptorchError(
                f"The convolution at {node.location} needs the result of another one of the same "
                "poptorch.MultiConv: they must be independent of each other"
            )
        found = found or is_conv
        if is_conv or memories & derived:
            derived |= {memory_of(tensor) for tensor in node.outputs}
    if not found:
        raise createPoptorchError("Unexpected end_multi_conv. The poptorch.MultiConv is empty")
