"""Training of a small network through a wrapper, fifty steps beside eager torch."""

from __future__ import annotations

import copy
import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import poptorch
from poptorch import optim
from tests.python.poptorch.log_testing import logged

STEPS, ROWS = 50, 6
Parameters = Sequence[torch.nn.Parameter]


class Network(torch.nn.Module):
    """Two layers and their loss."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = torch.nn.Linear(5, 8), torch.nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.second(torch.tanh(self.first(x)))
        return y, torch.nn.functional.mse_loss(y, target)


def batches(steps: int = STEPS, rows: int = ROWS) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(2)
    return [(torch.randn(rows, 5), torch.randn(rows, 3)) for _ in range(steps)]


def eager_training(
    make: Callable[[Parameters], torch.optim.Optimizer],
    data: Sequence[tuple[torch.Tensor, torch.Tensor]],
    schedule: Callable[[torch.optim.Optimizer], Any] | None = None,
) -> torch.nn.Module:
    model = Network().double()
    optimizer = make(list(model.parameters()))
    scheduler = None if schedule is None else schedule(optimizer)
    for x, target in data:
        optimizer.zero_grad()
        model(x.double(), target.double())[1].backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return model


def assert_same_weights(
    found: torch.nn.Module, wanted: torch.nn.Module, tolerance: float = 5e-5
) -> None:
    state = found.state_dict()
    for name, value in wanted.state_dict().items():
        torch.testing.assert_close(
            state[name].double(), value.double(), rtol=tolerance, atol=tolerance
        )


T = torch.optim
OPTIMIZERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "sgd": (T.SGD, optim.SGD, {"lr": 0.1}),
    "momentum": (T.SGD, optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}),
    "nesterov": (T.SGD, optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    "adam": (T.Adam, optim.Adam, {"lr": 0.01, "weight_decay": 0.01}),
    "adamw": (T.AdamW, optim.AdamW, {"lr": 0.01, "betas": (0.8, 0.99)}),
    "rmsprop": (T.RMSprop, optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "eps": 1e-3}),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_fifty_steps(kind: str) -> None:
    theirs, own, arguments = OPTIMIZERS[kind]
    wanted = eager_training(lambda p: theirs(p, **arguments), batches())
    for make, more in ((theirs, {}), (own, {"loss_scaling": 64.0})):
        model = Network()
        optimizer = make(model.parameters(), **arguments, **more)
        trained = poptorch.trainingModel(model, optimizer=optimizer)
        for x, target in batches():
            trained(x, target)
        assert_same_weights(model, wanted)


def test_schedule_and_groups() -> None:
    def make(parameters: Parameters) -> torch.optim.Optimizer:
        decayed = {"params": parameters[::2], "weight_decay": 0.1}
        plain = {"params": parameters[1::2], "weight_decay": 0.0, "lr": 0.02}
        return optim.AdamW([decayed, plain], lr=0.01, weight_decay=0.05)

    def schedule(optimizer: torch.optim.Optimizer) -> Any:
        return T.lr_scheduler.ExponentialLR(optimizer, 0.9)

    model = Network()
    optimizer = make(list(model.parameters()))
    scheduler = schedule(optimizer)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    for x, target in batches():
        trained(x, target)
        with warnings.catch_warnings():
            # torch looks whether its own `step` was called before.
            warnings.simplefilter("ignore")
            scheduler.step()
        trained.setOptimizer(optimizer)
    assert trained._optimizer is optimizer
    assert_same_weights(model, eager_training(make, batches(), schedule))


def test_changes_count_from_set_optimizer_on() -> None:
    model = Network()
    optimizer = optim.SGD(model.parameters(), lr=0.1, loss_scaling=2.0)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    ((x, target),) = batches(1)
    optimizer.param_groups[0]["lr"] = 0.0
    trained(x, target)
    before = model.state_dict()
    assert not torch.equal(before["first.weight"], Network().state_dict()["first.weight"])
    trained.setOptimizer(optimizer)
    trained(x, target)
    assert torch.equal(model.state_dict()["first.weight"], before["first.weight"])
    optimizer.param_groups[0]["momentum"] = 0.9
    with pytest.raises(ValueError, match=r"momentum of group 0 was compiled in as 0\.0"):
        trained.setOptimizer(optimizer)
    # The refusal leaves everything as it was.
    trained(x, target)
    assert torch.equal(model.state_dict()["first.weight"], before["first.weight"])
    with pytest.raises(AssertionError, match="training executor"):
        poptorch.inferenceModel(torch.nn.Linear(2, 2)).setOptimizer(optimizer)


def test_setting_an_optimizer_leaves_weights_on_the_device() -> None:
    model = Network()
    optimizer, other = (optim.AdamW(model.parameters(), lr=lr) for lr in (0.1, 0.3))
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    trained(*batches(1)[0])
    optimizer.param_groups[0]["lr"] = 0.2
    trained.setOptimizer(optimizer)
    trained.setOptimizer(other)
    optimizer.state_dict()
    assert trained.copyWeightsToHostIfNeeded()


def test_unexpected_attributes_are_told_once() -> None:
    model = Network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    optimizer.param_groups[0]["loss_scaling"] = 1.0
    with logged() as messages:
        trained.setOptimizer(optimizer)
        trained.setOptimizer(optimizer)
    assert [text for _, text in messages] == [
        "Ignoring unexpected group 0 attribute in SGD2 optimizer: ['loss_scaling']"
    ]


ACCUMULATED = 4


def accumulating(strategy: poptorch.MeanReductionStrategy | None, replicas: int = 1) -> Any:
    options = poptorch.Options().replicationFactor(replicas)
    options.Training.gradientAccumulation(ACCUMULATED)
    if strategy is None:
        options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    else:
        options.Training.setMeanAccumulationAndReplicationReductionStrategy(strategy)
    return options


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("strategy", [*poptorch.MeanReductionStrategy, None])
@pytest.mark.parametrize("half", [False, True])
def test_accumulation(
    strategy: poptorch.MeanReductionStrategy | None, replicas: int, half: bool
) -> None:
    parts = ACCUMULATED * replicas
    data = batches(10, rows=2 * parts)
    # A sum of means of micro-batches is that many times the mean over all.
    scale = parts if strategy is None else 1
    wanted = eager_training(lambda p: T.SGD(p, lr=0.05 * scale), data)
    model = Network()
    more = {"accum_type": torch.float16} if half else {}
    optimizer = optim.SGD(model.parameters(), lr=0.05, **more)
    trained = poptorch.trainingModel(model, accumulating(strategy, replicas), optimizer)
    for x, target in data:
        trained(x, target)
    assert_same_weights(model, wanted, 2e-3 if half else 5e-5)


class Scaled(torch.nn.Module):
    """A weight whose gradient is the mean of the input, in float16."""

    def __init__(self, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return poptorch.identity_loss(self.weight * x, reduction="sum")


def test_sums_of_half_become_running_means() -> None:
    """The sum of four gradients of 30000 is too large for float16, their mean is not."""
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    model = Scaled()
    optimizer = optim.SGD(model.parameters(), lr=2.0**-14, accum_type=torch.float16)
    trained = poptorch.trainingModel(model, options, optimizer)
    strategy = trained.options.Training.meanAccumulationAndReplicationReductionStrategy
    assert strategy == poptorch.MeanReductionStrategy.Running
    before = options.Training.meanAccumulationAndReplicationReductionStrategy
    assert before == poptorch.MeanReductionStrategy.Post
    trained(torch.full((4, 1), 30000.0, dtype=torch.float16))
    assert model.weight.item() == pytest.approx(-30000 / 2**14, rel=1e-3)


def test_half_accumulators_cannot_come_after_compilation() -> None:
    model = Network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    trained(*batches(1)[0])
    optimizer.accum_type = torch.float16
    text = r"to poptorch\.MeanReductionStrategy\.Running but the executable is already compiled\.$"
    with pytest.raises(ValueError, match=text):
        trained.setOptimizer(optimizer)


def test_loss_scale_keeps_small_gradients() -> None:
    """A gradient of 2^-26 is 0 in float16 unless it is scaled."""
    x = torch.full((1, 1), 2.0**-13, dtype=torch.float16)

    class Small(Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return poptorch.identity_loss(self.weight * x * x, reduction="sum")

    moved = []
    for scale in (1.0, 1024.0):
        model = Small()
        optimizer = optim.SGD(model.parameters(), lr=2.0**20, loss_scaling=scale)
        poptorch.trainingModel(model, optimizer=optimizer)(x)
        moved.append(model.weight.item())
    assert moved == [0.0, -(2.0**-6)]


def test_automatic_loss_scale() -> None:
    options = poptorch.Options()
    options.Training.setAutomaticLossScaling(True).gradientAccumulation(2)
    options.anchorTensor("scale", "finalLossScale")
    model = Scaled()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    trained = poptorch.trainingModel(model, options, optimizer)
    small = torch.ones(2, 1, dtype=torch.float16)
    large = torch.tensor([[1.0], [5000.0]], dtype=torch.float16)
    found = []
    for x in (small, small, large, small, large):
        trained(x)
        found.append(optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"].item())
    # The second large gradient has the scale 4: 20000 > 0.125 * 65504.
    assert found == [2, 4, 2, 4, 2]
    # The scale of the last step, not of the next.
    assert trained.getAnchoredTensor("scale").item() == 4
    assert "finalLossScale" not in optimizer.state_dict()["ipu_state"]
    assert model.weight.item() == pytest.approx(-(3 + 2 * 2500.5), rel=2e-3)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_gradients_can_be_anchored(accumulation: int) -> None:
    options = poptorch.Options().anchorTensor("gradient", "Gradient___first.weight")
    options.Training.gradientAccumulation(accumulation)
    model = Network()
    optimizer = optim.SGD(model.parameters(), lr=0.1, loss_scaling=4.0)
    trained = poptorch.trainingModel(model, options, optimizer)
    for x, target in batches(2):
        eager = Network()
        eager.load_state_dict(model.state_dict())
        trained(x, target)
        (4 * eager(x, target)[1]).backward()
        gradient = trained.getAnchoredTensor("gradient")
        torch.testing.assert_close(gradient, eager.first.weight.grad, rtol=1e-4, atol=1e-6)
    names = trained.getTensorNames()
    assert {f"Gradient___{name}" for name, _ in model.named_parameters()} <= set(names)
    assert "Gradient___first.weight" not in optimizer.state_dict()["ipu_state"]


def snapshot(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_training_goes_on_from_a_checkpoint() -> None:
    data = batches(8)

    def wrapped(model: Network) -> tuple[Any, optim.Adam]:
        optimizer = optim.Adam(model.parameters(), lr=0.05, max_grad_norm=0.1)
        return poptorch.trainingModel(model, optimizer=optimizer), optimizer

    model = Network()
    trained, optimizer = wrapped(model)
    assert optimizer.state_dict()["ipu_state"] is None
    file = io.BytesIO()
    for index, batch in enumerate(data):
        if index == 4:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        trained(*batch)
    wanted = snapshot(model)

    file.seek(0)
    checkpoint = torch.load(file)
    state = checkpoint["optimizer"]["ipu_state"]
    names = [name for name, _ in Network().named_parameters()]
    assert set(state) == {f"{k}___{n}" for k in ("Accl1", "Accl2", "Step") for n in names}
    assert state["Step___first.weight"] == 4
    again = Network()
    again.load_state_dict(checkpoint["model"])
    trained_again, optimizer = wrapped(again)
    optimizer.load_state_dict(checkpoint["optimizer"])
    for batch in data[4:]:
        trained_again(*batch)
    for name, value in again.state_dict().items():
        assert torch.equal(value, wanted[name])


@pytest.mark.parametrize("how", ["detach", "destroy", "load", "upload"])
def test_state_survives(how: str) -> None:
    data = batches(8)
    models = [Network(), Network()]
    for model, interrupted in zip(models, (False, True), strict=True):
        optimizer = optim.AdamW(model.parameters(), lr=0.05)
        trained = poptorch.trainingModel(model, optimizer=optimizer)
        for index, batch in enumerate(data):
            if interrupted and index == 4:
                if how == "detach":
                    trained.detachFromDevice()
                    assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 4
                    trained.attachToDevice()
                elif how == "destroy":
                    trained.destroy()
                    assert type(model) is Network
                    trained = poptorch.trainingModel(model, optimizer=optimizer)
                elif how == "load":
                    # The weights are newer on the device than on the host.
                    optimizer.load_state_dict(optimizer.state_dict())
                else:
                    trained.copyWeightsToHost()
                    trained.copyWeightsToDevice()
            trained(*batch)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one.detach(), other.detach())


def test_loading_does_not_lose_device_weights_or_numbers() -> None:
    model = Network()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    first, second = batches(2)
    trained(*first)
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][0]["lr"] = 0.0
    weights = snapshot(model)
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.0
    trained(*second)
    # The old learning rate is still that of the device.
    assert not torch.equal(model.state_dict()["first.weight"], weights["first.weight"])
    weights = snapshot(model)
    trained.setOptimizer(optimizer)
    trained(*second)
    assert torch.equal(model.state_dict()["first.weight"], weights["first.weight"])


def test_parameters_without_gradients_have_no_state() -> None:
    class Partly(Network):
        def __init__(self) -> None:
            super().__init__()
            self.unused = torch.nn.Linear(2, 2)
            self.first.bias.requires_grad_(False)

    model = Partly()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    before = snapshot(model)
    trained(*batches(1)[0])
    keys = optimizer.state_dict()["ipu_state"]
    assert not [key for key in keys if "unused" in key or "first.bias" in key]
    for name in ("unused.weight", "unused.bias", "first.bias"):
        assert torch.equal(model.state_dict()[name], before[name])


def test_state_of_half_precision() -> None:
    model = Network()
    optimizer = optim.Adam(
        model.parameters(), lr=0.01, first_order_momentum_accum_type=torch.float16
    )
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    trained(*batches(1)[0])
    state = optimizer.state_dict()["ipu_state"]
    assert state["Accl1___first.weight"].dtype == torch.float16
    assert state["Accl2___first.weight"].dtype == torch.float32
    optimizer.load_state_dict(optimizer.state_dict())
    trained(*batches(1)[0])
    assert optimizer.state_dict()["ipu_state"]["Step___first.weight"] == 2


def test_lamb_trains() -> None:
    model = Network()
    trained = poptorch.trainingModel(
        model, optimizer=optim.LAMB(model.parameters(), lr=0.05, weight_decay=0.0)
    )
    x, target = batches(1)[0]
    losses = [trained(x, target)[1].item() for _ in range(STEPS)]
    assert np.all(np.isfinite(losses)) and losses[-1] < 0.2 * losses[0]


class Staged(Network):
    """The layers on two virtual devices; `tied` is on both."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.tied = torch.nn.Parameter(torch.ones(1))
        self.to(dtype)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with poptorch.Block("first", ipu_id=0):
            y = torch.tanh(self.first(x)) * self.tied
        with poptorch.Block("second", ipu_id=1):
            y = self.second(y) * self.tied
            return y, torch.nn.functional.mse_loss(y, target)


STRATEGIES = {
    "pipelined": lambda: poptorch.PipelinedExecution("first", "second"),
    "sharded": lambda: poptorch.ShardedExecution("first", "second"),
}


def staged_options(strategy: str) -> poptorch.Options:
    options = poptorch.Options()
    options.setExecutionStrategy(STRATEGIES[strategy]())
    options.Training.gradientAccumulation(4)
    return options


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["momentum", "adamw", "adam"])
@pytest.mark.parametrize("half", [False, True])
def test_stages_on_devices(strategy: str, kind: str, half: bool) -> None:
    theirs, own, arguments = OPTIMIZERS[kind]
    data = batches(10, rows=8)
    eager = Staged().double()
    reference = theirs(eager.parameters(), **arguments)
    for x, target in data:
        reference.zero_grad()
        eager(x.double(), target.double())[1].backward()
        torch.nn.utils.clip_grad_norm_(eager.parameters(), 0.1)
        reference.step()
    model = Staged()
    more = {"accum_type": torch.float16} if half else {}
    optimizer = own(model.parameters(), **arguments, **more, max_grad_norm=0.1, loss_scaling=16.0)
    trained = poptorch.trainingModel(model, staged_options(strategy), optimizer)
    for x, target in data:
        trained(x, target)
    # Adam makes steps of one size out of gradients that are nearly 0.
    assert_same_weights(model, eager, 2e-2 if half else 5e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_automatic_loss_scale_of_stages(strategy: str) -> None:
    model = Staged(torch.float16)
    options = staged_options(strategy)
    options.Training.setAutomaticLossScaling(True)
    optimizer = optim.SGD(model.parameters(), lr=0.0, loss_scaling=8.0)
    trained = poptorch.trainingModel(model, options, optimizer)
    x, target = torch.ones(4, 5).half(), torch.ones(4, 3).half()
    for _ in range(2):
        trained(x, target)
    state = optimizer.state_dict()["ipu_state"]
    assert state["lossScaleUpdateFactor"] == 4
    target = torch.full_like(target, 30000.0)
    trained(x, target)
    assert optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"] == 2


def test_updates_read_gradients_in_the_order_of_their_weights() -> None:
    """A layer multiplies by its weight transposed; the gradient is made as the update reads it."""
    network = Network()
    network.first, network.second = torch.nn.Linear(48, 64), torch.nn.Linear(64, 32)
    options = poptorch.Options().showCompilationProgressBar(False)
    optimizer = torch.optim.Adam(network.parameters())
    executor = poptorch.trainingModel(network, options, optimizer)
    executor.compile(torch.randn(40, 48), torch.randn(40, 32))
    kernels = executor._executable.session._core.explain()
    operands = re.findall(r"operands (.*)", kernels)
    assert operands and {how for line in operands for how in line.split()} == {"direct", "splat"}
    executor.destroy()
