"""What programs do with wrapped models beside calling them, private names among it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import importlib
import logging
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import poptorch

X, TARGET = torch.linspace(-1, 1, 8).reshape(2, 4), torch.tensor([0, 2])


class Classifier(nn.Module):
    """Gives the loss, too, where it is given labels."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        y = self.fc(x)
        return y if labels is None else (y, nn.functional.cross_entropy(y, labels))


def quiet() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


def sgd(module: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), lr=lr)


def equal_after_training(module: nn.Module, *inputs: torch.Tensor) -> None:
    """Two steps of SGD on the sum of squares change weights as those of eager torch."""

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return poptorch.identity_loss(self.inner(*args).square(), "sum")

    eager = copy.deepcopy(module)
    optimizer = sgd(eager, 0.01)
    wrapped = WithLoss()
    model = poptorch.trainingModel(wrapped, quiet(), sgd(wrapped, 0.01))
    for _ in range(2):
        optimizer.zero_grad()
        loss = eager(*inputs).square().sum()
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(model(*inputs), loss.detach())
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value)


def test_accuracy_of_all_batches_of_a_call() -> None:
    module = Classifier()
    options = quiet().deviceIterations(3)
    x, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    predictions = poptorch.inferenceModel(module, options)(x)
    assert predictions.shape == (6, 3)
    wanted = (module(x).argmax(1) == labels).float().mean()
    assert (predictions.argmax(1) == labels).float().mean() == wanted
    # The results of training are those of the last micro-batch: programs slice the labels.
    trained = Classifier()
    model = poptorch.trainingModel(trained, quiet().deviceIterations(3), sgd(trained, 0.0))
    last, loss = model(x, labels)
    torch.testing.assert_close(last, module(x)[-len(last) :].detach())
    assert len(last) == 2 and loss.shape == ()


def test_options_can_be_copied_with_what_is_set_for_the_compiler() -> None:
    options = quiet()
    options._Popart.set("enableStochasticRounding", True)
    for copied in (copy.deepcopy(options), options.clone()):
        assert copied._Popart.options["enableStochasticRounding"] is True
        copied._Popart.set("enableStochasticRounding", False)
    assert options._Popart.options["enableStochasticRounding"] is True


def test_a_module_after_destroy_is_torch_with_the_trained_weights() -> None:
    module = Classifier()
    before = module.fc.weight.detach().clone()
    model = poptorch.trainingModel(module, quiet(), sgd(module))
    model(X, TARGET)
    eager = Classifier()
    loss = eager(X, TARGET)[1]
    loss.backward()
    sgd(eager).step()
    plain = model.model
    model.destroy()
    assert plain is module and type(module) is Classifier
    torch.testing.assert_close(module.fc.weight, eager.fc.weight)
    assert not torch.equal(module.fc.weight, before)
    module(X, TARGET)[1].backward()
    assert module.fc.weight.grad is not None


def test_executors_of_other_options_do_not_touch_each_other() -> None:
    modules = [Classifier(), Classifier()]
    first = poptorch.inferenceModel(modules[0], quiet().deviceIterations(2))
    second = poptorch.inferenceModel(modules[1], quiet())
    values = first(X), second(X)
    torch.testing.assert_close(values[0], values[1])
    first.destroy()
    assert torch.equal(second(X), values[1])
    assert not first.isCompiled() and second.isCompiled()


def _tuple_of_checkpoints(module: nn.Module, inputs: Any, outputs: Any) -> Any:
    output, state = outputs
    return poptorch.recomputationCheckpoint(output), poptorch.recomputationCheckpoint(state)


def test_checkpoints_in_hooks_keep_tuples() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(6)
            self.lstm = nn.LSTM(4, 3)
            self.fc = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output, (hidden, cell) = self.lstm(x)
            result: torch.Tensor = self.fc(output) + hidden.sum() * cell.mean()
            return result

    module = Recurrent()
    eager = copy.deepcopy(module)
    module.lstm.register_forward_hook(_tuple_of_checkpoints)
    module.fc.register_forward_hook(lambda m, i, o: poptorch.recomputationCheckpoint(o))
    x = torch.randn(5, 2, 4)
    torch.testing.assert_close(poptorch.inferenceModel(module, quiet())(x), eager(x).detach())


def test_hooks_weight_norm_and_tied_weights_are_trained_as_in_torch() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(7)
            self.embedding = nn.Embedding(5, 4)
            self.middle = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.embedding.weight
            self.middle.register_forward_hook(lambda m, i, o: torch.tanh(o))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.head(self.middle(self.embedding(x)))
            return result

    equal_after_training(Tied(), torch.tensor([0, 3, 3, 1]))


@dataclasses.dataclass
class _Outputs:
    logits: torch.Tensor
    hidden: torch.Tensor


def test_modules_with_partial_functions_own_attributes_and_dataclasses() -> None:
    class Unusual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)
            self.activation = functools.partial(nn.functional.leaky_relu, negative_slope=0.3)

        def __getattr__(self, name: str) -> Any:
            return "made up" if name == "invented" else super().__getattr__(name)

        def forward(self, x: torch.Tensor) -> _Outputs:
            assert self.invented == "made up"
            hidden = self.activation(self.fc(x))
            return _Outputs(logits=hidden * 2, hidden=hidden)

    module = Unusual()
    wanted = module(X)
    found = poptorch.inferenceModel(module, quiet())(X)
    for name in ("logits", "hidden"):
        value = found[name] if isinstance(found, dict) else getattr(found, name)
        torch.testing.assert_close(value, getattr(wanted, name).detach())


def test_what_is_written_where() -> None:
    code = """
import poptorch, torch
model = poptorch.inferenceModel(torch.nn.Linear(2, 2))
print("result", tuple(model(torch.ones(1, 2)).shape))
model.compile(torch.ones(1, 2))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "result (1, 2)\n"
    assert "Graph compilation" in result.stderr
    assert "[poptorch::python] [warning] Call to compile() ignored" in result.stderr


def test_private_attributes_of_executors() -> None:
    module = Classifier()
    optimizer = sgd(module)
    options = quiet()
    model = poptorch.trainingModel(module, options, optimizer)
    assert model._executable is None and model._optimizer is optimizer
    assert model._user_model is module and model._training is True
    assert isinstance(model._options, poptorch.Options)
    model(X, TARGET)
    assert model._executable
    other = sgd(module, 0.2)
    model.setOptimizer(other)
    assert model._optimizer is other
    inference = poptorch.inferenceModel(module, quiet())
    assert inference._training is False and inference._optimizer is None
    inference._model.eval()
    torch.testing.assert_close(inference(X), model.model(X).detach())
    model.destroy()
    assert model._executable is None


def test_private_modules_that_programs_import() -> None:
    for name, attribute in [
        ("_dataloader", "AsynchronousDataAccessor"),
        ("_poplar_executor", "PoplarExecutor"),
        ("_args_parser", None),
        ("_impl", "createPoptorchError"),
        ("ops", "Block"),
        ("optim", "AdamW"),
        ("options", "_TrainingOptions"),
    ]:
        module = importlib.import_module(f"poptorch.{name}")
        assert attribute is None or hasattr(module, attribute), (name, attribute)


@pytest.mark.parametrize("make", [poptorch.optim.SGD, torch.optim.SGD])
def test_schedules_do_not_warn_that_no_step_was_made(
    make: Any, recwarn: pytest.WarningsRecorder
) -> None:
    module = Classifier()
    optimizer = make(module.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer._step_count = 1
    model = poptorch.trainingModel(module, quiet(), optimizer)
    model(X, TARGET)
    before = module.fc.bias.detach().clone()
    scheduler.step()
    model.setOptimizer(optimizer)
    model(X, TARGET)
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert not torch.equal(module.fc.bias, before)
    assert not [w for w in recwarn if "lr_scheduler.step()" in str(w.message)]


def test_loggers_of_programs_get_messages() -> None:
    seen: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    listener = Listener()
    logger = logging.getLogger("poptorch::python")
    logger.addHandler(listener)
    try:
        model = poptorch.inferenceModel(Classifier(), quiet())
        model.compile(X)
        assert seen == []
        model.compile(X)
    finally:
        logger.removeHandler(listener)
    assert seen == ["Call to compile() ignored: the executable is already compiled"]


def test_methods_of_executors_are_in_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []

    @contextlib.contextmanager
    def tracepoint(channel: str, name: str) -> Iterator[None]:
        seen.append((channel, name))
        yield

    library = types.ModuleType("libpvti")
    vars(library).update(createTraceChannel=lambda name: name, Tracepoint=tracepoint)
    monkeypatch.setitem(sys.modules, "libpvti", library)
    monkeypatch.setenv("PVTI_OPTIONS", '{"enable":"true"}')
    module = Classifier()
    training = poptorch.trainingModel(module, quiet(), sgd(module))
    training.compile(X, TARGET)
    training.setOptimizer(sgd(module, 0.2))
    training.copyWeightsToDevice()
    training.copyWeightsToHost()
    training.destroy()
    inference = poptorch.inferenceModel(module, quiet())
    inference.compile(X)
    methods = ["compile", "setOptimizer", "copyWeightsToDevice", "copyWeightsToHost", "destroy"]
    assert seen == [
        *(("poptorch.trainingModel", name) for name in methods),
        ("poptorch.inferenceModel", "compile"),
    ]
