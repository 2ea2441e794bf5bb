"""Functions of poptorch in training programs: steps equal those of eager torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import pando
import poptorch

ROOT = Path(__file__).resolve().parents[3]
SNAKE = ROOT / "examples" / "custom_op" / "snake.cpp"
MARKED = ROOT / "tests" / "custom" / "marked_op.cpp"
COMPILER = os.environ.get("CXX", "c++")


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Loss(torch.nn.Module):
    """A weight, and a loss that a function computes of it and the inputs."""

    def __init__(self, function, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight.clone())
        self.function = function

    def forward(self, *inputs):
        out = self.function(self.weight, *inputs)
        return out, poptorch.identity_loss(out * out, "sum")


def eager_steps(function, weight, *inputs, steps=3):
    model = Loss(function, weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(*inputs)[1].backward()
        optimizer.step()
    return model.weight.detach()


def trained_steps(function, weight, *inputs, steps=3):
    model = Loss(function, weight)
    trainer = poptorch.trainingModel(
        model, poptorch.Options(), torch.optim.SGD(model.parameters(), lr=0.01)
    )
    for _ in range(steps):
        trainer(*inputs)
    weight = model.weight.detach().clone()
    trainer.destroy()
    return weight


def cut(w, x, start):
    return poptorch.dynamic_slice(w * x, 1, start, 4, 2)


def put(w, x, start):
    return poptorch.dynamic_update(x * x, w[:, :3] * 2, 1, start, 3)


def kept(w, x, start):
    return poptorch.dynamic_update(w * x, x[:, :3], 1, start, 3)


FUNCTIONS = {
    "dynamic_slice": cut,
    "dynamic_update of src": put,
    "dynamic_update of input": kept,
    "nop": lambda w, x, _: poptorch.nop(w * x),
    "checkpoint": lambda w, x, _: poptorch.recomputationCheckpoint(torch.tanh(w), x)[0] * x,
    "memory": lambda w, x, _: poptorch.set_available_memory(w @ x.T, 0.4),
    "serialized": lambda w, x, _: poptorch.serializedMatMul(
        w, x.T, poptorch.MatMulSerializationMode.OutputChannels, 2
    ),
    "mean": lambda w, x, _: poptorch.identity_loss(w * x, "mean"),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("start", [0, 3])
def test_steps_are_those_of_eager_torch(function, start):
    given = (function, values(3, 8), values(3, 8, seed=1), torch.tensor([start]))
    torch.testing.assert_close(trained_steps(*given), eager_steps(*given))


def test_the_gradient_is_printed(capfd):
    def printed(w, x):
        return poptorch.ipu_print_tensor(w * x, "shown")

    def quiet(w, x):
        return poptorch.ipu_print_tensor(w * x, "hidden", print_gradient=False)

    trained_steps(printed, torch.tensor([1.5]), torch.tensor([2.0]), steps=1)
    trained_steps(quiet, torch.tensor([1.5]), torch.tensor([2.0]), steps=1)
    text = capfd.readouterr().err
    assert "shown: (" in text and "shown_gradient: (" in text and "6.0" in text
    assert "hidden: (" in text and "hidden_gradient" not in text


def load_compiled(code, folder, name):
    if shutil.which(COMPILER) is None:
        pytest.skip("there is no C++ compiler")
    source, library = folder / f"{name}.cpp", folder / f"lib{name}.so"
    source.write_text(code)
    command = [COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", "-I", pando.get_include()]
    subprocess.run([*command, str(source), "-o", str(library)], check=True, timeout=120)
    return pando.load_library(library)


@pytest.fixture(scope="module")
def snake(tmp_path_factory):
    # Under another name than other tests, which may run in this process.
    code = SNAKE.read_text().replace('"Snake', '"TorchSnake')
    load_compiled(code, tmp_path_factory.mktemp("library"), "snake")
    return "TorchSnake"


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    code = MARKED.read_text().replace('"Marked"', '"TorchMarked"').replace("MARK;", "1;")
    load_compiled(code, tmp_path_factory.mktemp("library"), "marked")
    return "TorchMarked"


class Of(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def test_ops_of_libraries(snake):
    def through_library(x):
        (y,) = poptorch.custom_op([x], snake, "com.acme", 1, [x], {"a": 0.5})
        return y

    def in_torch(x):
        return x + torch.sin(0.5 * x) ** 2 / 0.5

    x = values(3, 4)
    torch.testing.assert_close(poptorch.inferenceModel(Of(through_library))(x), in_torch(x))
    given = trained_steps(lambda w, y: through_library(w * y), x, values(3, 4, seed=1))
    wanted = eager_steps(lambda w, y: in_torch(w * y), x, values(3, 4, seed=1))
    torch.testing.assert_close(given, wanted)


@pytest.mark.parametrize("names", [["one"], ["", "two", "three"], ("a", "b")])
def test_ops_of_libraries_take_lists_of_texts(marked, names):
    def run(x):
        return poptorch.custom_op([x], marked, "any", 7, [x], {"names": names})[0]

    wanted = torch.tensor(1.0 + 1 + sum(100 + len(name) for name in names))
    torch.testing.assert_close(poptorch.inferenceModel(Of(run))(torch.tensor(1.0)), wanted)


@pytest.mark.parametrize(
    ("name", "attributes", "shape", "text"),
    [
        ("NoSuchOp", {}, (3,), "'NoSuchOp' of com.acme 1 at .*: no library that is loaded has"),
        (None, {}, (3,), "wanted the attributes .* given no 'a'"),
        (None, {"a": 0.0}, (3,), "wanted an attribute `a` other than 0"),
        (None, {"a": "x"}, (3,), "wanted a float for the attribute 'a'; given 'x'"),
        (None, {"a": 1.0}, (4,), r"the example outputs have .*\[4\].*, but the op gives .*\[3\]"),
    ],
)
def test_faults_of_users_ops_are_named(snake, name, attributes, shape, text):
    def run(x):
        example = torch.empty(shape, device=x.device)
        return poptorch.custom_op([x], name or snake, "com.acme", 1, [example], attributes)[0]

    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(Of(run))(torch.ones(3))


@pytest.mark.parametrize(("domain", "version"), [("com.other", 1), ("com.acme", 2)])
def test_ops_of_another_domain_are_not_taken(snake, domain, version):
    def run(x):
        return poptorch.custom_op([x], snake, domain, version, [x], {"a": 0.5})[0]

    text = (
        rf"of {domain} {version} at .*libsnake\.so has an op of that name.* com\.acme of version 1"
    )
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(Of(run))(torch.ones(3))
