"""The parts of execution strategies: stages of blocks, phases of stages, and pipelines' rules."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from poptorch._impl import createPoptorchError


class Placement(NamedTuple):
    """Where the ops of a block are.

    Attributes:
        stage: The number of the stage.
        phase: The number of the phase; 0 where there are none.
        ipu: The number of the virtual device.
    """

    stage: int
    phase: int
    ipu: int


class Stage:
    """Blocks that run on one device.

    Args:
        *block_ids: The user_ids of the blocks.

    Raises:
        AssertionError: One is no string.
    """

    def __init__(self, *block_ids: str) -> None:
        for block_id in block_ids:
            assert isinstance(block_id, str), (
                f"Stage: wanted the ids of blocks as strings; given {block_id!r}"
            )
        self._blocks = list(block_ids)
        self._ipu: int | None = None

    @property
    def blocks(self) -> list[str]:
        """The ids of the blocks."""
        return list(self._blocks)

    def ipu(self, ipu_id: int) -> Stage:
        """Choose the device, also against what blocks say.

        Args:
            ipu_id: The number of the device.

        Returns:
            The stage itself.

        Raises:
            AssertionError: It is no number from 0 on.
        """
        assert isinstance(ipu_id, int) and ipu_id >= 0, (
            f"Stage.ipu: wanted the number of a device; given {ipu_id!r}"
        )
        self._ipu = ipu_id
        return self

    def __repr__(self) -> str:
        blocks = ", ".join(map(repr, self._blocks))
        return f"Stage({blocks})" + ("" if self._ipu is None else f".ipu({self._ipu})")


class Phase:
    """Stages that run in parallel, as one step of a phased execution.

    Args:
        *arg: Stages, or the ids of the blocks of a single stage.

    Raises:
        AssertionError: They are neither all stages nor all strings, or there are none.
    """

    def __init__(self, *arg: Stage | str) -> None:
        blocks = [one for one in arg if isinstance(one, str)]
        stages = [one for one in arg if isinstance(one, Stage)]
        assert arg and len(arg) in (len(blocks), len(stages)), (
            f"Phase: wanted stages, or strings that are the blocks of one stage; given {arg!r}"
        )
        self._stages = [Stage(*blocks)] if blocks else stages

    @property
    def stages(self) -> list[Stage]:
        """The stages."""
        return list(self._stages)

    def stage(self, idx: int) -> Stage:
        """Give a stage.

        Args:
            idx: Its number in the phase.

        Returns:
            The stage.
        """
        return self._stages[idx]

    def ipus(self, *ids: int) -> Phase:
        """Choose the devices of all stages.

        Args:
            *ids: A number for each stage, in their order.

        Returns:
            The phase itself.

        Raises:
            AssertionError: There are more or fewer stages.
        """
        assert len(ids) == len(self._stages), (
            f"Phase.ipus: wanted a device for each of the {len(self._stages)} stages; given {ids}"
        )
        for stage, ipu_id in zip(self._stages, ids, strict=True):
            stage.ipu(ipu_id)
        return self

    def __repr__(self) -> str:
        return f"Phase({', '.join(map(repr, self._stages))})"


def count_forward_stages(ipus: Iterable[int]) -> int:
    """Count the stages of a pipeline.

    Args:
        ipus: The devices of the ops or blocks in the order of execution.

    Returns:
        1 and the number of changes from one device to another, of which the first is 0.
    """
    return 1 + sum(one != two for one, two in itertools.pairwise([0, *ipus]))


def check_training_pipeline(gradient_accumulation: int, forward_stages: int) -> None:
    """Refuse a pipeline that is longer than the micro-batches of a training step.

    Args:
        gradient_accumulation: The number of micro-batches of a weight update.
        forward_stages: The number of stages of the forward pass.

    Raises:
        Error: There are fewer micro-batches than stages of both passes.
    """
    total = 2 * forward_stages - 1
    if gradient_accumulation < total:
        raise createPoptorchError(
            "poptorch.Options().Training.gradientAccumulation must be greater than or equal to the "
            f"number of pipeline stages ({total}) when using poptorch.PipelinedExecution. Please "
            f"note that a model with {forward_stages} pipeline stages in PopTorch will have an "
            f"additional {forward_stages - 1} stages when training."
        )


def check_inference_pipeline(device_iterations: int, forward_stages: int) -> None:
    """Refuse a pipeline that is longer than the micro-batches of a call.

    Args:
        device_iterations: The number of micro-batches.
        forward_stages: The number of stages.

    Raises:
        Error: There are fewer micro-batches than stages.
    """
    if device_iterations < forward_stages:
        raise createPoptorchError(
            "poptorch.Options().deviceIterations must be greater than or equal to the number of "
            f"pipeline stages ({forward_stages}) when using PopTorch.PipelinedExecution."
        )
