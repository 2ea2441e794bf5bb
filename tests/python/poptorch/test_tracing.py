"""What a trace says and does beside its results: messages, names, hooks, flags, indices."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import poptorch
from tests.python.poptorch.log_testing import logged
from tests.python.poptorch.test_trace_rules import Calls, X, run

INDICES = torch.tensor([0, 2, 1], dtype=torch.int32)
ROW = INDICES.reshape(1, 3)


def written(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[index] = 3.0
    return y


INDEXING: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index": lambda x, i: x[i],
    "setitem": written,
    "index_put": lambda x, i: x.index_put((i,), torch.tensor(1.0)),
    "index_select": lambda x, i: torch.index_select(x, 0, i),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.0),
    "index_add": lambda x, i: x.index_add(0, i, x),
    "index_copy": lambda x, i: x.index_copy(0, i, x * 2),
    "gather": lambda x, i: torch.gather(x, 0, i.reshape(1, 3)),
    "scatter": lambda x, i: x[:, :3].scatter(0, i.reshape(1, 3), 5.0),
    "scatter_add": lambda x, i: x[:, :3].scatter_add(0, i.reshape(1, 3), x[:1, :3]),
    "scatter_reduce": lambda x, i: x[:, :3].scatter_reduce(0, i.reshape(1, 3), x[:1, :3], "amax"),
    "take_along_dim": lambda x, i: torch.take_along_dim(x[:, :3], i.reshape(1, 3), 0),
    "take_along_dim by name": lambda x, i: x[:, :3].take_along_dim(indices=i[None], dim=0),
    "take_along_dim of all": lambda x, i: torch.take_along_dim(x, i),
    "one_hot": lambda x, i: functional.one_hot(i, 4),
    "embedding": lambda x, i: functional.embedding(i, x),
    "embedding_bag": lambda x, i: functional.embedding_bag(i, x, torch.tensor([0, 1])),
    "bincount": lambda x, i: torch.bincount(i, minlength=4),
    "nll_loss": lambda x, i: functional.nll_loss(x, i),
    "cross_entropy": lambda x, i: functional.cross_entropy(x, i),
}


@pytest.mark.parametrize("name", INDEXING)
def test_indices_may_have_32_bits(name: str) -> None:
    function = INDEXING[name]
    wanted = function(X.clone(), INDICES.long())
    given = run(lambda m, x, i: function(x, i), X, INDICES)
    torch.testing.assert_close(given, wanted.to(given.dtype), rtol=1e-5, atol=1e-5)
    assert given.dtype == (torch.int32 if wanted.dtype == torch.int64 else wanted.dtype)


FACTORIES: dict[str, Callable[..., torch.Tensor]] = {
    "arange": lambda **device: torch.arange(4, **device),
    "empty": lambda **device: torch.empty(4, **device).fill_(1),
    "full": lambda **device: torch.full((4,), 2.0, **device),
    "linspace": lambda **device: torch.linspace(0, 1, 4, **device),
    "logspace": lambda **device: torch.logspace(0, 1, 4, **device),
    "ones": lambda **device: torch.ones(4, **device),
    "rand": lambda **device: torch.rand(4, **device),
    "randint": lambda **device: torch.randint(0, 9, (4,), **device),
    "randn": lambda **device: torch.randn(4, **device),
    "randperm": lambda **device: torch.randperm(4, **device),
    "tensor": lambda **device: torch.tensor([1.0, 2.0, 3.0, 4.0], **device),
    "zeros": lambda **device: torch.zeros(4, **device),
    "normal": lambda **device: torch.normal(0.0, 1.0, (4,), **device),
}
DRAWN = {"rand", "randint", "randn", "randperm", "normal"}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_make_tensors_of_the_device_and_say_so(name: str) -> None:
    make = FACTORIES[name]
    devices = []

    def adds(m: Calls, x: torch.Tensor) -> torch.Tensor:
        made = make()
        devices.append(made.device.type)
        return x * 0 + made

    with logged() as messages:
        given = run(adds, X)
    text = f"No device set in torch.{name}(): forcing to IPU"
    assert (logging.WARNING, text) in messages and devices == ["ipu"]
    if name not in DRAWN:
        torch.testing.assert_close(given, X * 0 + make())
    elif name != "randperm":
        options = poptorch.Options().deviceIterations(2)
        first, second = poptorch.inferenceModel(Calls(adds), options)(X.repeat(2, 1)).chunk(2)
        assert not torch.equal(first, second)
    with logged() as messages:
        run(lambda m, x: x + make(device=x.device), X)
        run(lambda m, x: x + torch.zeros_like(x) + torch.full_like(x, 2.0), X)
    assert not [text for _, text in messages if "No device set" in text]


def test_tensors_of_values_like_another_one() -> None:
    values = [1.6, 2.0, -3.0, 4.0]
    for one in (X, X.int(), X.half()):
        given = run(lambda m, x: x.new_tensor(values), one)
        assert torch.equal(given, one.new_tensor(values)) and given.dtype == one.dtype
    given = run(lambda m, x: x + x.new_tensor(values, dtype=torch.int32), X)
    assert torch.equal(given, X + X.new_tensor(values, dtype=torch.int32))
    given = run(lambda m, x: x * torch.zeros(4, device="cpu").new_tensor(values), X)
    assert torch.equal(given, X * torch.tensor(values))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda m, x: x + torch.zeros(0, 4).sum(), [0, 4]),
        (lambda m, x: x + torch.tensor([]).sum(), [0]),
        (lambda m, x: x[:0], [0, 4]),
        (lambda m, x: (x, [x[:, 2:2]]), [3, 0]),
        (lambda m, x: x + x[:, 1:1].sum(), [3, 0]),
        (lambda m, x: x + m.nothing.sum(), [0]),
    ],
)
def test_tensors_without_elements_are_refused(
    function: Callable[..., Any], shape: list[int]
) -> None:
    model = Calls(function)
    model.nothing = nn.Parameter(torch.zeros(0))
    with pytest.raises(poptorch.Error) as raised:
        poptorch.inferenceModel(model)(X)
    assert raised.value.message == f"Zero-sized tensors are unsupported (Got shape {shape})"


def passes_nothing(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A head whose second part has no elements, as those have that are rotated whole."""
    turned, passed = x[:, :4], x[:, 4:]
    passed = (passed * 2 + m.nothing).exp()
    passed += 1
    return torch.cat([turned + 1, passed], -1)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda m, x: torch.cat([torch.tensor([]), x, x[:0]]), X),
        (lambda m, x: torch.cat([x, torch.empty(0, 4), m.nothing.expand(2, 0, 4)[0]]), X),
        (passes_nothing, X + 1),
    ],
)
def test_concatenation_leaves_tensors_without_elements_out(
    function: Callable[..., Any], wanted: torch.Tensor
) -> None:
    model = Calls(function)
    is_row = function is passes_nothing
    model.nothing = nn.Parameter(torch.zeros(0) if is_row else torch.zeros(1, 0, 4))
    assert torch.equal(poptorch.inferenceModel(model)(X), wanted)


class Special(nn.Parameter):
    """A parameter of a class of its own."""


def test_parameters_keep_their_class_and_attributes() -> None:
    seen = []

    def reads(m: Calls, x: torch.Tensor) -> torch.Tensor:
        seen.append((type(m.weight), m.weight.scale, m.state.note))
        return functional.mse_loss(x * m.weight * m.weight.scale, x)

    for wrap in (poptorch.inferenceModel, poptorch.trainingModel):
        model = Calls(reads)
        model.weight = Special(torch.ones(4))
        model.weight.scale, model.state.note = 3.0, "kept"
        torch.testing.assert_close(wrap(model)(X), (X * 2).square().mean())
    assert seen == [(Special, 3.0, "kept")] * 2


class Fails(nn.Module):
    """A layer that raises an error."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("as intended")


class Tries(nn.Module):
    """A layer behind one whose error is caught."""

    def __init__(self) -> None:
        super().__init__()
        self.fails, self.fc = Fails(), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return self.fails(x)
        except KeyError:
            return self.fc(x)


class Nested(nn.Module):
    """Layers in layers, and a scope by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU())
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with poptorch.NameScope("mine"):
            y = self.layer1(x)
        return self.fc(y.flatten(1)) * 2 * 3


def names_in(model: nn.Module, x: torch.Tensor, options: poptorch.Options) -> set[str]:
    executor = poptorch.inferenceModel(model, options)
    executor.compile(x)
    return set(executor.getTensorNames())


def test_ops_are_called_by_the_path_of_their_module() -> None:
    image = torch.ones(1, 1, 2, 2)
    names = names_in(Nested(), image, poptorch.Options())
    assert {"mine/layer1/0/Conv:0", "mine/layer1/1/Relu:0", "fc/Gemm:0"} <= names
    assert {"Mul:0", "Mul:0/1", "layer1.0.weight", "fc.bias", "input"} <= names
    names = names_in(Nested(), image, poptorch.Options().disableModuleNamescope())
    assert {"mine/Conv:0", "mine/Relu:0", "Gemm:0", "Mul:0"} <= names
    assert not any("fc/" in name or "layer1/" in name for name in names)


def test_a_caught_error_leaves_no_name_behind() -> None:
    assert "fc/Gemm:0" in names_in(Tries(), X, poptorch.Options())


def test_hooks_run_around_every_trace() -> None:
    calls: list[Any] = []
    flags: list[bool] = []
    handles = [
        poptorch.registerPreCompileHook(lambda: calls.append(("pre", poptorch.isRunningOnIpu()))),
        poptorch.registerPostCompileHook(lambda: calls.append("post")),
    ]

    def forward(m: Calls, x: torch.Tensor) -> torch.Tensor:
        calls.append("forward")
        flags.append(poptorch.isRunningOnIpu())
        return x + 1

    def fails(m: Calls, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("as intended")

    try:
        executor = poptorch.inferenceModel(Calls(forward))
        assert not poptorch.isRunningOnIpu()
        executor(X)
        executor(X)
        assert calls == [("pre", True), "forward", "post"] and flags == [True]
        assert not poptorch.isRunningOnIpu()
        calls.clear()
        with pytest.raises(KeyError):
            run(fails, X)
        assert calls == [("pre", True), "post"]
        assert not poptorch.isRunningOnIpu()
    finally:
        for handle in handles:
            handle.remove()
    calls.clear()
    Calls(forward)(X)
    poptorch.inferenceModel(Calls(forward)).compile(X)
    assert calls == ["forward", "forward"] and flags == [True, False, True]


def test_tensors_of_a_trace_have_ids() -> None:
    ids: list[list[int]] = []

    def numbers(m: Calls, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        ids.append([poptorch.getIpuTensorId(t) for t in (x, y, x, m.weight)])
        return y

    run(numbers, X)
    (found,) = ids
    assert found[0] == found[2] and len(set(found)) == 3
    with pytest.raises(poptorch.Error, match="wanted a tensor of a model that is being traced"):
        poptorch.getIpuTensorId(X)


def test_a_seed_in_forward_has_no_effect() -> None:
    def seeded(m: Calls, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return x + torch.rand(3, 4)

    options = poptorch.Options().randomSeed(5)
    model = poptorch.inferenceModel(Calls(seeded), options)
    plain = poptorch.inferenceModel(Calls(lambda m, x: x + torch.rand(3, 4)), options.clone())
    first, second = model(X), model(X)
    assert not torch.equal(first, second)
    assert torch.equal(first, plain(X)) and torch.equal(second, plain(X))


def test_constants_are_printed_in_each_iteration(capfd: pytest.CaptureFixture[str]) -> None:
    def prints(m: Calls, x: torch.Tensor) -> torch.Tensor:
        poptorch.ipu_print_tensor(torch.ones(2), "constant")
        return x + 1

    poptorch.inferenceModel(Calls(prints), poptorch.Options().deviceIterations(2))(
        torch.zeros(2, 4)
    )
    printed = capfd.readouterr()
    assert (printed.out + printed.err).count("constant") == 2


def test_integer_buffers_are_right_in_training() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.register_buffer("order", torch.tensor([3, 1, 0, 2]))
            self.register_buffer("runs", torch.zeros((), dtype=torch.int32))

        def forward(self, x: torch.Tensor) -> Any:
            self.runs += 1
            return functional.mse_loss((x * self.weight)[:, self.order], x), self.runs

    module, reference = Table(), Table()
    reference(X)[0].backward()
    options = poptorch.Options()
    model = poptorch.trainingModel(module, options, torch.optim.SGD(module.parameters(), lr=0.1))
    model(X)
    wanted = reference.weight.detach() - 0.1 * reference.weight.grad
    torch.testing.assert_close(module.weight.detach(), wanted)
    assert module.order.tolist() == [3, 1, 0, 2] and module.runs.item() == 1


def test_buffers_advance_with_each_micro_batch_of_training() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.register_buffer("runs", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> Any:
            self.runs += 1
            return functional.mse_loss(x * self.weight, x), self.runs

    module = Counts()
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(3)
    _, runs = poptorch.trainingModel(module, options)(torch.ones(6, 4))
    assert runs.item() == 6 and module.runs.item() == 6


def test_results_are_memory_of_their_own() -> None:
    def aliases(m: Calls, x: torch.Tensor) -> list[torch.Tensor]:
        y = x + 1
        return [y, y, y[0], x, y.double()]

    given = X.clone()
    model = poptorch.inferenceModel(Calls(aliases))
    first = model(given)
    kept = [t.clone() for t in first]
    second = model(given + 1)
    assert len({t.data_ptr() for t in (*first, *second, given)}) == 11
    for one, other in zip(first, kept, strict=True):
        assert torch.equal(one, other)
    first[0].zero_()
    assert torch.equal(first[1], kept[1]) and torch.equal(first[2], kept[2])
    assert first[4].dtype == torch.float32 and torch.equal(first[4], X + 1)


def test_models_of_host_tensors_need_no_device() -> None:
    class Host(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = torch.ones(1)

        def forward(self) -> torch.Tensor:
            return self.plain

    options = poptorch.Options().connectionType(poptorch.ConnectionType.OnDemand)
    executor = poptorch.inferenceModel(Host(), options)
    assert not executor.isAttachedToDevice()
    with pytest.warns(UserWarning, match="Output expected to be on the IPU but is on cpu"):
        executor.compile()
    assert executor.isAttachedToDevice()
    ordinary = poptorch.inferenceModel(Calls(lambda m, x: x + 1), options.clone())
    ordinary.compile(X)
    assert not ordinary.isAttachedToDevice()
