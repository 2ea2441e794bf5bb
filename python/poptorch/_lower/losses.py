"""Which of the losses of a recording is the one that training differentiates."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from poptorch._impl import createPoptorchError
from poptorch._lower.ops_loss import LOSSES
from poptorch._trace.recorder import memory_of
from poptorch._trace.recording import Node, Recording, tensors_in


def find_loss(recording: Recording) -> tuple[Node, torch.Tensor]:
    """Find the loss that no other loss is computed of.

    Args:
        recording: The traced forward pass.

    Returns:
        The node that computes it, and its result.

    Raises:
        Error: There is none, or there are several.
    """
    feeds: dict[int, set[int]] = {}
    final: dict[int, Node] = {}
    for number, node in enumerate(recording.nodes):
        before: set[int] = set()
        for tensor in tensors_in(node.arguments):
            before |= feeds.get(memory_of(tensor), set())
        if node.name in LOSSES or node.is_loss:
            for index in before:
                final.pop(index, None)
            final[number] = node
            before = {number}
        for tensor in node.outputs:
            memory = memory_of(tensor)
            feeds[memory] = feeds.get(memory, set()) | before
    if not final:
        raise createPoptorchError("Couldn't find a loss in graph!")
    if len(final) > 1:
        places = "".join(f"\n  {node.name} at {node.location}" for node in final.values())
        raise createPoptorchError(
            "Multiple independent losses found in graph. Graph must have one final loss. Wrap "
            f"final graph loss in poptorch.identity_loss.{places}"
        )
    (node,) = final.values()
    return node, node.outputs[0]


def weights_of(loss: torch.Tensor, parameters: Mapping[str, torch.Tensor]) -> list[str]:
    """Find the parameters that a loss depends on, as torch would differentiate it.

    Args:
        loss: The traced loss.
        parameters: Traced parameters by name.

    Returns:
        The names of those that get a gradient, in the order of `parameters`.
    """
    leaves = set()
    pending = [loss.grad_fn]
    seen = set()
    while pending:
        function = pending.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        if hasattr(function, "variable"):
            leaves.add(id(function.variable))
        pending += [next_function for next_function, _ in function.next_functions]
    if loss.grad_fn is None and loss.requires_grad:
        leaves.add(id(loss))
    return [name for name, parameter in parameters.items() if id(parameter) in leaves]
