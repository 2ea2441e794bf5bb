"""Whole models through both wrappers, compared with eager torch."""

import copy
import gc

import numpy as np
import pytest
import torch

import poptorch


class WithLoss(torch.nn.Module):
    """A layer with its loss, and a parameter that the loss does not depend on."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 5)
        self.unused = torch.nn.Linear(2, 2)
        self.loss = torch.nn.MSELoss()

    def forward(self, x, target=None):
        y = torch.relu(self.layer(x))
        return y if target is None else (y, self.loss(y, target))


OPTIMIZERS = {
    "none": None,
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: poptorch.optim.AdamW(p, lr=1e-2),
}


def combined(x, replicas, iterations):
    """The rows of a combined batch by weight update."""
    return x.reshape(replicas, iterations, -1, x.shape[-1]).transpose(0, 1).flatten(1, 2)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(
    ("iterations", "accumulation", "replicas"), [(1, 1, 1), (3, 1, 1), (1, 4, 1), (2, 2, 2)]
)
def test_training_updates_weights_as_torch_does(kind, iterations, accumulation, replicas):
    torch.manual_seed(3)
    model = WithLoss()
    eager = copy.deepcopy(model)
    options = poptorch.Options()
    options.deviceIterations(iterations).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    make = OPTIMIZERS[kind]
    optimizer = None if make is None else make(model.parameters())
    trained = poptorch.trainingModel(model, options, optimizer)
    reference = (make or (lambda p: torch.optim.SGD(p, lr=0.01)))(eager.parameters())
    rows = 4 * iterations * accumulation * replicas
    for _ in range(4):
        x, target = torch.randn(rows, 6), torch.randn(rows, 5)
        output, loss = trained(x, target)
        for part, wanted in zip(
            combined(x, replicas, iterations), combined(target, replicas, iterations), strict=True
        ):
            reference.zero_grad()
            eager(part, wanted)[1].backward()
            reference.step()
    assert output.shape == (4 * replicas, 5)
    assert loss.shape == ((replicas,) if replicas > 1 else ())
    for given, wanted in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(given.detach(), wanted.detach(), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("mode", [m for m in poptorch.OutputMode if m.name != "Default"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_results_of_each_output_mode(mode, replicas):
    torch.manual_seed(5)
    model = torch.nn.Linear(3, 2)
    options = poptorch.Options().deviceIterations(4).replicationFactor(replicas)
    options.outputMode(mode, 2)
    x = torch.randn(4 * replicas * 5, 3)
    given = poptorch.inferenceModel(model, options)(x)
    by_step = model(x).detach().reshape(replicas, 4, 5, 2)
    wanted = {
        "All": by_step,
        "EveryN": by_step[:, 1::2],
        "Final": by_step[:, -1],
        "Sum": by_step.sum(1),
    }[mode.name].reshape(-1, 2)
    torch.testing.assert_close(given, wanted)


class Counter(torch.nn.Module):
    """A buffer that forward writes and a tensor that is only an attribute."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.tensor([0.0]))
        self.plain = torch.tensor([0.0])

    def forward(self):
        self.steps += 1
        self.plain += 1
        return self.steps, self.plain


@pytest.mark.filterwarnings("ignore:Output expected to be on the IPU")
def test_buffers_live_on_the_device_and_attributes_are_frozen():
    model = Counter()
    wrapped = poptorch.inferenceModel(model)
    assert [float(v) for v in wrapped()] == [1, 1]
    assert [float(v) for v in wrapped()] == [2, 1]
    assert float(model.steps) == 0
    wrapped.copyWeightsToHost()
    assert float(model.steps) == 2


def test_weights_are_read_from_the_device_when_they_are_newer():
    torch.manual_seed(7)
    model = WithLoss()
    before = model.layer.weight.detach().clone()
    trained = poptorch.trainingModel(model)
    assert isinstance(model, WithLoss)
    assert type(model).__name__ == "PoptorchWithLoss"
    trained(torch.randn(4, 6), torch.randn(4, 5))
    assert not torch.equal(model.layer.weight, before)
    state = model.state_dict()
    assert all(type(value) is torch.Tensor for value in state.values())
    trained(torch.randn(4, 6), torch.randn(4, 5))
    assert trained.copyWeightsToHostIfNeeded()
    assert not trained.copyWeightsToHostIfNeeded()
    with pytest.raises(RuntimeError, match=r"^Model has already been wrapped"):
        poptorch.trainingModel(model)
    trained.destroy()
    assert type(model) is WithLoss
    assert type(model.layer.weight) is torch.nn.Parameter
    with pytest.raises(poptorch.Error, match="has not been compiled or has been destroyed"):
        trained.copyWeightsToHost()


def test_inference_follows_the_training_of_the_same_module():
    torch.manual_seed(8)
    model = WithLoss()
    trained = poptorch.trainingModel(model)
    infers = poptorch.inferenceModel(model)
    x, target = torch.randn(4, 6), torch.randn(4, 5)
    for _ in range(2):
        trained(x, target)
        given = infers(x)
        torch.testing.assert_close(given, model(x).detach())


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4, bias=False)
        self.second = torch.nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        return poptorch.identity_loss(self.second(torch.tanh(self.first(x))) ** 2, "sum")


def test_a_tied_weight_is_updated_once():
    torch.manual_seed(9)
    model = Tied()
    eager = copy.deepcopy(model)
    x = torch.randn(3, 4)
    trained = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    trained(x)
    (eager.second(torch.tanh(eager.first(x))) ** 2).sum().backward()
    wanted = eager.first.weight - 0.1 * eager.first.weight.grad
    torch.testing.assert_close(model.first.weight.detach(), wanted.detach())
    trained.destroy()
    assert model.second.weight is model.first.weight


class Fails(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.fails = True

    def forward(self, x):
        y = self.layer(x)
        if self.fails:
            raise ValueError("of the user's program")
        return y


def test_a_module_is_whole_after_its_forward_raised():
    model = Fails()
    weight = model.layer.weight
    wrapped = poptorch.inferenceModel(model)
    with pytest.raises(ValueError, match="of the user's program"):
        wrapped(torch.ones(2, 3))
    assert model.layer.weight is weight
    assert not poptorch.isRunningOnIpu()
    wrapped.model.fails = False
    np.testing.assert_allclose(
        wrapped(torch.ones(2, 3)), model.layer(torch.ones(2, 3)).detach(), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (lambda y: y.sum(), "^'poptorch_py_error': Couldn't find a loss in graph!"),
        (
            lambda y: (
                torch.nn.functional.mse_loss(y, y * 0) + torch.nn.functional.l1_loss(y, y * 0)
            ),
            "Multiple independent losses found in graph",
        ),
    ],
)
def test_training_wants_one_loss(loss, text):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x):
            return loss(self.layer(x))

    with pytest.raises(poptorch.Error, match=text):
        poptorch.trainingModel(Model())(torch.ones(2, 3))


def test_an_executor_that_is_collected_gives_its_device_back():
    model = torch.nn.Linear(2, 2)
    wrapped = poptorch.inferenceModel(model)
    wrapped(torch.ones(1, 2))
    del wrapped
    gc.collect()
    assert poptorch.inferenceModel(model)(torch.ones(1, 2)).shape == (1, 2)


def test_recurrent_modules_are_whole_after_a_trace():
    """They keep lists of their weights, and the executor's copy of the module shares them."""
    torch.manual_seed(11)
    model = torch.nn.LSTM(3, 4)
    x = torch.randn(2, 1, 3)
    given, _ = poptorch.inferenceModel(model)(x)
    torch.testing.assert_close(given, model(x)[0].detach())
    poptorch.trainingModel(model)
    assert all(weight.device.type == "cpu" for weight in model._flat_weights)


class WritesItsInput(torch.nn.Module):
    def forward(self, x):
        x[1:] += 1
        return x * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64])
@pytest.mark.parametrize("replicas", [1, 2])
def test_an_input_that_is_written_is_the_callers(dtype, replicas):
    x = torch.arange(4 * 2 * replicas).reshape(-1, 2).to(dtype)
    options = poptorch.Options().deviceIterations(2).replicationFactor(replicas)
    wanted = x.clone().reshape(2 * replicas, 2, 2)
    wanted[:, 1:] += 1
    given = poptorch.inferenceModel(WritesItsInput(), options)(x)
    torch.testing.assert_close(x, wanted.reshape(x.shape))
    torch.testing.assert_close(given.double(), (2 * wanted).reshape(x.shape).double())
