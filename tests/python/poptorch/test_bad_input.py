"""What users do wrong: clear errors, and a module that is plain torch afterwards."""

from __future__ import annotations

import copy
import gc
import pickle
import pickletools
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import poptorch
from tests.python.poptorch.models import WithLoss

X = torch.linspace(-1, 1, 16).reshape(4, 4)
TARGET = torch.linspace(1, 2, 12).reshape(4, 3)


class Inner(nn.Module):
    """A part of a model that calls a function of the user."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.fc(x))


def branch(v: torch.Tensor) -> torch.Tensor:
    return v if v.sum() > 0 else -v


def raises(v: torch.Tensor) -> torch.Tensor:
    raise KeyError("the user's own")


def interrupts(v: torch.Tensor) -> torch.Tensor:
    signal.raise_signal(signal.SIGINT)
    return v


ITEM = r"aten::item is only supported in eager mode"
MOVE = r'Illegal move to CPU \(via `.to\("cpu"\)`\) when using the dispatcher. Instead, return this'
WRONG: dict[str, tuple[Callable[[torch.Tensor], Any], type[BaseException], str]] = {
    "cpu": (lambda v: v.cpu(), poptorch.Error, MOVE),
    "to": (lambda v: v.to("cpu"), poptorch.Error, MOVE),
    "to_device": (lambda v: v.to(torch.device("cpu")), poptorch.Error, MOVE),
    "numpy": (lambda v: v.detach().numpy(), poptorch.Error, MOVE),
    "array": (np.asarray, poptorch.Error, MOVE),
    "item": (lambda v: v * v.sum().item(), poptorch.Error, ITEM),
    "float": (lambda v: v * float(v.sum()), poptorch.Error, ITEM),
    "branch": (branch, poptorch.Error, ITEM),
    "tolist": (lambda v: v.tolist(), poptorch.Error, ITEM),
    "own": (raises, KeyError, "the user's own"),
    "ctrl_c": (interrupts, KeyboardInterrupt, "^$"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_forward_must_not_do(case: str) -> None:
    function, kind, match = WRONG[case]
    model = nn.Sequential(Inner(function))
    weights = dict(model.named_parameters())
    executor = poptorch.inferenceModel(model)
    with pytest.raises(kind, match=match):
        executor(X)
    assert not poptorch.isRunningOnIpu()
    assert not executor.isCompiled()
    assert all(weights[name] is one for name, one in model.named_parameters())
    model[0].function = torch.relu
    torch.testing.assert_close(executor(X), model(X).detach())


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda v: torch.linalg.svd(v)[0], ["_linalg_svd"]),
        (
            lambda v: torch.linalg.qr(v)[0].sum() + torch.linalg.svd(v)[0].sum(),
            ["linalg_qr", "_linalg_svd"],
        ),
        (lambda v: v.to_sparse(), ["_to_sparse"]),
    ],
)
def test_operators_without_support_have_their_name_path_and_line(
    function: Callable[[torch.Tensor], Any], names: list[str]
) -> None:
    model = nn.Sequential(nn.Sequential(nn.Identity(), Inner(function)))
    listed = ", ".join(f"aten::{name}" for name in names)
    lines = "".join(f"\n  aten::{name}: in 0/1, at .*test_bad_input.py:\\d+" for name in names)
    with pytest.raises(poptorch.Error, match=rf"(?s)in compiled model: \[{listed}\].*{lines}"):
        poptorch.inferenceModel(model)(X)


def test_sparse_tensors_are_refused_in_the_first_call_and_later() -> None:
    model = poptorch.inferenceModel(WithLoss())
    for _ in range(2):
        with pytest.raises(poptorch.Error, match=r"wanted a dense tensor on the CPU; given layout"):
            model(X.to_sparse())
        assert model(X).shape == WithLoss()(X).shape


def replace_parameter(model: WithLoss) -> None:
    model.fc.weight = nn.Parameter(torch.zeros(3, 4))


def replace_module(model: WithLoss) -> None:
    model.fc = nn.Linear(4, 3)


def remove_parameter(model: WithLoss) -> None:
    del model.fc.bias


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (replace_parameter, "fc.weight"),
        (replace_module, "fc"),
        (remove_parameter, "fc.bias"),
    ],
)
def test_members_that_are_replaced_after_compilation(
    change: Callable[[WithLoss], None], name: str
) -> None:
    model = WithLoss()
    executor = poptorch.trainingModel(model)
    executor(X, TARGET)
    change(model)
    match = f"{name} was replaced or removed after the model was compiled"
    for call in (
        lambda: executor(X, TARGET),
        executor.copyWeightsToHost,
        executor.copyWeightsToDevice,
    ):
        with pytest.raises(poptorch.Error, match=match):
            call()
    executor.destroy()
    assert type(model) is WithLoss
    if name != "fc.bias":
        again = poptorch.trainingModel(model)
        before = again(X, TARGET)[1]
        assert again(X, TARGET)[1] < before


def halve(model: WithLoss) -> None:
    model.half()


def reshape_data(model: WithLoss) -> None:
    model.fc.weight.data = torch.ones(5, 4)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (halve, r"fc.weight was changed from torch.float32 \[3, 4\] to torch.float16 \[3, 4\]"),
        (reshape_data, r"fc.weight was changed from torch.float32 \[3, 4\] to .* \[5, 4\]"),
        (remove_parameter, "fc.bias was .*removed"),
    ],
)
def test_tensors_that_change_after_compilation(
    change: Callable[[WithLoss], None], match: str
) -> None:
    model, other = WithLoss(), WithLoss()
    training, inference = poptorch.trainingModel(model), poptorch.inferenceModel(other)
    training(X, TARGET)
    inference(X)
    trained = model.fc.weight.detach().clone()
    change(model)
    change(other)
    for call in (
        lambda: training(X, TARGET),
        training.copyWeightsToHost,
        training.copyWeightsToDevice,
        inference.copyWeightsToHost,
        inference.copyWeightsToDevice,
    ):
        with pytest.raises(poptorch.Error, match=rf"{match}[\s\S]*call destroy\(\) and wrap"):
            call()
    training.destroy()
    if change is not reshape_data:
        torch.testing.assert_close(model.fc.weight.detach().float(), trained, rtol=1e-3, atol=1e-3)


def test_a_destroyed_executor_leaves_replaced_parameters_alone() -> None:
    model = WithLoss()
    executor = poptorch.trainingModel(model)
    layer, before = model.fc, model.fc.weight
    start = before.detach().clone()
    executor(X, TARGET)
    layer.weight = nn.Parameter(torch.zeros(3, 4))
    executor.destroy()
    assert not model.fc.weight.any()
    assert not torch.equal(before, start)


@pytest.mark.parametrize("change", [replace_parameter, replace_module])
def test_members_that_are_replaced_before_compilation(change: Callable[[WithLoss], None]) -> None:
    model = WithLoss()
    executor = poptorch.trainingModel(model)
    change(model)
    reference = copy.deepcopy(model)
    executor.setOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    layer = model.fc
    for _ in range(2):
        optimizer.zero_grad()
        reference(X, TARGET)[1].backward()
        optimizer.step()
        executor(X, TARGET)
        torch.testing.assert_close(layer.weight.detach(), reference.fc.weight.detach())
    executor.destroy()
    assert type(model.fc.weight) is nn.Parameter


def test_modules_whose_executor_is_gone_or_has_no_program_are_wrapped_again() -> None:
    model = nn.Sequential(Inner(raises))
    executor = poptorch.trainingModel(model)
    with pytest.raises(KeyError, match="the user's own"):
        executor(X)
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(model)
    executor.destroy()
    assert type(model) is not nn.Sequential
    del executor
    gc.collect()
    assert type(model) is nn.Sequential
    assert type(model[0].fc.weight) is nn.Parameter
    again = poptorch.trainingModel(model)
    model.destroy()
    assert type(model) is nn.Sequential
    second = poptorch.trainingModel(model)
    # The wrapper is that of another executor by now.
    del again
    gc.collect()
    assert type(model) is not nn.Sequential
    second.destroy()


def test_a_module_is_plain_torch_with_its_trained_weights_after_an_error() -> None:
    model, reference = WithLoss(), WithLoss()
    reference.load_state_dict(model.state_dict())
    executor = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    executor(X, TARGET)
    reference(X, TARGET)[1].backward()
    optimizer.step()
    for wrong in ((X[:2], TARGET[:2]), (X.half(), TARGET), (X,), (X, None), ([X], TARGET)):
        with pytest.raises(
            poptorch.Error, match=r"call destroy\(\) on the curent one and try again"
        ):
            executor(*wrong)
    with pytest.raises(RuntimeError, match=r"already been wrapped in 'poptorch.trainingModel'"):
        poptorch.trainingModel(model)
    executor.destroy()
    assert type(model) is WithLoss
    assert type(model.fc.weight) is nn.Parameter
    torch.testing.assert_close(model(X, TARGET)[1], reference(X, TARGET)[1])


def test_ctrl_c_between_and_in_steps_loses_no_step() -> None:
    model, reference = WithLoss(), WithLoss()
    reference.load_state_dict(model.state_dict())
    executor = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01))
    executor.compile(X, TARGET)
    steps = 0
    previous = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            while True:
                executor(X, TARGET)
                steps += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    given = model.state_dict()
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.01)
    wanted = []
    # The interrupted step is there as a whole, or not at all.
    for _ in range(steps + 1):
        optimizer.zero_grad()
        reference(X, TARGET)[1].backward()
        wanted = [*wanted[-1:], {k: v.clone() for k, v in reference.state_dict().items()}]
        optimizer.step()
    wanted = [*wanted[-1:], reference.state_dict()]
    assert any(
        all(torch.allclose(given[k], one[k], rtol=1e-4, atol=1e-5) for k in one) for one in wanted
    )
    assert torch.isfinite(executor(X, TARGET)[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_files_are_those_of_torch(tmp_path: Path, dtype: torch.dtype) -> None:
    model = WithLoss().to(dtype)
    executor = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    executor(X.to(dtype), TARGET.to(dtype))
    state = model.state_dict()
    torch.save(state, tmp_path / "state.pt")
    torch.save(model, tmp_path / "model.pt")
    save_file(state, tmp_path / "state.safetensors")
    opcodes = pickletools.genops(pickle.dumps(model))
    assert not any("poptorch." in str(arg) for _, arg, _ in opcodes if "tests." not in str(arg))
    for loaded in (
        torch.load(tmp_path / "state.pt", weights_only=True),
        load_file(tmp_path / "state.safetensors"),
        torch.load(tmp_path / "model.pt", weights_only=False).state_dict(),
    ):
        assert loaded.keys() == {"fc.weight", "fc.bias"}
        assert all(type(t) is torch.Tensor and t.dtype == dtype for t in loaded.values())
        assert all(torch.equal(loaded[name], value) for name, value in state.items())


def test_a_file_is_loaded_without_this_package(tmp_path: Path) -> None:
    model = nn.Linear(4, 3)
    training = poptorch.trainingModel(nn.Sequential(model, nn.Flatten()))
    with pytest.raises(poptorch.Error, match="find a loss"):
        training(X)
    wrapped = WithLoss()
    poptorch.trainingModel(wrapped)(X, TARGET)
    torch.save(wrapped.fc, tmp_path / "layer.pt")
    torch.save(wrapped.state_dict(), tmp_path / "state.pt")
    program = (
        "import sys, torch; sys.modules['poptorch'] = None;"
        f"layer = torch.load({str(tmp_path / 'layer.pt')!r}, weights_only=False);"
        f"state = torch.load({str(tmp_path / 'state.pt')!r}, weights_only=True);"
        "assert torch.equal(layer.weight, state['fc.weight'])"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_state_of_torch_is_taken() -> None:
    model, other = WithLoss(), WithLoss()
    executor = poptorch.inferenceModel(model)
    executor(X)
    assert executor.load_state_dict(other.state_dict()).missing_keys == []
    torch.testing.assert_close(executor(X), other(X).detach())


@pytest.mark.parametrize("name", ["equal", "allclose"])
def test_operators_that_ask_for_values_are_named(name: str) -> None:
    function = getattr(torch.ops.aten, name)
    model = poptorch.inferenceModel(Inner(lambda v: v * function(v, v * 2)))
    message = rf"aten::{name} is only supported in eager mode: at .*test_bad_input.py:\d+ the value"
    with pytest.raises(poptorch.Error, match=message):
        model(X)
