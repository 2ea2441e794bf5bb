"""Replicas of models in phases, beside the same replicas of models whole in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import poptorch
from pando import memory_budget
from poptorch import CommGroupType, VariableRetrievalMode
from tests.python.poptorch.phased import check_same, options_of
from tests.python.poptorch.test_fit_in import (
    BATCH,
    OPTIMIZERS,
    WIDTH,
    Network,
    train,
    trained,
    words,
)
from tests.python.poptorch.test_phase_writes import Normalised, numbers

REPLICAS = 2


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("accumulation", "iterations"), [(1, 1), (3, 2)])
def test_replicas_train_as_in_memory(
    in_phases: None, tmp_path: Path, name: str, accumulation: int, iterations: int
) -> None:
    def options(folder: Path | None) -> poptorch.Options:
        return options_of(folder, accumulation, iterations, replicas=REPLICAS)

    wanted = trained(Network(), options(None), OPTIMIZERS[name])
    given = trained(Network(), options(tmp_path), OPTIMIZERS[name])
    assert given[0].fitPlan().phases == 5
    for one, other in zip(given[1], wanted[1], strict=True):
        check_same(one, other)
    check_same(given[2].values(), wanted[2].values())


def test_replicas_train_as_torch(in_phases: None, tmp_path: Path) -> None:
    model, eager = Network(), Network()
    _, losses, state = trained(model, options_of(tmp_path, replicas=REPLICAS), OPTIMIZERS["adamw"])
    optimizer = OPTIMIZERS["adamw"](eager.parameters())
    for step, (loss, _) in enumerate(losses):
        parts = zip(*(t.split(BATCH) for t in words(BATCH * REPLICAS, step)), strict=True)
        found = torch.stack([eager(*part)[0] for part in parts])
        torch.testing.assert_close(loss, found.detach(), rtol=1e-5, atol=1e-5)
        optimizer.zero_grad()
        found.mean().backward()
        optimizer.step()
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-4)


def test_replicas_infer_as_torch(in_phases: None, tmp_path: Path) -> None:
    model = Network()
    executor = poptorch.inferenceModel(model, options_of(tmp_path, replicas=REPLICAS))
    given, _ = words(BATCH * REPLICAS, 0)
    wanted = torch.cat([model(part) for part in given.split(BATCH)]).detach()
    torch.testing.assert_close(executor(given), wanted, rtol=1e-5, atol=1e-5)


def trained_with_statistics(folder: Path | None) -> list[torch.Tensor]:
    """Buffers and weights after steps in which replicas see other numbers."""
    model = Normalised()
    options = options_of(folder, accumulation=2, replicas=REPLICAS).broadcastBuffers(False)
    executor = poptorch.trainingModel(
        model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    )
    for step in range(3):
        x, y = numbers(32, step)
        executor(torch.cat([x[:16], x[16:] * 3]), y)
    return [value.clone() for value in model.state_dict().values()]


def test_every_replica_has_its_statistics(in_phases: None, tmp_path: Path) -> None:
    check_same(trained_with_statistics(tmp_path), trained_with_statistics(None))


class WithGain(Network):
    """All blocks read a vector and a number that have a value for each replica."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.stack([torch.ones(WIDTH), torch.full((WIDTH,), 0.5)]))
        self.scale = torch.nn.Parameter(torch.tensor([1.0, 0.75]))

    def forward(self, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x, self.scale) * self.gain
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def trained_with_gains(
    folder: Path | None, optimizer: Callable[[Iterator[torch.nn.Parameter]], Any]
) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Losses with weights, and the state of the optimizer, also after the device was given up."""
    model = WithGain()
    options = options_of(folder, accumulation=2, replicas=REPLICAS)
    made = optimizer(model.parameters())
    executor = poptorch.trainingModel(model, options, made)
    for parameter in (executor.gain, executor.scale):
        parameter.replicaGrouping(CommGroupType.NoGrouping, 1, VariableRetrievalMode.OnePerGroup)
    losses = train(executor, options)
    executor.detachFromDevice()
    executor.attachToDevice()
    losses += train(executor, options, first=7)
    state = made.state_dict()["ipu_state"] if isinstance(made, poptorch.optim.Optimizer) else {}
    return [*losses, *(value.clone() for value in model.state_dict().values())], state


@pytest.mark.parametrize("name", ["sgd", "clipped", "adam_float16"])
def test_groups_of_replicas_have_weights_of_their_own(
    in_phases: None, tmp_path: Path, name: str
) -> None:
    given, state = trained_with_gains(tmp_path, OPTIMIZERS[name])
    wanted, wanted_state = trained_with_gains(None, OPTIMIZERS[name])
    check_same(given, wanted)
    assert state.keys() == wanted_state.keys()
    for key, value in wanted_state.items():
        torch.testing.assert_close(torch.as_tensor(state[key]), torch.as_tensor(value))


def test_replicas_share_the_memory_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = 1 << 30
    for replicas in (1, REPLICAS, 7):
        monkeypatch.setattr(memory_budget, "claimed_bytes", lambda: 100 << 20)
        budget = memory_budget.MemoryBudget.of(1 << 20, memory, replicas)
        used = budget.process_bytes + replicas * (budget.device_bytes + budget.staging_bytes)
        assert memory - replicas * (memory // 64 + 1) < used <= memory
        # A process that has some pages more finds the programs that this one has stored.
        monkeypatch.setattr(memory_budget, "claimed_bytes", lambda: (100 << 20) + 12345)
        other = memory_budget.MemoryBudget.of(1 << 20, memory, replicas)
        assert (other.device_bytes, other.prefetch_bytes) == (
            budget.device_bytes,
            budget.prefetch_bytes,
        )


def test_every_replica_has_its_share_of_the_memory(in_phases: None, tmp_path: Path) -> None:
    plans = []
    for replicas in (1, REPLICAS):
        model = Network()
        options = options_of(tmp_path, replicas=replicas)
        executor = poptorch.trainingModel(model, options, OPTIMIZERS["sgd"](model.parameters()))
        executor.compile(*words(BATCH * replicas, 0))
        plans.append(executor.fitPlan())
        executor.destroy()
    one, both = plans
    for name in ("staging_bytes", "remote_bytes"):
        assert getattr(both, name) == REPLICAS * getattr(one, name)


@pytest.mark.parametrize("weight", ["blocks.1.layer.weight", "embedding.weight"])
def test_anchors_are_those_of_every_replica(in_phases: None, tmp_path: Path, weight: str) -> None:
    prefixes = ("UpdatedVar___", "Gradient___", "Accum___")

    def anchored(folder: Path | None) -> list[torch.Tensor]:
        model = Network()
        options = options_of(folder, accumulation=3, replicas=REPLICAS)
        for prefix in prefixes:
            options.anchorTensor(prefix, prefix + weight)
        executor = poptorch.trainingModel(model, options, OPTIMIZERS["sgd"](model.parameters()))
        train(executor, options, steps=1)
        return [executor.getAnchoredTensor(prefix) for prefix in prefixes]

    given = anchored(tmp_path)
    check_same(given, anchored(None))
    of_replicas = given[-1].chunk(REPLICAS)
    assert not torch.allclose(*of_replicas)
