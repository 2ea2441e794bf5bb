"""Rules of wrapping and tracing, each in a program as users write it, beside eager torch."""

from __future__ import annotations

import copy
import functools
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers.utils import ModelOutput

import poptorch

X = torch.linspace(-2, 2, 12).reshape(3, 4)
Pair = namedtuple("Pair", "first second")


class Calls(nn.Module):
    """A module that calls a function with itself and its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.linspace(-1, 1, 4))
        self.register_buffer("state", torch.arange(4.0))

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def run(function: Callable[..., Any], *inputs: Any) -> Any:
    return poptorch.inferenceModel(Calls(function))(*inputs)


# What is known while the model is traced, and how tensors of the trace behave.


def makes_tensors(m: Calls, x: torch.Tensor) -> list[torch.Tensor]:
    rest = [torch.zeros(2), torch.ones_like(x), torch.full((2,), 3.0), torch.tensor([1.0, 2.0])]
    return [torch.arange(4) + x, torch.linspace(0, 1, 4) * x, torch.empty(3).fill_(2), *rest]


def names_its_device(m: Calls, x: torch.Tensor) -> torch.Tensor:
    device = x.device if poptorch.isRunningOnIpu() else torch.device("cpu")
    assert device.type == ("ipu" if poptorch.isRunningOnIpu() else "cpu")
    name = "ipu" if poptorch.isRunningOnIpu() else "cpu"
    made = torch.ones(4, device=device) + torch.ones(4, device=name)
    return x + made + torch.tensor([1.0, 2, 3, 4]).to(name) + torch.arange(4).to(x.device)


def reads_shapes(m: Calls, x: torch.Tensor) -> torch.Tensor:
    assert isinstance(x, torch.Tensor) and torch.is_tensor(x)
    assert (tuple(x.shape), x.dtype, x.numel(), len(x)) == ((3, 4), torch.float32, 12, 3)
    rows = [row * (i + 1) for i, row in enumerate(x)]
    return torch.stack(rows) @ x.T / x.size(-1)


def prints(m: Calls, x: torch.Tensor) -> torch.Tensor:
    if poptorch.isRunningOnIpu():
        assert (
            "<unavailable>" in repr(x) and "<unavailable>" in f"{x}" and "<unavailable>" in str(x)
        )
    return x + 1


CONSTANT = torch.tensor([1.0, -1.0, 2.0, -2.0])


def writes_views(m: Calls, x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] += 1
    y.view(-1).add_(1)
    y[:, 1] = y[:, 2]
    y[1:, ::2].mul_(2)
    y.T[3].zero_()
    return y


def writes_out(m: Calls, x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(3, 4)
    torch.mul(x, 2, out=y)
    torch.add(y, 1, out=y)
    return y


def casts_in_place(m: Calls, x: torch.Tensor) -> torch.Tensor:
    y = x.half()
    y += x * 3.0
    y.copy_(y * x)
    return y


def uses_a_list(m: Calls, x: torch.Tensor) -> torch.Tensor:
    total = x
    for i in range(x.shape[1]):
        total = total + x[:, i : i + 1] * i
    return total if x.shape[0] == 3 else x


def checks_values_in_eager_mode(m: Calls, x: torch.Tensor) -> torch.Tensor:
    """As models warn of unusual inputs, with what torch.compile cannot have either."""
    assert torch.compiler.is_compiling() == poptorch.isRunningOnIpu()
    if not torch.compiler.is_compiling() and (x == 77).any():
        raise ValueError("unusual")
    return x + 1


RULES: dict[str, Callable[..., Any]] = {
    "factories": makes_tensors,
    "device": names_its_device,
    "shapes": reads_shapes,
    "print": prints,
    "constant": lambda m, x: x * CONSTANT,
    "views": writes_views,
    "out": writes_out,
    "in_place_dtype": casts_in_place,
    "control_flow": uses_a_list,
    "twice": lambda m, x: (lambda y: [y, y, y[0], x])(x + 1),
    "two_halves": lambda m, x: x.half() * x.half(),
    "half_and_float": lambda m, x: x.half() + x,
    "integers": lambda m, x: [(x * 3).int() // 2, (x * 3).int() % 3, (x * 3).int() // -2],
    "division": lambda m, x: torch.div((x * 3).int(), 2, rounding_mode="trunc"),
    "bool": lambda m, x: [x > 0, (x > 0) & (x < 1), torch.where(x > 0, x, -x)],
    "small_integers": lambda m, x: [x.to(torch.int8) + 1, x.abs().to(torch.uint8), x.short() * 2],
    "type_as": lambda m, x: (x * 3).type_as(x.int()),
    "numpy_T": lambda m, x: x.T @ x,
    "is_compiling": checks_values_in_eager_mode,
    "is_complex": lambda m, x: x if not x.is_complex() and not torch.is_complex(x) else -x,
    "argmax": lambda m, x: x.argmax(1),
    "softmax_of_half": lambda m, x: torch.softmax(x.half(), 1),
    "loss_of_half": lambda m, x: functional.mse_loss(x.half(), x.half() * 2),
    "distribution": lambda m, x: torch.distributions.Normal(x, 1.0).log_prob(x * 2),
    "checkpoint": lambda m, x: torch.utils.checkpoint.checkpoint(
        torch.tanh, x * m.weight, use_reentrant=False
    ),
    "seed": lambda m, x: (torch.manual_seed(3), x + 1)[1],
    "partial": lambda m, x: functools.partial(functional.leaky_relu, negative_slope=0.3)(x),
}


@pytest.mark.parametrize("rule", RULES)
def test_values_are_those_of_torch(rule: str) -> None:
    function = RULES[rule]
    with torch.no_grad():
        wanted = Calls(function)(X.clone())
    given = run(function, X.clone())
    pairs = zip(given, wanted, strict=True) if isinstance(wanted, list) else [(given, wanted)]
    for one, other in pairs:
        assert one.device.type == "cpu" and one.grad_fn is None
        other = other.to({torch.int64: torch.int32}.get(other.dtype, other.dtype))
        tolerance = 2e-3 if other.dtype == torch.float16 else 1e-5
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@dataclass
class Result(ModelOutput):
    """What models of transformers return."""

    logits: torch.Tensor | None = None
    hidden: tuple[torch.Tensor, ...] | None = None


STRUCTURES: dict[str, Callable[..., Any]] = {
    "tuple": lambda m, x: (x, (x + 1, [x + 2])),
    "dictionary": lambda m, x: {"a": x, "b": {"c": x + 1}},
    "ordered": lambda m, x: OrderedDict(z=x, a=x + 1),
    "named": lambda m, x: Pair(x, x * 2),
    "model_output": lambda m, x: Result(logits=x, hidden=(x + 1, x + 2)),
    "values": lambda m, x: (x, 3, "text", None),
}


@pytest.mark.parametrize("kind", STRUCTURES)
def test_results_have_the_structure_of_forward(kind: str) -> None:
    def check(given: Any, wanted: Any) -> None:
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(given, wanted)
        elif isinstance(wanted, dict):
            assert list(given) == list(wanted)
            for key in wanted:
                check(given[key], wanted[key])
        elif isinstance(wanted, (tuple, list)):
            assert type(given) is type(wanted) and len(given) == len(wanted)
            for one, other in zip(given, wanted, strict=True):
                check(one, other)
        else:
            assert given == wanted

    check(run(STRUCTURES[kind], X), STRUCTURES[kind](None, X))


def test_a_model_may_return_nothing() -> None:
    model = Calls(lambda m, x: [functional.mse_loss(x * m.weight, x), None][1])
    before = model.weight.detach().clone()
    assert poptorch.trainingModel(model)(X) is None
    assert not torch.equal(model.state_dict()["weight"], before)


# What training differentiates.


def marked(loss: torch.Tensor) -> torch.Tensor:
    return poptorch.identity_loss(loss, "sum")


def cuts(m: Calls, x: torch.Tensor) -> torch.Tensor:
    y = x * m.weight
    with torch.no_grad():
        factor = y * 2
    return (y * factor + y.detach() * m.weight).sum()


def sums_of_losses(m: Calls, x: torch.Tensor) -> torch.Tensor:
    y = x * m.weight
    return functional.mse_loss(y, x) + 0.5 * functional.l1_loss(y, 2 * x)


def uses_integers(m: Calls, x: torch.Tensor) -> torch.Tensor:
    return (x * m.weight * (x * m.weight).int()).sum()


def checkpointed(reentrant: bool) -> Callable[..., torch.Tensor]:
    def loss(m: Calls, x: torch.Tensor) -> torch.Tensor:
        y = torch.utils.checkpoint.checkpoint(torch.tanh, x * m.weight, use_reentrant=reentrant)
        return marked(y.sum()) if poptorch.isRunningOnIpu() else y.sum()

    return loss


LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    # What forward returns in a program, and the loss that torch differentiates.
    "marked": (lambda m, x: marked(cuts(m, x)), cuts),
    "not_returned": (
        lambda m, x: (functional.mse_loss(x * m.weight, x), x)[1],
        lambda m, x: functional.mse_loss(x * m.weight, x),
    ),
    "scaled_later": (
        lambda m, x: 0.1 * functional.mse_loss(x * m.weight, x),
        lambda m, x: functional.mse_loss(x * m.weight, x),
    ),
    "scaled_inside": (
        lambda m, x: marked(0.1 * functional.mse_loss(x * m.weight, x)),
        lambda m, x: 0.1 * functional.mse_loss(x * m.weight, x),
    ),
    "sum": (lambda m, x: marked(sums_of_losses(m, x)), sums_of_losses),
    "unreduced": (
        lambda m, x: functional.mse_loss(x * m.weight, x, reduction="none"),
        lambda m, x: functional.mse_loss(x * m.weight, x, reduction="sum"),
    ),
    "mean": (
        lambda m, x: poptorch.identity_loss((x * m.weight) ** 2, "mean"),
        lambda m, x: ((x * m.weight) ** 2).mean(),
    ),
    "integers": (lambda m, x: marked(uses_integers(m, x)), uses_integers),
    "state": (
        lambda m, x: marked((x * m.weight * m.state).sum()),
        lambda m, x: (x * m.weight * m.state).sum(),
    ),
    "checkpoint": (checkpointed(False), checkpointed(False)),
    "reentrant_checkpoint": (checkpointed(True), checkpointed(True)),
}


@pytest.mark.parametrize("case", LOSSES)
def test_gradients_are_those_of_torch(case: str) -> None:
    function, loss = LOSSES[case]
    model, reference = Calls(function), Calls(loss)
    reference(X).backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    poptorch.trainingModel(model, optimizer=optimizer)(X)
    wanted = reference.weight.detach() - 0.1 * reference.weight.grad
    torch.testing.assert_close(model.state_dict()["weight"], wanted)


def test_frozen_and_unused_parameters_stay() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].weight.requires_grad_(False)

    class Training(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.unused = model, nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.mse_loss(self.model(x), x)

    module = Training()
    before = copy.deepcopy(module.state_dict())
    poptorch.trainingModel(module)(X)
    same = {k for k, v in module.state_dict().items() if torch.equal(v, before[k])}
    assert same == {"model.0.weight", "unused.weight", "unused.bias"}


class Lazy(nn.Module):
    """Registers tensors and parts when it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("filled", None)
        self.fails = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.register_buffer("cache", x * 2, persistent=False)
        self.filled = x + 1
        self.part = nn.Identity()
        self.fc.register_parameter("extra", nn.Parameter(torch.ones(4)))
        if self.fails:
            raise KeyError("in forward")
        return self.part(self.fc(x) * self.fc.extra + self.cache + self.filled)


@pytest.mark.parametrize("fails", [False, True])
def test_what_forward_registers_is_gone_after_the_trace(fails: bool) -> None:
    model = Lazy()
    before = {name: list(vars(model)[name]) for name in ("_parameters", "_buffers", "_modules")}
    state = copy.deepcopy(model.state_dict())
    executor = poptorch.inferenceModel(model)
    if fails:
        executor.model.fails = True
        with pytest.raises(KeyError, match="in forward"):
            executor(X)
        executor.model.fails = False
    given = executor(X)
    assert {name: list(vars(model)[name]) for name in before} == before
    assert model.filled is None and not model._non_persistent_buffers_set
    torch.testing.assert_close(dict(model.state_dict()), dict(state))
    torch.testing.assert_close(given, model(X).detach())


PRIMITIVES = ["hypot", "atan2", "maximum", "minimum", "fmod", "remainder", "fmax"]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives_of_torch_have_gradients(name: str) -> None:
    # In eager torch they have none of their own; there they stand behind other operators.
    def loss_of(function: Callable[..., torch.Tensor], m: Calls, x: torch.Tensor) -> torch.Tensor:
        return (function(m.weight, x[0] + 0.1) * torch.arange(1.0, 5.0)).sum()

    wanted = Calls(functools.partial(loss_of, getattr(torch, name)))
    wanted(X).backward()
    model = Calls(functools.partial(loss_of, getattr(torch.ops.prims, name)))
    model.function = functools.partial(_as_loss, model.function)
    before = model.weight.detach().clone()
    poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))(X)
    assert wanted.weight.grad is not None
    torch.testing.assert_close(before - model.state_dict()["weight"], wanted.weight.grad)


def _as_loss(function: Callable[..., torch.Tensor], m: Calls, x: torch.Tensor) -> torch.Tensor:
    return poptorch.identity_loss(function(m, x), "none")


def test_close_values_are_known_where_equal_ones_are() -> None:
    def choose(m: Calls, x: torch.Tensor) -> torch.Tensor:
        numbers = torch.arange(3.0)
        near = torch.allclose(numbers, torch.tensor([0, 1, 2.0001]), atol=1e-2)
        return x + 1 if near and not torch.allclose(numbers, numbers + 1) else x

    torch.testing.assert_close(run(choose, X), X + 1)
