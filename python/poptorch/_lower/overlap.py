"""Checks of `set_overlap_for_input` and `set_overlap_for_output`, which change no values."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from poptorch._impl import createPoptorchError
from poptorch._trace.recorder import memory_of
from poptorch._trace.recording import Node, tensors_in
from poptorch.enums import OutputMode, OverlapMode

_INPUT, _OUTPUT = "poptorch::set_overlap_for_input", "poptorch::set_overlap_for_output"


def _refuse(node: Node, wanted: str) -> None:
    function = node.name.replace("::", ".")
    raise createPoptorchError(f"{function}() at {node.location}: {wanted}")


def _check_input(node: Node, before: Sequence[Node], inputs: Sequence[torch.Tensor]) -> None:
    tensor = node.arguments["t"]
    if all(tensor is not one for one in inputs):
        _refuse(node, "wanted an input of the model; given a tensor that it computes")
    for other in before:
        if any(memory_of(one) == memory_of(tensor) for one in tensors_in(other.arguments)):
            _refuse(
                node,
                "wanted to be the first to use the input; "
                f"{other.name} at {other.location} uses it before",
            )


def _check_output(node: Node, results: Sequence[torch.Tensor], mode: OutputMode) -> None:
    (marked,) = node.outputs
    uses = sum(one is marked for one in results)
    if uses != 1:
        given = "one that it does not return" if uses == 0 else f"one that it returns {uses} times"
        _refuse(node, f"wanted a result that the model returns once; given {given}")
    if mode not in (OutputMode.All, OutputMode.Sum):
        _refuse(node, f"wanted the output mode All or Sum; given {mode.name}")


def check_overlaps(
    nodes: Sequence[Node],
    inputs: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    mode: OutputMode,
    num_io_tiles: int,
    is_pipelined: bool,
) -> None:
    """Raise for transfers that cannot overlap with what the model says.

    Args:
        nodes: The nodes of a recording.
        inputs: The meta tensors of the inputs.
        results: The meta tensors of the results.
        mode: Which results come back.
        num_io_tiles: The number of tiles that the options reserve for transfers.
        is_pipelined: Whether stages run as a pipeline.

    Raises:
        Error: There are none of those tiles, or a tensor is no input or result of the model.
    """
    for number, node in enumerate(nodes):
        is_overlap = node.name in (_INPUT, _OUTPUT)
        if not is_overlap or node.arguments["mode"] == OverlapMode.NoOverlap.value:
            continue
        if num_io_tiles == 0:
            raise createPoptorchError(
                "No IO tiles allocated. You must allocate at least 32 IO tiles using "
                "poptorch.Options().TensorLocations.numIOTiles."
            )
        if is_pipelined:
            _refuse(node, "overlap is not supported with pipelined execution")
        if node.name == _INPUT:
            _check_input(node, nodes[:number], inputs)
        else:
            _check_output(node, results, mode)
