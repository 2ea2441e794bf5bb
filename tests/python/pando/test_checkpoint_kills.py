"""Training killed at random instants goes on from its last checkpoint with the same bits.

More kills: `./dev kills 200`.
"""

import pytest

from benchmarks import kills
from pando import checkpoint

STEPS = 60


def test_kills_cost_nothing(tmp_path):
    summary = kills.kill_trainings(tmp_path, kills=6, seed=20260802, steps=STEPS)
    assert summary.is_clean, str(summary)
    assert summary.kills == 6
    assert summary.checked_checkpoints > 0
    for folder in tmp_path.glob("training-*"):
        # The last one that ended well removed what the killed ones had left.
        assert [path.name for path in (folder / "remote").iterdir()] == ["pando.lock"]


def attempt(*lines):
    return kills.read_attempt(f"{line} ." for line in lines)


class Faulty(kills.Trainings):
    """Trainings that never run: attempts are made up."""

    def __init__(self):
        self.summary = kills.Summary()
        self._steps = 3
        self._straight = attempt("from 0", "step 1 aa", "step 2 bb", "step 3 cc", "end ff")


@pytest.mark.parametrize(
    ("lines", "kind", "message"),
    [
        (
            ["from 0", "step 1 aa", "step 2 bc", "step 3 cc", "end ff"],
            "diverging",
            "from step 2 on",
        ),
        (["from 1", "step 2 bb", "step 3 cc", "end fe"], "diverging", "the final state differs"),
        (
            ["from 0", "step 1 aa", "step 2 bb", "step 3 cc", "end ff"],
            "unloadable",
            "1 was durable",
        ),
    ],
)
def test_faults_are_found(tmp_path, lines, kind, message):
    trainings = Faulty()
    durable = 1 if kind == "unloadable" else 0
    assert trainings._examine(tmp_path, attempt(*lines), durable)
    (fault,) = getattr(trainings.summary, kind)
    assert message in fault
    assert not trainings.summary.is_clean
    assert fault in str(trainings.summary)


@pytest.mark.parametrize("content", ["variables.replica-0.safetensors", ""])
def test_damaged_checkpoints_are_found(tmp_path, content):
    folder = tmp_path / "checkpoints" / "step-0000000001"
    folder.mkdir(parents=True)
    if content:
        (folder / content).touch()
    trainings = Faulty()
    assert trainings._examine(tmp_path, attempt("from 1"), 1)
    assert "manifest.json" in trainings.summary.unloadable[0]
    assert len(checkpoint.checkpoints(tmp_path / "checkpoints")) == bool(content)


def test_a_line_that_was_cut_off_does_not_count():
    cut = ["from 4 .", "step 5 abcd .", "saved 4 .", "step 6 ab", "exit -9 ."]
    found = kills.read_attempt(cut)
    assert (found.start, found.losses, found.durable) == (4, {5: "abcd"}, 4)
    assert found.killed and not found.error
