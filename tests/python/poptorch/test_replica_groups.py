"""Parameters with a value for each group of replicas, against a model for each group."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import poptorch
from poptorch import CommGroupType, VariableRetrievalMode, optim
from poptorch._replica_groups import ReplicaGroups

REPLICAS, ROWS = 4, 3
ONE, EACH = VariableRetrievalMode.OnePerGroup, VariableRetrievalMode.AllReplicas

# The group of each replica, as the documentation has it.
GROUPS = {
    (CommGroupType.All, 0): [0, 0, 0, 0],
    (CommGroupType.Consecutive, 2): [0, 0, 1, 1],
    (CommGroupType.Orthogonal, 2): [0, 1, 0, 1],
    (CommGroupType.Consecutive, 1): [0, 1, 2, 3],
    (CommGroupType.Orthogonal, 4): [0, 0, 0, 0],
    (CommGroupType.NoGrouping, 1): [0, 1, 2, 3],
}


class Model(torch.nn.Module):
    """A weight that may differ between replicas, and a layer that does not."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(weight.clone())
        self.layer = torch.nn.Linear(5, 2)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.layer(torch.tanh(x @ self.weight))
        return y, torch.nn.functional.mse_loss(y, target)


def values(groups: int) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(groups, 3, 5)


def options(accumulation: int = 1) -> poptorch.Options:
    chosen = poptorch.Options().replicationFactor(REPLICAS)
    chosen.outputMode(poptorch.OutputMode.All)
    chosen.Training.gradientAccumulation(accumulation)
    return chosen


def test_groups() -> None:
    for (kind, size), assignment in GROUPS.items():
        assert ReplicaGroups(kind, size, ONE).assignment(REPLICAS) == assignment


@pytest.mark.parametrize("chosen", GROUPS)
@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, lr=0.1, momentum=0.5), optim.Adam])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_training(chosen: tuple[CommGroupType, int], make: Any, accumulation: int) -> None:
    assignment = GROUPS[chosen]
    count = max(assignment) + 1
    model = Model(values(count))
    optimizer = make(model.parameters())
    trained = poptorch.trainingModel(model, options(accumulation), optimizer)
    trained.weight.replicaGrouping(*chosen, ONE)
    assert trained.per_replica_params == {"weight": ReplicaGroups(*chosen, ONE)}

    # In eager mode the whole weight is a table whose rows the replicas choose.
    eager = Model(values(count)).double()
    reference = make(eager.parameters())
    rows = REPLICAS * accumulation * ROWS
    for _ in range(5):
        x, target = torch.randn(rows, 3), torch.randn(rows, 2)
        trained(x, target)
        losses = []
        for replica, (xs, targets) in enumerate(
            zip(x.double().chunk(REPLICAS), target.double().chunk(REPLICAS), strict=True)
        ):
            y = eager.layer(torch.tanh(xs @ eager.weight[assignment[replica]]))
            losses.append(torch.nn.functional.mse_loss(y, targets))
        reference.zero_grad()
        torch.stack(losses).mean().backward()
        # A mean over the replicas of a group, not over all.
        eager.weight.grad *= count
        reference.step()
    torch.testing.assert_close(model.weight.double(), eager.weight, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        model.layer.weight.double(), eager.layer.weight, rtol=1e-4, atol=1e-5
    )
    state = optimizer.state_dict()["ipu_state"]
    key = "Accl___weight" if isinstance(optimizer, torch.optim.SGD) else "Accl1___weight"
    assert state[key].shape == (count, 3, 5)


@pytest.mark.parametrize("chosen", GROUPS)
@pytest.mark.parametrize("mode", [ONE, EACH])
def test_inference_and_read_back(chosen: tuple[CommGroupType, int], mode: Any) -> None:
    assignment = GROUPS[chosen]
    given = values(max(assignment) + 1)

    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(given.clone())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    model = Product()
    run = poptorch.inferenceModel(model, options())
    run.weight.replicaGrouping(*chosen, mode)
    x = torch.randn(REPLICAS, 3)
    wanted = torch.stack([x[r] @ given[assignment[r]] for r in range(REPLICAS)])
    torch.testing.assert_close(run(x), wanted, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        model.weight.mul_(2)
    run.copyWeightsToDevice()
    torch.testing.assert_close(run(x), 2 * wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("chosen", [(CommGroupType.All, 0), (CommGroupType.Orthogonal, 2)])
def test_state_comes_back_and_is_loaded_as_the_weight(chosen: tuple[CommGroupType, int]) -> None:
    x, target = torch.randn(REPLICAS, 3), torch.randn(REPLICAS, 2)

    def start(model: Model) -> tuple[Any, optim.Adam]:
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        trained = poptorch.trainingModel(model, options(), optimizer)
        trained.weight.replicaGrouping(*chosen, EACH)
        return trained, optimizer

    model = Model(values(max(GROUPS[chosen]) + 1))
    trained, optimizer = start(model)
    trained(x, target)
    state, weights = optimizer.state_dict(), copy.deepcopy(model.state_dict())
    assert weights["weight"].shape == (REPLICAS, 3, 5)
    assert state["ipu_state"]["Accl1___weight"].shape == (REPLICAS, 3, 5)
    assert state["ipu_state"]["Step___weight"].shape == ()
    trained(x, target)
    again = Model(weights["weight"])
    again.load_state_dict(weights)
    trained_again, other = start(again)
    other.load_state_dict(state)
    trained_again(x, target)
    assert torch.equal(again.weight.detach(), model.weight.detach())


@pytest.mark.parametrize("chosen", GROUPS)
def test_all_replicas_come_back(chosen: tuple[CommGroupType, int]) -> None:
    assignment = GROUPS[chosen]
    model = Model(values(max(assignment) + 1))
    before = model.weight.detach().clone()
    trained = poptorch.trainingModel(model, options(), torch.optim.SGD(model.parameters(), lr=0.0))
    trained.weight.replicaGrouping(*chosen, EACH)
    x, target = torch.randn(REPLICAS, 3), torch.randn(REPLICAS, 2)
    trained(x, target)
    trained.copyWeightsToHost()
    assert torch.equal(model.weight.detach(), before[assignment])
    # What came back can be sent again.
    trained.copyWeightsToDevice()
    trained(x, target)
    assert torch.equal(model.weight.detach(), before[assignment])


def test_state_is_loaded_by_group() -> None:
    x, target = torch.randn(REPLICAS, 3), torch.randn(REPLICAS, 2)

    def start(model: Model) -> tuple[Any, optim.Adam]:
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        trained = poptorch.trainingModel(model, options(), optimizer)
        trained.weight.replicaGrouping(CommGroupType.Consecutive, 2, ONE)
        return trained, optimizer

    model = Model(values(2))
    trained, optimizer = start(model)
    trained(x, target)
    state, weights = optimizer.state_dict(), copy.deepcopy(model.state_dict())
    trained(x, target)
    again = Model(values(2))
    again.load_state_dict(weights)
    trained_again, other = start(again)
    other.load_state_dict(state)
    trained_again(x, target)
    assert torch.equal(again.weight.detach(), model.weight.detach())


def test_parameter_of_an_executor_is_the_parameter() -> None:
    model = Model(values(2))
    run = poptorch.inferenceModel(model, options())
    weight = run.weight
    assert isinstance(weight, torch.nn.Parameter)
    assert weight.shape == (2, 3, 5) and weight.grad is None
    assert torch.equal(weight, model.weight)
    assert torch.equal(weight + 1, model.weight + 1)
    assert torch.equal(1 - weight, 1 - model.weight)
    assert torch.equal(torch.stack([weight, weight])[1], model.weight)
    assert torch.equal(weight[0], model.weight[0]) and len(weight) == 2
    assert torch.equal(pickle.loads(pickle.dumps(weight)), model.weight)
    np.testing.assert_array_equal(np.asarray(weight.detach()), model.weight.detach().numpy())
    with torch.no_grad():
        weight.zero_()
    assert not model.weight.any()
    weight.requires_grad = False
    assert not model.weight.requires_grad
    assert not hasattr(run.layer.weight, "replicaGrouping")


def test_what_is_refused() -> None:
    class Scalar(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(1.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scale * x

    text = "Scalars cannot be passed as per-replica weight tensor values"
    with pytest.raises(poptorch.Error, match=text):
        run = poptorch.inferenceModel(Scalar(), options())
        run.scale.replicaGrouping(CommGroupType.NoGrouping, 1, ONE)
    run = poptorch.inferenceModel(Model(values(3)), options())
    with pytest.raises(ValueError, match="divide the replication factor 4; given 3"):
        run.weight.replicaGrouping(CommGroupType.Consecutive, 3, ONE)
    with pytest.raises(TypeError, match=r"wanted comm_group_type of type poptorch\.CommGroupType"):
        run.weight.replicaGrouping(1, 2, ONE)
    with pytest.raises(TypeError, match=r"wanted shards of type int; given 2\.0"):
        run.weight.replicaGrouping(CommGroupType.Consecutive, 2.0, ONE)
    x, target = torch.randn(REPLICAS, 3), torch.randn(REPLICAS, 2)
    run.weight.replicaGrouping(CommGroupType.Consecutive, 2, ONE)
    with pytest.raises(poptorch.Error, match=r"wanted a first dimension of 2; given .*\[3, 3, 5\]"):
        run(x, target)
    right = poptorch.inferenceModel(Model(values(2)), options())
    right.weight.replicaGrouping(CommGroupType.Consecutive, 2, ONE)
    right(x, target)
    with pytest.raises(poptorch.Error, match=r"before compile\(\) or the first run"):
        right.weight.replicaGrouping(CommGroupType.NoGrouping, 1, ONE)
