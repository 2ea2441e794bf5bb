"""Classes, copies and state dictionaries of modules that are wrapped for training."""

from __future__ import annotations

import copy
import gc
import pickle
import pickletools
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import poptorch
from tests.python.poptorch.models import WithLoss
from tests.python.poptorch.trained_models import RATE, TARGET, Norms, X, torch_step, train


def test_classes_of_a_module_and_its_tensors() -> None:
    model = Norms()
    executor = train(model)
    assert type(model).__name__ == "PoptorchNorms" and isinstance(model, Norms)
    executor(X, TARGET)
    for parameter in model.parameters():
        assert type(parameter).__name__ == "PoptorchParameter"
        assert isinstance(parameter, nn.Parameter)
    for buffer in model.buffers():
        assert type(buffer).__name__ == "PoptorchBuffer"
        assert isinstance(buffer, torch.Tensor) and type(buffer * 1) is torch.Tensor
    poptorch.inferenceModel(model)
    executor.destroy()
    assert type(model) is Norms
    assert {type(parameter) for parameter in model.parameters()} == {nn.Parameter}
    assert {type(buffer) for buffer in model.buffers()} == {torch.Tensor}
    poptorch.inferenceModel(model)(X)
    assert type(model) is Norms and type(model.fc.weight) is nn.Parameter


def test_an_executor_that_was_destroyed_runs_again() -> None:
    model = WithLoss()
    reference = copy.deepcopy(model)
    executor = train(model)
    for _ in range(2):
        executor.destroy()
        assert type(model) is (WithLoss if executor.isCompiled() else type(model))
        for _ in range(2):
            executor(X, TARGET)
            torch_step(reference)
        assert type(model).__name__ == "PoptorchWithLoss"
        torch.testing.assert_close(model.fc.weight.detach(), reference.fc.weight.detach())
        torch.testing.assert_close(dict(model.state_dict()), dict(reference.state_dict()))
    executor.destroy()
    assert type(model) is WithLoss and type(model.fc.weight) is nn.Parameter
    other = train(model)
    with pytest.raises(RuntimeError, match=r"^Model has already been wrapped in"):
        executor(X, TARGET)
    other(X, TARGET)


def test_a_module_is_unwrapped_when_its_executor_is_gone() -> None:
    model = WithLoss()
    executor = train(model)
    assert type(model) is not WithLoss
    del executor
    gc.collect()
    assert type(model) is WithLoss and type(model.fc.weight) is nn.Parameter
    train(model)(X, TARGET)


class Backward(nn.Module):
    """A part that knows the module it belongs to, without being its parent."""

    def __init__(self, owner: nn.Module) -> None:
        super().__init__()
        self.owners = [owner]


def test_deep_copies_are_wrapped_and_can_be_trained() -> None:
    model = Norms()
    model.part = Backward(model)
    reference = copy.deepcopy(model)
    executor = train(model)
    executor(X, TARGET)
    torch_step(reference)
    copied = copy.deepcopy(model)
    assert copied.part.owners == [copied]
    assert type(copied).__name__ == "PoptorchNorms"
    for tensor, one in zip(copied.parameters(), model.parameters(), strict=True):
        assert type(tensor) is type(one) and tensor is not one
    wanted = copy.deepcopy(reference.state_dict())
    executor(X, TARGET)
    # It has the weights of the time when it was made.
    torch.testing.assert_close(dict(copied.state_dict()), dict(wanted))
    assert not copied.copyWeightsToHostIfNeeded()
    again = train(copied)
    again(X, TARGET)
    torch_step(reference)
    torch.testing.assert_close(copied.fc.weight.detach(), reference.fc.weight.detach())
    torch.testing.assert_close(copied.calls * 1, reference.calls)
    again.destroy()
    assert type(copied) is Norms and type(copied.calls) is torch.Tensor
    assert type(model).__name__ == "PoptorchNorms"
    unused = copy.deepcopy(model)
    unused.destroy()
    assert type(unused) is Norms and type(unused.fc.weight) is nn.Parameter


def test_copies_of_parts_and_shallow_copies() -> None:
    model = Norms()
    reference = copy.deepcopy(model)
    executor = train(model)
    executor(X, TARGET)
    torch_step(reference)
    part = copy.deepcopy(model.batch_norm)
    torch.testing.assert_close(dict(part.state_dict()), dict(reference.batch_norm.state_dict()))
    assert type(copy.deepcopy(model.calls)).__name__ == "PoptorchBuffer"
    executor(X, TARGET)
    torch_step(reference)
    shallow = copy.copy(model)
    assert type(shallow) is Norms and shallow.fc is model.fc
    torch.testing.assert_close(shallow(X).detach(), reference(X).detach())


def test_pickles_have_the_classes_of_the_program() -> None:
    model = Norms()
    reference = copy.deepcopy(model)
    executor = train(model)
    executor(X, TARGET)
    torch_step(reference)
    for one in (model, copy.deepcopy(model)):
        content = pickle.dumps(one)
        names = [str(argument) for _, argument, _ in pickletools.genops(content)]
        assert not any("poptorch." in name for name in names if "tests." not in name)
        loaded = pickle.loads(content)
        assert type(loaded) is Norms and type(loaded.calls) is torch.Tensor
        assert type(loaded.fc.weight) is nn.Parameter
        torch.testing.assert_close(dict(loaded.state_dict()), dict(reference.state_dict()))


class Marked(nn.Parameter):
    """A class of parameters of the program's own."""


def test_parameters_of_other_classes() -> None:
    model = WithLoss()
    model.fc.weight = Marked(model.fc.weight.detach().clone())
    model.fc.weight.mark = "kept"
    reference = copy.deepcopy(model)
    reference.fc.weight.mark = "kept"
    executor = train(model)
    executor(X, TARGET)
    torch_step(reference)
    assert type(model.fc.weight).__name__ == "PoptorchParameter"
    assert isinstance(model.fc.weight, Marked)
    torch.testing.assert_close(model.fc.weight.detach(), reference.fc.weight.detach())
    loaded, wanted = (pickle.loads(pickle.dumps(one)).fc.weight for one in (model, reference))
    assert type(loaded) is type(wanted) and loaded.mark == "kept"
    executor.destroy()
    assert type(model.fc.weight) is Marked and model.fc.weight.mark == "kept"


class Shares(nn.Module):
    """A module with a layer of another one."""

    def __init__(self, shared: nn.Linear) -> None:
        super().__init__()
        self.shared = shared

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> Any:
        y = self.shared(x)
        return y, functional.mse_loss(y, target)


def test_a_layer_of_two_trained_modules() -> None:
    layer = nn.Linear(4, 3)
    reference = Shares(copy.deepcopy(layer))
    before = copy.deepcopy(layer.state_dict())
    models = [Shares(layer), Shares(layer)]
    first, second = (train(model) for model in models)
    first.compile(X, TARGET)
    second.compile(X, TARGET)
    # Each has the weights of the beginning on its device; the last run counts.
    for executors, steps in (((first, second), 1), ((second, first), 2)):
        for executor in executors:
            executor(X, TARGET)
        reference.shared.load_state_dict(before)
        for _ in range(steps):
            torch_step(reference)
        torch.testing.assert_close(layer.weight.detach(), reference.shared.weight.detach())
    first.destroy()
    second(X, TARGET)
    torch_step(reference)
    torch.testing.assert_close(layer.bias.detach(), reference.shared.bias.detach())
    second.destroy()
    assert type(layer.weight) is nn.Parameter


def test_members_that_are_new_before_the_first_run() -> None:
    model = WithLoss()
    executor = poptorch.trainingModel(model)
    model.fc = nn.Linear(4, 3)
    executor.setOptimizer(torch.optim.SGD(model.parameters(), lr=RATE))
    reference = WithLoss()
    reference.load_state_dict(model.state_dict())
    executor(X, TARGET)
    torch_step(reference)
    torch.testing.assert_close(model.fc.weight.detach(), reference.fc.weight.detach())


# State dictionaries.


class Aliases(WithLoss):
    """A tied layer, and buffers that share memory or have none."""

    def __init__(self) -> None:
        super().__init__()
        self.tied = nn.Linear(4, 3)
        self.tied.weight = self.fc.weight
        self.register_buffer("square", torch.arange(9.0).reshape(3, 3))
        self.register_buffer("row", self.square[0])
        self.register_buffer("turned", self.square.t())
        self.register_buffer("same", self.square)
        self.register_buffer("empty", torch.zeros(0))
        self.register_buffer("empty_rows", torch.zeros(0, 3))


@pytest.mark.parametrize("keep_vars", [False, True])
def test_the_state_has_each_tensor_once(keep_vars: bool) -> None:
    model = Aliases()
    wanted = copy.deepcopy(model.state_dict())
    executor = train(model)
    assert executor.isCompiled() is False and type(model) is not Aliases
    copied = copy.deepcopy(model)
    assert copied.fc.weight is copied.tied.weight and copied.same is copied.square
    state = model.state_dict(keep_vars=keep_vars)
    assert list(state) == list(wanted)
    for name, value in state.items():
        assert type(value) is torch.Tensor
        torch.testing.assert_close(value, wanted[name])
    assert state["fc.weight"] is state["tied.weight"] and state["square"] is state["same"]
    assert len({id(value) for value in state.values()}) == len(state) - 2
    held = {tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())} - {0}
    assert not held & {value.data_ptr() for value in state.values()}


def test_the_state_goes_where_the_program_says() -> None:
    model = WithLoss()
    executor = train(model)
    executor(X, TARGET)
    there = torch.zeros(1)
    destination = OrderedDict(there=there)
    state = model.state_dict(destination=destination, prefix="part.")
    assert state is destination and state["there"] is there
    assert list(state) == ["there", "part.fc.weight", "part.fc.bias"]
    torch.testing.assert_close(state["part.fc.bias"], model.fc.bias.detach())


# Traces leave a module as it was.


class Opens(Norms):
    """Raises inside contexts of the trace as long as a list has something."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons = ["in forward"]

    def forward(self, x: torch.Tensor, target: torch.Tensor | None = None) -> Any:
        if self.reasons:
            with poptorch.NameScope("left"), poptorch.Block(ipu_id=1), poptorch.MultiConv():
                self.calls += self.fc(x).sum()
                raise KeyError(self.reasons.pop())
        return super().forward(x, target)


def test_a_module_is_whole_after_its_training_forward_raised() -> None:
    model = Opens()
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    values = copy.deepcopy(model.state_dict())
    executor = train(model)
    with pytest.raises(KeyError, match="in forward"):
        executor(X, TARGET)
    assert not executor.isCompiled() and not poptorch.isRunningOnIpu()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        assert tensor is tensors[name]
    torch.testing.assert_close(dict(model.state_dict()), dict(values))
    reference = Norms()
    reference.load_state_dict(values)
    executor(X, TARGET)
    torch_step(reference)
    torch.testing.assert_close(dict(model.state_dict()), dict(reference.state_dict()))
    assert not any("left" in name or "fc/fc" in name for name in executor.getTensorNames())
