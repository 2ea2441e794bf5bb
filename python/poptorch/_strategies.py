"""Execution strategies: which stage, phase and device the blocks of a module belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from poptorch._stages import Phase, Placement, Stage
from poptorch.enums import AutoStage, Liveness

Strategy = TypeVar("Strategy", bound="_PhasedExecution")


class ExecutionStrategy:
    """What all strategies share; programs use the classes that derive from it."""

    # As log lines name it.
    mode = ""

    def start_trace(self) -> None:
        """Forget the blocks of the trace before; only the tracer calls this."""

    def place(self, user_id: str, ipu_id: int | None) -> Placement:
        """Find where a block belongs.

        Args:
            user_id: The block's id.
            ipu_id: The device that the block names, or None.

        Returns:
            The placement.

        Raises:
            AssertionError: The strategy does not know the block, or cannot place it.
        """
        raise NotImplementedError

    def describe(self, placement: Placement) -> str:
        """Say what log lines have after the name of an op.

        Args:
            placement: Where the op is.

        Returns:
            Text that begins with a space.
        """
        return f" mode({self.mode}), ipu({placement.ipu}), stage({placement.stage})"


def _unknown_block(user_id: str, known: Iterable[str]) -> str:
    return f"Unknown Block '{user_id}' list of expected Blocks: {list(known)}"


def _by_block(stages: Sequence[Stage]) -> dict[str, int]:
    """The number of the stage of every block."""
    found: dict[str, int] = {}
    for number, stage in enumerate(stages):
        for block in stage.blocks:
            assert block not in found, f"{block} associated with more than one stage"
            found[block] = number
    return found


def _as_stage(one: object) -> Stage:
    if isinstance(one, Stage):
        return one
    if isinstance(one, str):
        return Stage(one)
    assert isinstance(one, (list, tuple)), (
        f"wanted a stage as a block's id, a list of ids or a poptorch.Stage; given {one!r}"
    )
    return Stage(*one)


class _StagedExecution(ExecutionStrategy):
    def __init__(self, *args: AutoStage | str | list[str] | Stage) -> None:
        automatic = [one for one in args if isinstance(one, AutoStage)]
        assert len(automatic) <= 1 and (not automatic or len(args) == 1), (
            f"{type(self).__name__}: wanted one AutoStage or stages; given {args!r}"
        )
        self._auto_stage: AutoStage | None = None
        if automatic or not args:
            self._auto_stage = automatic[0] if automatic else AutoStage.SameAsIpu
        self._stages = [] if automatic else [_as_stage(one) for one in args]
        self._numbers = _by_block(self._stages)
        self._seen: dict[str, Stage] = {}

    def start_trace(self) -> None:
        self._seen = {}

    def stage(self, block_id: str) -> Stage:
        """Find the stage of a block.

        Args:
            block_id: The block's user_id; with an AutoStage a block of the last trace.

        Returns:
            The stage.

        Raises:
            AssertionError: There is no such block.
        """
        if block_id in self._seen:
            return self._seen[block_id]
        assert block_id in self._numbers, f"Unknown block {block_id}"
        return self._stages[self._numbers[block_id]]

    def place(self, user_id: str, ipu_id: int | None) -> Placement:
        if self._auto_stage == AutoStage.SameAsIpu:
            assert ipu_id is not None, (
                "poptorch.AutoStage.SameAsIpu was selected but no IPU was specified for block "
                f"{user_id}"
            )
            self._seen[user_id] = Stage(user_id).ipu(ipu_id)
            return Placement(ipu_id, 0, ipu_id)
        if self._auto_stage == AutoStage.AutoIncrement:
            self._seen.setdefault(user_id, Stage(user_id))
            number = list(self._seen).index(user_id) + 1
            return Placement(number, 0, number if ipu_id is None else ipu_id)
        assert user_id in self._numbers, _unknown_block(user_id, self._numbers)
        number = self._numbers[user_id]
        chosen = self._stages[number]._ipu
        if chosen is None:
            chosen = number if ipu_id is None else ipu_id
        return Placement(number, 0, chosen)

    def __repr__(self) -> str:
        given = [f"AutoStage.{self._auto_stage.name}"] if self._auto_stage is not None else []
        return f"{type(self).__name__}({', '.join([*given, *map(repr, self._stages)])})"


class PipelinedExecution(_StagedExecution):
    """Stages work at the same time, each on another micro-batch.

    Training needs a gradient accumulation of at least twice the number of stages less one,
    inference at least as many device iterations as stages; a program on one device needs neither.

    Args:
        *args: One AutoStage, or the stages in their order: a block's id, a list of ids or a Stage.
            None given: AutoStage.SameAsIpu.

    Raises:
        AssertionError: A block is in two stages, or an argument is of another type.
    """

    mode = "Pipelined"


class ShardedExecution(_StagedExecution):
    """Stages work one after another.

    Args:
        *args: One AutoStage, or the stages in their order: a block's id, a list of ids or a Stage.
            None given: AutoStage.SameAsIpu.

    Raises:
        AssertionError: A block is in two stages, or an argument is of another type.
    """

    mode = "Sharded"


def _as_phase(one: object) -> Phase:
    if isinstance(one, Phase):
        return one
    if isinstance(one, (Stage, str)):
        return Phase(one)
    assert isinstance(one, (list, tuple)) and one, (
        "wanted a phase as a poptorch.Phase, a Stage, a block's id, or a list of stages or ids; "
        f"given {one!r}"
    )
    return Phase(*(Stage(part) if isinstance(part, str) else part for part in one))


# How far the numbers of consecutive phases are apart.
_STRIDES = {
    Liveness.AlwaysLive: 1,
    Liveness.OffChipAfterFwd: 1,
    Liveness.OffChipAfterFwdNoOverlap: 2,
    Liveness.OffChipAfterEachPhase: 4,
}


class _PhasedExecution(ExecutionStrategy):
    mode = "Phased"

    def __init__(self, *phases: Phase | list[Stage] | list[str] | Stage | str) -> None:
        assert phases, f"{type(self).__name__}: wanted at least one phase; given none"
        self._phases = [_as_phase(phase) for phase in phases]
        _by_block([stage for phase in self._phases for stage in phase.stages])
        self._where = {
            block: (number, position, stage)
            for number, phase in enumerate(self._phases)
            for position, stage in enumerate(phase.stages)
            for block in stage.blocks
        }
        self._liveness = Liveness.AlwaysLive
        self._separate_backward = False

    def phase(self, phase: int) -> Phase:
        """Give a phase.

        Args:
            phase: Its number, in the order given.

        Returns:
            The phase.
        """
        return self._phases[phase]

    def useSeparateBackwardPhase(self: Strategy, use: bool = True) -> Strategy:
        """Choose whether backward passes have phases of their own.

        Args:
            use: Whether they have; if not, the last phase is both.

        Returns:
            The strategy itself.

        Raises:
            AssertionError: `use` is no bool.
        """
        assert isinstance(use, bool), f"useSeparateBackwardPhase: wanted a bool; given {use!r}"
        self._separate_backward = use
        return self

    def setTensorsLiveness(self: Strategy, liveness: Liveness) -> Strategy:
        """Choose how long tensors stay on the device; it changes no result.

        Args:
            liveness: How long; AlwaysLive or OffChipAfterFwd where phases run in parallel.

        Returns:
            The strategy itself.

        Raises:
            AssertionError: It is no Liveness, or none for this strategy.
        """
        assert isinstance(liveness, Liveness), (
            f"setTensorsLiveness: wanted a poptorch.Liveness; given {liveness!r}"
        )
        self._check_liveness(liveness)
        self._liveness = liveness
        return self

    @property
    def num_phases(self) -> int:
        """The number of phases, with the numbers that transfers between them take."""
        highest = (len(self._phases) - 1) * _STRIDES[self._liveness]
        between = 1 if self._liveness == Liveness.AlwaysLive else 3
        return highest + between + int(self._separate_backward)

    def backward_phase(self, phase: int) -> int:
        """Find the backward pass of a phase.

        Args:
            phase: The number of the phase, as in placements.

        Returns:
            The number of the phase in which its backward pass is.
        """
        return 2 * (self.num_phases - 1) - phase

    def place(self, user_id: str, ipu_id: int | None) -> Placement:
        assert user_id in self._where, _unknown_block(user_id, self._where)
        number, position, stage = self._where[user_id]
        chosen = stage._ipu if stage._ipu is not None else ipu_id
        if chosen is None:
            chosen = self._default_ipu(number, position)
        self._check_ipu(number, chosen)
        return Placement(position, number * _STRIDES[self._liveness], chosen)

    def _check_liveness(self, liveness: Liveness) -> None:
        """Refuses one that the strategy does not have."""

    def _default_ipu(self, phase: int, stage: int) -> int:
        return stage

    def _check_ipu(self, phase: int, ipu_id: int) -> None:
        """Refuses a device on which the phase may not run."""

    def describe(self, placement: Placement) -> str:
        return f" mode({self.mode}), ipu({placement.ipu}), phase({placement.phase})"

    def __repr__(self) -> str:
        phases = ", ".join(map(repr, self._phases))
        return (
            f"{type(self).__name__}({phases}, liveness=Liveness.{self._liveness.name}, "
            f"separate_backward_phase={self._separate_backward})"
        )


class SerialPhasedExecution(_PhasedExecution):
    """Phases run one after another on one group of devices.

    Args:
        *phases: A Phase, a list of stages, a list of ids that are a stage each, a Stage or an id.

    Raises:
        AssertionError: There are no phases, or a block is in two stages.
    """


class ParallelPhasedExecution(_PhasedExecution):
    """Phases alternate between two groups of devices, those of even and of odd numbers.

    Stages for which no device is chosen are on the first devices of their group.

    Args:
        *phases: A Phase, a list of stages, a list of ids that are a stage each, a Stage or an id.

    Raises:
        AssertionError: There are no phases, or a block is in two stages.
    """

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> ParallelPhasedExecution:
        """Choose whether tensors leave the device after the forward pass; it changes no result.

        Args:
            off_chip: Whether they do.

        Returns:
            The strategy itself.

        Raises:
            AssertionError: `off_chip` is no bool.
        """
        assert isinstance(off_chip, bool), (
            f"sendTensorsOffChipAfterFwd: wanted a bool; given {off_chip!r}"
        )
        self._liveness = Liveness.OffChipAfterFwd if off_chip else Liveness.AlwaysLive
        return self

    def _check_liveness(self, liveness: Liveness) -> None:
        assert liveness in (Liveness.AlwaysLive, Liveness.OffChipAfterFwd), (
            f"setTensorsLiveness: Liveness.{liveness.name} was given to a ParallelPhasedExecution. "
            "This is only supported for serial phase execution"
        )

    def _default_ipu(self, phase: int, stage: int) -> int:
        return 2 * stage + phase % 2

    def _check_ipu(self, phase: int, ipu_id: int) -> None:
        assert ipu_id % 2 == phase % 2, (
            "When phases are executed in parallel: even phases must run on even IPUs and odd "
            f"phases on odd IPUs; phase {phase} was given IPU {ipu_id}"
        )
