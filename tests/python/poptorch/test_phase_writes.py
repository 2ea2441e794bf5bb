"""Models in phases that write buffers and inputs, beside the same models whole in memory."""

from __future__ import annotations

import pytest
import torch

import poptorch
from tests.python.poptorch.phased import check_same, options_of

STEPS = 3


class NormalisedBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(5, 5)
        self.norm = torch.nn.BatchNorm1d(5)

    def forward(self, x):
        return x + torch.tanh(self.norm(self.layer(x)))


class Normalised(torch.nn.Module):
    """Blocks with statistics, and a tensor that is written but never read."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.first = torch.nn.Linear(5, 5)
        self.blocks = torch.nn.ModuleList([NormalisedBlock() for _ in range(3)])
        self.register_buffer("largest", torch.zeros(5))

    def forward(self, x, wanted):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        self.largest.copy_(x.detach().amax(0))
        return x, poptorch.identity_loss((x - wanted).square(), "mean")


def numbers(count, seed):
    return torch.randn(2, count, 5, generator=torch.Generator().manual_seed(seed))


def trained_with_statistics(options, steps=STEPS):
    model = Normalised()
    executor = poptorch.trainingModel(
        model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    )
    count = 8 * options.Training.gradient_accumulation * options.device_iterations
    results = [executor(*numbers(count, step)) for step in range(steps)]
    return executor, results, {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize(("accumulation", "iterations"), [(1, 1), (3, 1), (1, 2), (2, 2)])
def test_statistics_are_those_of_the_whole_program(
    in_phases, tmp_path, accumulation, iterations
) -> None:
    wanted = trained_with_statistics(options_of(None, accumulation, iterations))
    given = trained_with_statistics(options_of(tmp_path, accumulation, iterations))
    plan = given[0].fitPlan()
    # The last block gives a result; the two before it share a graph.
    assert (plan.phases, plan.graphs) == (5, 4)
    for one, other in zip(given[1], wanted[1], strict=True):
        check_same(one, other)
    updates = STEPS * accumulation * iterations
    assert given[2]["blocks.0.norm.num_batches_tracked"] == updates
    check_same(given[2].values(), wanted[2].values())


def test_statistics_are_those_of_torch(in_phases, tmp_path) -> None:
    _, losses, state = trained_with_statistics(options_of(tmp_path))
    eager = Normalised()
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1, momentum=0.9)
    for step, (_, loss) in enumerate(losses):
        _, wanted = eager(*numbers(8, step))
        torch.testing.assert_close(loss, wanted.detach(), rtol=1e-5, atol=1e-5)
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-5)


def test_inference_with_statistics_is_that_of_torch(in_phases, tmp_path) -> None:
    model, eager = Normalised(), Normalised()
    executor = poptorch.inferenceModel(model, options_of(tmp_path, iterations=2))
    given, wanted = numbers(16, 0)
    result, _ = executor(given, wanted)
    parts = [eager(x, y)[0] for x, y in zip(given.split(8), wanted.split(8), strict=True)]
    torch.testing.assert_close(result, torch.cat(parts).detach(), rtol=1e-5, atol=1e-5)
    executor.copyWeightsToHost()
    for name, value in eager.named_buffers():
        torch.testing.assert_close(dict(model.named_buffers())[name], value)


class WritesItsInput(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(5, 5) for _ in range(2)])

    def forward(self, x, wanted):
        for layer in self.layers:
            x.add_(1)
            x = torch.tanh(layer(x))
        return x, poptorch.identity_loss((x - wanted).square(), "mean")


def test_inputs_are_written_once(in_phases, tmp_path) -> None:
    model = WritesItsInput()
    given, wanted = numbers(4, 0)
    before = given.clone()
    executor = poptorch.trainingModel(
        model, options_of(tmp_path), torch.optim.SGD(model.parameters(), lr=0.1)
    )
    executor(given, wanted)
    assert executor.fitPlan().phases > 1
    torch.testing.assert_close(given, before + 1)


class Scaled(torch.nn.Module):
    """Layers that compute with a tensor which they write."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([ScaledLayer() for _ in range(3)])

    def forward(self, words, labels):
        x = words.float()
        for layer in self.layers:
            x = layer(x)
        return poptorch.identity_loss(x.square(), "mean")


class ScaledLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(5, 5)
        self.register_buffer("scale", torch.ones(5))

    def forward(self, x):
        x = self.layer(x) * self.scale
        self.scale.mul_(0.5)
        return x


class CountsInTurns(torch.nn.Module):
    """Layers that count in one tensor, each from where the one before has come."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(5, 5) for _ in range(2)])
        self.register_buffer("count", torch.zeros(5))

    def forward(self, words, labels):
        x = words.float()
        for layer in self.layers:
            x = layer(x)
            self.count.mul_(0.5).add_(x.detach().mean(0))
        return poptorch.identity_loss(x.square(), "mean")


@pytest.mark.parametrize(
    ("model", "accumulation", "error"),
    [
        (Scaled, 1, "forward writes layers.0.scale and computes with its old value"),
        (CountsInTurns, 2, "forward reads count in one phase and writes it in another one"),
    ],
)
def test_what_cannot_be_written_twice_is_told(in_phases, tmp_path, model, accumulation, error):
    module = model()
    executor = poptorch.trainingModel(
        module,
        options_of(tmp_path, accumulation),
        torch.optim.SGD(module.parameters(), lr=1),
    )
    with pytest.raises(poptorch.Error, match=error):
        executor(*numbers(2 * accumulation, 0))
    assert not executor.isCompiled()
    assert all(parameter.isfinite().all() for parameter in module.parameters())
