"""Weights of wrapped modules on the host and on the device, beside modules that torch trains."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import poptorch
from tests.python.poptorch.models import Counter, WithLoss
from tests.python.poptorch.trained_models import RATE, TARGET, Norms, X, torch_step, train


def detached(value: Any) -> Any:
    many = isinstance(value, (list, tuple))
    return [one.detach() for one in value] if many else value.detach()


READERS: dict[str, Callable[[Norms], Any]] = {
    "attribute": lambda m: m.fc.weight,
    "list": lambda m: torch.cat([m.fc.bias, m.fc.bias]),
    "foreach": lambda m: torch._foreach_norm([m.fc.weight, m.fc.bias]),
    "index": lambda m: TARGET[(m.fc.bias > 0).nonzero()],
    "keyword": lambda m: functional.linear(input=X, weight=m.fc.weight),
    "method": lambda m: m.fc.weight.sum(0),
    "numpy": lambda m: torch.from_numpy(m.fc.weight.detach().numpy()),
    "layer": lambda m: m.layer_norm(TARGET),
    "buffer": lambda m: m.calls * 1,
    "buffers": lambda m: m._buffers["calls"] * 1,
    "parameters": lambda m: m.fc._parameters["bias"] * 1,
    "statistics": lambda m: torch.stack([m.batch_norm.running_mean, m.batch_norm.running_var]),
    "forward": lambda m: m(X),
    "vector": lambda m: nn.utils.parameters_to_vector(m.parameters()),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_reads_weights_finds_the_newest(reader: str) -> None:
    model = Norms()
    reference = copy.deepcopy(model)
    executor = train(model)
    for _ in range(2):
        executor(X, TARGET)
        torch_step(reference)
        given, wanted = (detached(READERS[reader](one)) for one in (model, reference))
        torch.testing.assert_close(given, wanted)


def test_tensors_that_a_program_keeps_are_current() -> None:
    model = Norms()
    reference = copy.deepcopy(model)
    executor = train(model)
    kept = [*model.parameters(), *model.buffers()]
    executor(X, TARGET)
    torch_step(reference)
    wanted = [*reference.parameters(), *reference.buffers()]
    for one, other in zip(kept, wanted, strict=True):
        torch.testing.assert_close(one.detach(), other.detach())


def test_inference_follows_trainers_one_after_another() -> None:
    model = WithLoss()
    reference = copy.deepcopy(model)
    inference = poptorch.inferenceModel(model)
    for _ in range(2):
        executor = train(model)
        for _ in range(2):
            executor(X, TARGET)
            torch_step(reference)
            torch.testing.assert_close(inference(X), reference(X).detach())
        executor(X, TARGET)
        torch_step(reference)
        executor.destroy()
        torch.testing.assert_close(inference(X), reference(X).detach())


def test_weights_that_a_program_changes_are_not_uploaded_before_the_first_run() -> None:
    model = WithLoss()
    executor = train(model)
    inference = poptorch.inferenceModel(executor)
    inference.compile(X)
    wanted = model(X).detach()
    with torch.no_grad():
        model.fc.weight.mul_(2)
    torch.testing.assert_close(inference(X), wanted)
    inference.copyWeightsToDevice()
    torch.testing.assert_close(inference(X), model(X).detach())


def test_all_weights_come_to_the_host_on_request() -> None:
    model = Norms()
    model.register_buffer("unused", torch.ones(2))
    model.fc.bias.requires_grad_(False)
    executor = train(model)
    executor(X, TARGET)
    wanted = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.add_(5)
    executor.copyWeightsToHost()
    torch.testing.assert_close(dict(model.state_dict()), dict(wanted))
    layer = nn.Linear(4, 3)
    inference = poptorch.inferenceModel(layer)
    before = inference(X)
    with torch.no_grad():
        layer.weight.mul_(2)
    inference.copyWeightsToHost()
    torch.testing.assert_close(layer(X).detach(), before)


def test_reading_state_waits_for_buffers_of_an_inference_executor() -> None:
    model = Counter()
    executor = poptorch.inferenceModel(model)
    executor(torch.zeros(1))
    assert float(model.count) == 0
    executor.copyWeightsToHost()
    assert float(model.count) == 1


class ByMode(nn.Module):
    """Its result tells its attributes in the trace."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.part = nn.Dropout(1.0)
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        result = x * self.scale * self.weight + (1.0 if self.training else -1.0)
        return result, functional.mse_loss(result, x * 0)


def test_eval_and_train_of_an_executor() -> None:
    zeros = torch.zeros(1, 3)
    model = ByMode()
    inference = poptorch.inferenceModel(model)
    inference.eval()
    assert (model.training, inference.model.training, model.part.training) == (True, False, False)
    assert inference(zeros)[0].tolist() == [[-1, -1, -1]]
    inference.train()
    assert inference.model.training and model.part.training
    # A training executor has the flag of the time when it was made.
    executor = train(model)
    executor.eval()
    assert (model.training, executor.model) == (False, model)
    assert executor(zeros)[0].tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("wrap", [poptorch.inferenceModel, train])
def test_numbers_of_the_module_are_those_of_the_wrapping(wrap: Callable[..., Any]) -> None:
    model = ByMode()
    executor = wrap(model)
    model.scale = 7.0
    torch.testing.assert_close(executor(torch.ones(1, 3))[0], torch.full((1, 3), 3.0))


# Devices.


class Noisy(nn.Module):
    """Random numbers, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))

    def forward(self, x: torch.Tensor) -> Any:
        y = functional.dropout(x * self.weight, 0.5, training=True)
        return y, functional.mse_loss(y, torch.zeros_like(y))


def test_random_numbers_of_training_go_on_after_a_detachment() -> None:
    ones = torch.ones(4, 16)
    models = [Noisy(), Noisy()]
    executors = [train(model, poptorch.Options().randomSeed(3)) for model in models]
    steps = []
    for _ in range(3):
        first, second = (executor(ones)[0] for executor in executors)
        assert torch.equal(first, second)
        steps.append(first != 0)
        state = executors[1].rng_state
        executors[1].detachFromDevice()
        assert executors[1].rng_state == state == executors[0].rng_state
    assert not torch.equal(steps[0], steps[1]) and not torch.equal(steps[1], steps[2])
    assert torch.equal(*(model.weight.detach() for model in models))


def test_what_a_call_does_in_which_order() -> None:
    offline = poptorch.inferenceModel(WithLoss(), poptorch.Options().useOfflineIpuTarget())
    with pytest.raises(AssertionError, match=r"^Trying to run a model on an offline device"):
        offline(1, 2, 3, 4)
    model = WithLoss()
    reference = copy.deepcopy(model)
    executor, inference = train(model), poptorch.inferenceModel(model)
    with pytest.raises(AssertionError, match="Too many arguments provided"):
        executor(1, 2, 3, 4)
    assert not executor.isCompiled()
    loss = executor(X, TARGET)[1]
    torch.testing.assert_close(loss, reference(X, TARGET)[1].detach())
    torch_step(reference)
    inference.compile(X)
    inference.detachFromDevice()
    executor(X, TARGET)
    torch_step(reference)
    # The device is taken and weights go there before inputs are looked at; then nothing runs.
    with pytest.raises(poptorch.Error, match=r"call destroy\(\) on the curent one and try again"):
        inference(X[:2])
    assert inference.isAttachedToDevice() and not executor.copyWeightsToHostIfNeeded()
    torch.testing.assert_close(inference(X), reference(X).detach())
    with pytest.raises(poptorch.Error, match=r"call destroy\(\) on the curent one and try again"):
        executor(X[:2], TARGET[:2])
    assert not executor.copyWeightsToHostIfNeeded()
    executor(X, TARGET)
    assert executor.copyWeightsToHostIfNeeded()


def test_inference_takes_no_optimizer() -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    with pytest.raises(AssertionError, match="An optimizer needs training"):
        poptorch.PoplarExecutor(model, poptorch.Options(), training=False, optimizer=optimizer)
    with pytest.raises(AssertionError, match="An optimizer can be set in a training executor only"):
        poptorch.inferenceModel(model).setOptimizer(optimizer)
