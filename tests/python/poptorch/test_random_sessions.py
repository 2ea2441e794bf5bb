"""Random sequences of calls of executors, and what they have found."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import poptorch
from poptorch import _compilation
from tests.python.poptorch.log_testing import logged
from tests.python.poptorch.random_interrupts import Interrupted
from tests.python.poptorch.random_sessions import outcome_of

SEQUENCES = 30
INTERRUPTED_SEQUENCES = 30


def test_random_sequences_do_what_is_expected() -> None:
    outcomes = {seed: outcome_of(seed) for seed in range(400_000, 400_000 + SEQUENCES)}
    assert {seed: outcome for seed, outcome in outcomes.items() if outcome} == {}


# Python drops what is raised while it closes a generator.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_leaves_no_call_half_done() -> None:
    seeds = range(410_000, 410_000 + INTERRUPTED_SEQUENCES)
    outcomes = {seed: outcome_of(seed, Interrupted) for seed in seeds}
    assert {seed: outcome for seed, outcome in outcomes.items() if outcome} == {}


class Network(nn.Module):
    """Blocks that do in training what they do not do otherwise."""

    def __init__(self) -> None:
        super().__init__()
        parts = [nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3)) for _ in range(3)]
        self.blocks = nn.Sequential(*parts)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.blocks(x)
        return y, poptorch.identity_loss(y.square(), "mean")


X = torch.arange(12.0).reshape(4, 3) % 5


def trained(folder: Path | None = None) -> tuple[poptorch.PoplarExecutor, Any]:
    """A network after a step, and its optimizer."""
    options = poptorch.Options().showCompilationProgressBar(False)
    if folder is not None:
        options.fit_in("64GiB", folder)
    network = Network()
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    executor = poptorch.trainingModel(network, options, optimizer)
    executor(X)
    return executor, optimizer


@pytest.mark.parametrize("in_phases", [False, True])
def test_training_goes_on_after_a_validation(
    in_phases: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved in evaluation mode, a program is loaded as it was compiled, without compiling it."""
    monkeypatch.setattr(_compilation, "may_be_whole", lambda *_: False)
    executor, _ = trained(tmp_path if in_phases else None)
    executor.model.eval()
    executor.save(str(tmp_path / "saved"))
    wanted = [executor(X)[1] for _ in range(2)]
    loaded = poptorch.load(str(tmp_path / "saved"))
    assert loaded._executable.was_read
    assert not loaded.model.blocks.training
    torch.testing.assert_close([loaded(X)[1] for _ in range(2)], wanted, rtol=0, atol=0)


def test_a_checkpoint_has_the_state_that_was_loaded(tmp_path: Path) -> None:
    executor, optimizer = trained()
    state = copy.deepcopy(optimizer.state_dict())
    executor(X)
    optimizer.load_state_dict(state)
    executor.saveCheckpoint(tmp_path, step=1)
    executor(X)
    executor.loadCheckpoint(tmp_path)
    momenta = optimizer.state_dict()["ipu_state"]
    torch.testing.assert_close(momenta, state["ipu_state"], rtol=0, atol=0)


@pytest.mark.parametrize("kind", [torch.optim.SGD, poptorch.optim.SGD])
def test_nothing_is_told_of_what_compiling_notes_in_an_optimizer(kind: Any) -> None:
    executor, _ = trained()
    optimizer = kind(executor.model.parameters(), lr=0.1, momentum=0.9)
    with logged() as messages:
        executor.setOptimizer(optimizer)
        optimizer.param_groups[0]["lr"] = 0.2
        executor.setOptimizer(optimizer)
    assert messages == []
