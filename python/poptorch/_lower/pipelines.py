"""Micro-batches in a pipeline: every stage works on another one at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.micro_batch import MicroBatch
from poptorch._lower.stages import ForwardStages
from popxl import ops
from popxl.ops import var_updates
from popxl.ops.random_seed import create_random_seed
from popxl_addons.transforms.pipelining import Pipelining, pipelined_execution


@dataclass
class PipelineWork:
    """What a pipeline does with its micro-batches.

    Attributes:
        forward: The forward pass.
        micro_batch: The ops of a micro-batch.
        keep: Does something with the results that a stage has made, by number.
        store_input: Does something with the new value of an input, given its number.
        scale: Gives the gradient of the loss; None: there are no gradients.
        take: Does something with the gradients that a stage has made, by name of the weight, and
            is told whether they are the last ones.
    """

    forward: ForwardStages
    micro_batch: MicroBatch
    keep: Callable[[Mapping[int, popxl.Tensor]], None]
    store_input: Callable[[int, popxl.Tensor], None]
    scale: Callable[[], popxl.Tensor] | None
    take: Callable[[Mapping[str, popxl.Tensor], bool], None]


def check_written_tensors(forward: ForwardStages) -> None:
    """Raise for a tensor that one stage writes and another one reads.

    Args:
        forward: The forward pass.
    """
    for name, one in forward.written.items():
        for number, stage in enumerate(forward.stages):
            reads = any(s.kind == "tensor" and s.name == name for s in stage.reads)
            if reads and number != one.stage:
                raise createPoptorchError(
                    f"The buffer or parameter {name} is written in stage {one.stage} of a pipeline "
                    f"and read in stage {number}, which works on another micro-batch then. Use it "
                    "in one block, or poptorch.ShardedExecution"
                )


class _Pipeline:
    def __init__(self, pipeline: Pipelining, work: PipelineWork, seed: popxl.Tensor) -> None:
        self._pipeline = pipeline
        self._work = work
        self._seed = seed
        self._batch = work.micro_batch

    def run(self) -> None:
        forward = self._work.forward
        last = len(forward.stages) - 1
        seed = self._seed
        for number, stage in enumerate(forward.stages):
            with self._pipeline.stage(number), popxl.ipu(stage.ipu):
                if number == 0 and forward.random:
                    seed = ops.identity(self._seed)
                    var_updates.copy_var_update_(self._seed, create_random_seed(seed, 0))
                self._batch.run_stage(seed)
                self._keep(number)
                if number == last and self._work.scale is not None:
                    self._run_gradient(number)
        if self._work.scale is None:
            return
        for number in reversed(range(last)):
            with self._pipeline.stage(2 * last - number), popxl.ipu(forward.stages[number].ipu):
                self._run_gradient(number)

    def _keep(self, number: int) -> None:
        results = enumerate(self._work.forward.outputs)
        self._work.keep({i: self._batch.value(one) for i, one in results if one.stage == number})
        for place, one in self._work.forward.written_inputs.items():
            if one.stage == number:
                self._work.store_input(place, self._batch.value(one))
        for name, one in self._work.forward.written.items():
            if one.stage == number:
                self._batch.write(name, one)

    def _run_gradient(self, number: int) -> None:
        assert self._work.scale is not None
        gradients = self._batch.run_gradient(
            number, self._work.scale(), self._pipeline.stash_and_restore_activations
        )
        self._work.take(gradients, number == 0)


def run_pipeline(steps: int, work: PipelineWork, seed: popxl.Tensor) -> popxl.Tensor:
    """Make a pipeline in the current graph.

    Args:
        steps: The number of micro-batches.
        work: What it does.
        seed: The seed of the first micro-batch.

    Returns:
        The seed of the first micro-batch behind the pipeline.
    """
    check_written_tensors(work.forward)
    state = ops.identity(seed)
    with pipelined_execution(steps) as pipeline:
        _Pipeline(pipeline, work, state).run()
    return state
