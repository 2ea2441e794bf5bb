"""What phases write: tensors of the module, and inputs of the model.

A phase whose gradient is computed runs twice, and writes only the first time. The second time it
finds what it has written, which therefore must not change what is differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.stage_gradients import StageGradient
from poptorch._lower.stages import ForwardStages, Source


def check_writes(
    forward: ForwardStages, gradients: Sequence[StageGradient | None], micro_batches: int
) -> None:
    """Check that a program in phases writes the same as one in which micro-batches take turns.

    Args:
        forward: The phases.
        gradients: Their gradient graphs.
        micro_batches: How many micro-batches each phase has.

    Raises:
        Error: A gradient depends on a tensor of the module that `forward` writes, or a phase has
            to find what another one wrote for the micro-batch before.
    """
    for name, one in forward.written.items():
        source = Source("tensor", name)
        for number, stage in enumerate(forward.stages):
            if source not in stage.reads:
                continue
            if number != one.stage and micro_batches > 1:
                raise createPoptorchError(
                    f"fit_in: forward reads {name} in one phase and writes it in another one; each "
                    f"phase runs over all {micro_batches} micro-batches before the next one "
                    "begins. Run one micro-batch at a time, or the model without fit_in"
                )
            if _is_differentiated(forward, gradients, number, source):
                raise createPoptorchError(
                    f"fit_in: forward writes {name} and computes with its old value; phases are "
                    "computed twice, and the second time would find the new one. Compute with the "
                    "new value, or train the model without fit_in"
                )


def _is_differentiated(
    forward: ForwardStages,
    gradients: Sequence[StageGradient | None],
    number: int,
    source: Source,
) -> bool:
    """Whether a phase runs twice and what is differentiated in it depends on what it reads."""
    stage, gradient = forward.stages[number], gradients[number]
    if gradient is None or forward.runs_once(number):
        return False
    results = {stage.values[one].id for one in gradient.provided if one is not None}
    if forward.loss is not None and forward.loss.stage == number:
        results.add(forward.loss.tensor.id)
    return not results.isdisjoint(_dependents(stage.graph, stage.reads[source]))


def _dependents(graph: popxl.Graph, tensor: popxl.Tensor) -> set[str]:
    """The ids of a tensor of a graph and of all that is computed from it."""
    found = {tensor.id}
    for op in graph._pb.ops:
        if any(one is not None and one.id in found for one in op.inputs):
            found |= {one.id for one in op.outputs if one is not None}
            found |= {op.input(index).id for index in op.modified_inputs}
    return found
