"""Gradient graphs of the stages of a forward pass."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import popxl
from poptorch._lower.lowering import Gradients
from poptorch._lower.stages import ForwardStages, Source, StageGraph
from popxl.transforms.autodiff import GradGraphInfo, autodiff_of_reached


@dataclass
class StageGradient:
    """The gradient graph of a stage.

    Attributes:
        info: The graph, and what its inputs and outputs stand for.
        provided: The outputs of the stage whose gradients it takes, in order; None: the loss.
        weights: The inputs of the stage that are weights, and whose gradients it gives, by name.
        values: The inputs of the stage that earlier stages made, and whose gradients it gives.
    """

    info: GradGraphInfo
    provided: list[Source | None]
    weights: dict[str, popxl.Tensor]
    values: dict[Source, popxl.Tensor]


def differentiate_stages(
    forward: ForwardStages, weights: Container[str]
) -> list[StageGradient | None]:
    """Make the gradient graphs of a forward pass.

    Args:
        forward: The forward pass.
        weights: The names of the parameters that get a gradient.

    Returns:
        For each stage its gradient graph; None where no gradient arrives.
    """
    gradients: list[StageGradient | None] = [None] * len(forward.stages)
    if forward.loss is None:
        return gradients
    arriving: set[Source] = set()
    # Stages that share a graph may share its gradient graph.
    known: dict[tuple[object, ...], GradGraphInfo] = {}
    for number in reversed(range(forward.loss.stage + 1)):
        stage = forward.stages[number]
        provided: dict[Source | None, popxl.Tensor] = {
            source: tensor for source, tensor in stage.values.items() if source in arriving
        }
        if number == forward.loss.stage:
            provided[None] = forward.loss.tensor
        gradient = _differentiate(stage, provided, weights, known, forward.gradients)
        if gradient is not None:
            gradients[number] = gradient
            arriving |= gradient.values.keys()
    return gradients


def _differentiate(
    stage: StageGraph,
    provided: dict[Source | None, popxl.Tensor],
    weights: Container[str],
    known: dict[tuple[object, ...], GradGraphInfo],
    called: Gradients,
) -> StageGradient | None:
    wanted_weights = {
        str(source.name): tensor
        for source, tensor in stage.reads.items()
        if source.kind == "tensor" and source.name in weights
    }
    wanted_values = {
        source: tensor
        for source, tensor in stage.reads.items()
        if source.kind == "value"
        and stage.metas[source].requires_grad
        and tensor.dtype.is_floating_point
    }
    wanted = [*wanted_weights.values(), *wanted_values.values()]
    if not provided or not wanted:
        return None
    tensors = [[t.id for t in part] for part in (provided.values(), wanted)]
    key = (stage.graph.id, *map(tuple, tensors))
    if key not in known:
        with popxl.ipu(stage.ipu):
            # Torch gives zeros for what a path that it knows does not lead to, as filled tensors.
            known[key] = autodiff_of_reached(stage.graph, list(provided.values()), wanted, called)
    info = known[key]
    given = set(info.outputs)
    return StageGradient(
        info,
        list(provided),
        {name: tensor for name, tensor in wanted_weights.items() if tensor in given},
        {source: tensor for source, tensor in wanted_values.items() if tensor in given},
    )
