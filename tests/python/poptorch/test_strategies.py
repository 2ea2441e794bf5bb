"""Execution strategies: where blocks are placed, and what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import poptorch
from poptorch import AutoStage, Liveness, Phase, Stage
from poptorch._stages import (
    check_inference_pipeline,
    check_training_pipeline,
    count_forward_stages,
)


def test_stages() -> None:
    stage = Stage("a", "b")
    assert stage.blocks == ["a", "b"]
    assert stage.ipu(3) is stage
    assert repr(stage) == "Stage('a', 'b').ipu(3)"
    with pytest.raises(AssertionError, match="given 1"):
        Stage("a", 1)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="number of a device; given -1"):
        stage.ipu(-1)


def test_phases() -> None:
    assert [one.blocks for one in Phase("a", "b").stages] == [["a", "b"]]
    phase = Phase(Stage("a"), Stage("b", "c"))
    assert phase.stage(1).blocks == ["b", "c"]
    assert phase.ipus(4, 5) is phase
    assert repr(phase) == "Phase(Stage('a').ipu(4), Stage('b', 'c').ipu(5))"
    for bad in ([Stage("a"), "b"], [], [1]):
        with pytest.raises(AssertionError, match="Phase"):
            Phase(*bad)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="each of the 2 stages"):
        phase.ipus(1)


STAGED: Any = pytest.mark.parametrize(
    "kind", [poptorch.PipelinedExecution, poptorch.ShardedExecution]
)


@STAGED
def test_stages_by_position(kind: Any) -> None:
    strategy = kind("a", ["b", "c"], Stage("d", "e").ipu(7))
    assert strategy.place("a", None) == (0, 0, 0)
    assert strategy.place("b", None) == (1, 0, 1)
    assert strategy.place("c", 5) == (1, 0, 5)
    assert strategy.place("d", None) == (2, 0, 7)
    assert strategy.place("e", 0) == (2, 0, 7)
    assert strategy.stage("e").blocks == ["d", "e"]
    strategy.stage("a").ipu(2)
    assert strategy.place("a", 1) == (0, 0, 2)
    with pytest.raises(AssertionError) as caught:
        strategy.place("x", 0)
    assert str(caught.value).startswith(
        "Unknown Block 'x' list of expected Blocks: ['a', 'b', 'c', 'd', 'e']"
    )
    with pytest.raises(AssertionError, match=r"^Unknown block x"):
        strategy.stage("x")


@STAGED
def test_stage_is_device(kind: Any) -> None:
    for strategy in (kind(AutoStage.SameAsIpu), kind()):
        assert strategy.place("a", 3) == (3, 0, 3)
        assert strategy.place("b", 0) == (0, 0, 0)
        assert strategy.stage("a").blocks == ["a"]
        with pytest.raises(AssertionError) as caught:
            strategy.place("c", None)
        assert str(caught.value).startswith(
            "poptorch.AutoStage.SameAsIpu was selected but no IPU was specified for block c"
        )


@STAGED
def test_stages_count_up(kind: Any) -> None:
    strategy = kind(AutoStage.AutoIncrement)
    for _ in range(2):
        strategy.start_trace()
        assert strategy.place("a", 0) == (1, 0, 0)
        assert strategy.place("b", 1) == (2, 0, 1)
        assert strategy.place("a", 0) == (1, 0, 0)
        assert strategy.place("c", None) == (3, 0, 3)
        assert strategy.stage("b").blocks == ["b"]


@STAGED
def test_staged_strategies_refuse(kind: Any) -> None:
    with pytest.raises(AssertionError, match=r"^b associated with more than one stage"):
        kind("a", ["b"], Stage("b"))
    with pytest.raises(AssertionError, match="one AutoStage or stages"):
        kind(AutoStage.SameAsIpu, "a")
    with pytest.raises(AssertionError, match="one AutoStage or stages"):
        kind(AutoStage.SameAsIpu, AutoStage.SameAsIpu)
    with pytest.raises(AssertionError, match="given 4"):
        kind(4)


def test_strategies_can_be_copied_and_shown() -> None:
    strategies = [
        poptorch.PipelinedExecution(AutoStage.AutoIncrement),
        poptorch.ShardedExecution("a", ["b", "c"]),
        poptorch.SerialPhasedExecution("a", Stage("b")).setTensorsLiveness(Liveness.AlwaysLive),
        poptorch.ParallelPhasedExecution(Phase("a")).sendTensorsOffChipAfterFwd(),
    ]
    shown = [
        "PipelinedExecution(AutoStage.AutoIncrement)",
        "ShardedExecution(Stage('a'), Stage('b', 'c'))",
        "SerialPhasedExecution(Phase(Stage('a')), Phase(Stage('b')), liveness=Liveness.AlwaysLive, "
        "separate_backward_phase=False)",
        "ParallelPhasedExecution(Phase(Stage('a')), liveness=Liveness.OffChipAfterFwd, "
        "separate_backward_phase=False)",
    ]
    assert list(map(repr, strategies)) == shown
    assert [repr(copy.deepcopy(one)) for one in strategies] == shown
    assert [repr(pickle.loads(pickle.dumps(one))) for one in strategies] == shown


PHASED: Any = pytest.mark.parametrize(
    "kind", [poptorch.SerialPhasedExecution, poptorch.ParallelPhasedExecution]
)


@PHASED
def test_what_a_phase_may_be(kind: Any) -> None:
    strategy = kind(
        Phase("a", "b"), [Stage("c"), Stage("d", "e")], ["f", "g"], Stage("h", "i"), "j"
    )
    blocks = [[stage.blocks for stage in strategy.phase(n).stages] for n in range(5)]
    assert blocks == [[["a", "b"]], [["c"], ["d", "e"]], [["f"], ["g"]], [["h", "i"]], [["j"]]]
    with pytest.raises(AssertionError, match=r"at least one phase"):
        kind()
    with pytest.raises(AssertionError, match=r"^a associated with more than one stage"):
        kind("a", ["b", "a"])
    with pytest.raises(AssertionError, match="given 3"):
        kind(3)
    with pytest.raises(AssertionError, match=r"^Unknown Block 'x'"):
        strategy.place("x", None)
    with pytest.raises(AssertionError, match="wanted a bool"):
        strategy.useSeparateBackwardPhase(1)
    with pytest.raises(AssertionError, match=r"wanted a poptorch\.Liveness"):
        strategy.setTensorsLiveness(1)


def test_serial_phases_of_the_user_guide() -> None:
    strategy = poptorch.SerialPhasedExecution(
        Phase(Stage("A"), Stage("A2")),
        Phase(Stage("B"), Stage("B2")),
        Phase(Stage("C"), Stage("C2")),
    )
    for number in range(3):
        strategy.phase(number).ipus(0, 1)
    places = [strategy.place(name, None) for name in ("A", "A2", "B", "B2", "C", "C2")]
    assert places == [(0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 1, 1), (0, 2, 0), (1, 2, 1)]
    assert strategy.describe(places[3]) == " mode(Phased), ipu(1), phase(1)"


def test_parallel_phases_of_the_user_guide() -> None:
    strategy = poptorch.ParallelPhasedExecution(["0", "1"], ["2", "3"], ["4", "5"])
    # Devices that are not chosen.
    places = [strategy.place(str(number), None) for number in range(6)]
    assert places == [(0, 0, 0), (1, 0, 2), (0, 1, 1), (1, 1, 3), (0, 2, 0), (1, 2, 2)]
    strategy.phase(0).ipus(0, 2)
    strategy.phase(1).ipus(1, 3)
    strategy.phase(2).ipus(0, 2)
    assert [strategy.place(str(number), None) for number in range(6)] == places
    strategy.phase(1).ipus(0, 3)
    with pytest.raises(AssertionError) as caught:
        strategy.place("2", None)
    assert str(caught.value).startswith(
        "When phases are executed in parallel: even phases must run on even IPUs and odd phases on "
        "odd IPUs"
    )


@pytest.mark.parametrize(
    ("liveness", "is_separate", "expected"),
    [
        (Liveness.AlwaysLive, False, {0: 4, 1: 3, 2: 2}),
        (Liveness.AlwaysLive, True, {0: 6, 1: 5, 2: 4}),
        (Liveness.OffChipAfterFwd, False, {0: 8, 1: 7, 2: 6}),
        (Liveness.OffChipAfterFwdNoOverlap, False, {0: 12, 2: 10, 4: 8}),
        (Liveness.OffChipAfterEachPhase, False, {0: 20, 4: 16, 8: 12}),
    ],
)
def test_numbers_of_phases(liveness: Liveness, is_separate: bool, expected: dict[int, int]) -> None:
    strategy = poptorch.SerialPhasedExecution("a", "b", "c")
    assert strategy.setTensorsLiveness(liveness) is strategy
    assert strategy.useSeparateBackwardPhase(is_separate) is strategy
    forward = [strategy.place(name, None).phase for name in "abc"]
    assert {phase: strategy.backward_phase(phase) for phase in forward} == expected


def test_parallel_phases_have_two_livenesses() -> None:
    strategy = poptorch.ParallelPhasedExecution("a", "b")
    assert strategy.sendTensorsOffChipAfterFwd() is strategy
    assert strategy.num_phases == 4
    assert strategy.sendTensorsOffChipAfterFwd(False).num_phases == 2
    strategy.setTensorsLiveness(Liveness.OffChipAfterFwd)
    for liveness in (Liveness.OffChipAfterFwdNoOverlap, Liveness.OffChipAfterEachPhase):
        with pytest.raises(AssertionError, match="only supported for serial phase execution"):
            strategy.setTensorsLiveness(liveness)
    with pytest.raises(AssertionError, match="wanted a bool"):
        strategy.sendTensorsOffChipAfterFwd(1)  # type: ignore[arg-type]


def test_log_text_of_pipelines() -> None:
    strategy = poptorch.PipelinedExecution("a", "b")
    assert strategy.describe(strategy.place("b", None)) == " mode(Pipelined), ipu(1), stage(1)"


def test_forward_stages() -> None:
    assert count_forward_stages([]) == 1
    assert count_forward_stages([0, 0]) == 1
    assert count_forward_stages([1]) == 2
    assert count_forward_stages([0, 1, 1, 2, 3]) == 4
    assert count_forward_stages([0, 1, 0]) == 3


def test_pipelines_need_micro_batches() -> None:
    check_training_pipeline(7, 4)
    with pytest.raises(poptorch.Error) as caught:
        check_training_pipeline(6, 4)
    assert caught.value.message == (
        "poptorch.Options().Training.gradientAccumulation must be greater than or equal to the "
        "number of pipeline stages (7) when using poptorch.PipelinedExecution. Please note that a "
        "model with 4 pipeline stages in PopTorch will have an additional 3 stages when training."
    )
    check_inference_pipeline(4, 4)
    with pytest.raises(poptorch.Error) as caught:
        check_inference_pipeline(3, 4)
    assert caught.value.message == (
        "poptorch.Options().deviceIterations must be greater than or equal to the number of "
        "pipeline stages (4) when using PopTorch.PipelinedExecution."
    )
