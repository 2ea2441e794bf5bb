"""The loops around the micro-batches of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from poptorch import enums
from poptorch._lower.segments import Segment
from poptorch._replica_groups import ReplicaGroups
from poptorch._stages import (
    check_inference_pipeline,
    check_training_pipeline,
    count_forward_stages,
)
from poptorch._strategies import ExecutionStrategy, PipelinedExecution

# What anchors call gradients of weights, updated weights and sums of gradients, before the names of
# the weights.
GRADIENT = "Gradient___"
REDUCED_GRADIENT = "FinalReducedGradient___"
UPDATED = "UpdatedVar___"
SUM = "Accum___"


@dataclass
class Schedule:
    """How many micro-batches there are, and what becomes of their results.

    Attributes:
        iterations: Device iterations of a run.
        accumulation: Micro-batches of a weight update.
        replicas: Replicas of the program.
        output_mode: Which results come back; never `Default`.
        mean: Whether gradients are averaged over micro-batches and replicas, or summed.
        strategy: How stages on several devices run.
        num_io_tiles: The number of tiles reserved for transfers, which has no effect.
        mean_strategy: When an average is divided.
        groups: How replicas share parameters that have several values, by name.
        anchored: What anchors name beside tensors of the forward pass.
    """

    iterations: int = 1
    accumulation: int = 1
    replicas: int = 1
    output_mode: enums.OutputMode = enums.OutputMode.All
    mean: bool = True
    strategy: ExecutionStrategy = field(default_factory=PipelinedExecution)
    num_io_tiles: int = 0
    mean_strategy: enums.MeanReductionStrategy = enums.MeanReductionStrategy.Post
    groups: Mapping[str, ReplicaGroups] = field(default_factory=dict)
    anchored: Sequence[str] = ()

    @property
    def kept_gradients(self) -> set[str]:
        """The names of parameters whose gradient is kept for anchors."""
        return self._anchored_behind(GRADIENT) | self._anchored_behind(REDUCED_GRADIENT)

    @property
    def kept_sums(self) -> set[str]:
        """The names of parameters whose sum of gradients is kept for anchors."""
        return self._anchored_behind(SUM)

    def _anchored_behind(self, prefix: str) -> set[str]:
        return {name.removeprefix(prefix) for name in self.anchored if name.startswith(prefix)}

    @property
    def keeps_means(self) -> bool:
        """Whether accumulators hold the means of the micro-batches so far, not their sums."""
        return self.mean and self.mean_strategy == enums.MeanReductionStrategy.Running

    @property
    def seed_divisor(self) -> int:
        """What the gradient of the loss is divided by."""
        divides = self.mean and self.mean_strategy == enums.MeanReductionStrategy.PostAndLoss
        return self.accumulation if divides else 1

    def gradient_divisor(self, replicas: int) -> int:
        """Tell what an accumulated gradient is divided by.

        Args:
            replicas: The number of replicas over which it was summed.

        Returns:
            The divisor.
        """
        if not self.mean:
            return 1
        sums = self.mean_strategy == enums.MeanReductionStrategy.Post
        return self.accumulation * replicas if sums else replicas

    def pipelines(self, segments: Sequence[Segment], is_training: bool) -> bool:
        """Check whether the segments of a forward pass run as a pipeline.

        Args:
            segments: The segments.
            is_training: Whether the program trains.

        Returns:
            Whether they do: with a pipelined execution on several devices.

        Raises:
            Error: There are fewer micro-batches than the pipeline has stages.
        """
        devices = [segment.ipu for segment in segments]
        if not isinstance(self.strategy, PipelinedExecution) or len(set(devices)) == 1:
            return False
        stages = count_forward_stages(devices)
        if is_training:
            check_training_pipeline(self.accumulation, stages)
        else:
            check_inference_pipeline(self.iterations, stages)
        return True

    @property
    def transfers(self) -> int:
        """Micro-batches that a replica gets in a run."""
        return self.iterations * self.accumulation

    @property
    def stores_each(self) -> bool:
        """Whether every micro-batch sends its results to the host."""
        one = self.transfers == 1
        return one or self.output_mode in (enums.OutputMode.All, enums.OutputMode.EveryN)
