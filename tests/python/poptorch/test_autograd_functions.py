"""Classes of `torch.autograd.Function` in programs, against eager torch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable

import poptorch
from tests.python.poptorch.phased import options_of

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Rounds(torch.autograd.Function):
    """Rounding that lets gradients through, at twice their size."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 2 * gradient


class PassesThrough(torch.autograd.Function):
    """Returns its input, and the gradient of its result."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Scales(torch.autograd.Function):
    """Several results, saved inputs, results and parts of the way, and arguments of any kind."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, factor: float, weight: torch.Tensor, unused: None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        product = x * weight
        result = torch.exp(product)
        ctx.save_for_backward(x, weight, product, result)
        ctx.factor = factor
        return result * factor, product

    @staticmethod
    def backward(ctx: Any, of_result: torch.Tensor, of_product: torch.Tensor) -> Any:
        x, weight, product, result = ctx.saved_tensors
        assert ctx.needs_input_grad[:3] == (True, False, True)
        inner = of_result * result * ctx.factor + of_product * (1 + product)
        return inner * weight, None, inner * x, None


class Parts(torch.autograd.Function):
    """A result without gradient, one of integers, and a context that is set up apart."""

    @staticmethod
    def forward(x: torch.Tensor, factor: float) -> Any:
        return x * factor, x * 2, (x > 0).int(), "text"

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        assert ctx.needs_input_grad == (True, False)
        ctx.save_for_backward(inputs[0])
        ctx.mark_non_differentiable(output[1], output[2])

    @staticmethod
    def vjp(ctx: Any, first: torch.Tensor, second: torch.Tensor, third: Any, _: Any) -> Any:
        assert not second.any() if second.device.type == "cpu" else second.shape == X.shape
        return first * ctx.saved_tensors[0] + second, None


class Drops(torch.autograd.Function):
    """Dropout whose gradient is a random number more, without materialised gradients."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = torch.bernoulli(torch.full_like(x, 0.5))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(mask)
        ctx.save_for_backward(mask)
        return x * mask, mask

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, of_mask: None) -> torch.Tensor:
        assert of_mask is None
        (mask,) = ctx.saved_tensors
        return gradient * mask + torch.rand_like(gradient)


class Recomputes(torch.autograd.Function):
    """Keeps its inputs only, and differentiates what it computes again of them."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
        ctx.run = run
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        inputs = [saved.detach().requires_grad_(True) for saved in ctx.saved_tensors]
        with torch.enable_grad():
            result = ctx.run(*inputs)
        return None, *torch.autograd.grad(result, inputs, gradient)


class Step(nn.Module):
    """A module whose loss is a function of a linear layer's results."""

    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer, self.function = nn.Linear(4, 4), function
        self.weight = nn.Parameter(torch.linspace(-1, 1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.function(self.layer(x), self.weight)
        return poptorch.identity_loss(loss.sum(), "none")


def part_of_parts(h: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    first, second, third, text = Parts.apply(h * w, 3.0)
    assert text == "text"
    return first * w + second + third


FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "straight_through": lambda h, w: Rounds.apply(h * 3) * w,
    "its_input": lambda h, w: PassesThrough.apply(PassesThrough.apply(h)) * w,
    "several_results": lambda h, w: torch.cos(torch.cat(Scales.apply(h, 0.5, w.expand(3, 4)))),
    "one_of_its_results": lambda h, w: Scales.apply(h, 0.5, w.expand_as(h), None)[0] * w,
    "parts": part_of_parts,
    "one_after_another": lambda h, w: Rounds.apply(Rounds.apply(h * w) + h),
    "a_view": lambda h, w: Rounds.apply(h.t()[1:]).sum() * w,
    "the_same_input_twice": lambda h, w: Scales.apply(h, 1.0, h)[1] * w,
    "recomputed": lambda h, w: Recomputes.apply(lambda a, b: torch.tanh(a * b), h, w),
    # Operators of torch that have a function of torch inside, which has no backward.
    "numbers_by_a_mask": lambda h, w: torch.where(h > 0, h, 1.0) * torch.where(w > 0, 2.0, w),
    "half_precision": lambda h, w: Rounds.apply(h.half()).float() * w,
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_backward_of_functions_gives_gradients(case: str) -> None:
    model, reference = Step(FUNCTIONS[case]), Step(FUNCTIONS[case])
    loss = reference(X)
    loss.backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = poptorch.trainingModel(model, optimizer=optimizer)(X)
    torch.testing.assert_close(given, loss.detach())
    torch.optim.SGD(reference.parameters(), lr=0.1).step()
    for name, value in reference.named_parameters():
        torch.testing.assert_close(model.state_dict()[name], value.detach(), msg=name)


@pytest.mark.parametrize("case", FUNCTIONS)
def test_inference_needs_no_backward(case: str) -> None:
    model = Step(FUNCTIONS[case])
    wanted = copy.deepcopy(model)(X).detach()
    torch.testing.assert_close(poptorch.inferenceModel(model)(X), wanted)


def test_random_numbers_in_forward_and_backward() -> None:
    class Masks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(100, 100))

        def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
            dropped, mask = Drops.apply(self.weight * 1)
            return mask, poptorch.identity_loss(dropped.sum(), "none")

    model = Masks()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    mask, loss = poptorch.trainingModel(model, optimizer=optimizer)()
    assert loss == mask.sum() and 0.4 < mask.mean() < 0.6
    extra = 1 - model.state_dict()["weight"] - mask
    assert extra.min() >= 0 and extra.max() < 1 and 0.4 < extra.mean() < 0.6


class Layers(nn.Module):
    """Layers with a function between them, in blocks of their own."""

    def __init__(self, blocks: bool) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.blocks = blocks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, layer in enumerate(self.layers):
            if self.blocks:
                poptorch.Block.start(str(index), ipu_id=index)
            x = self.call(layer, x)
        return poptorch.identity_loss((x**2).sum(), "none")

    def call(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = layer(x)
        return torch.tanh(Scales.apply(y, 0.5, torch.cos(Rounds.apply(y * 4)))[0])


STRATEGIES = {
    "pipeline": poptorch.PipelinedExecution,
    "sharded": poptorch.ShardedExecution,
}


def _step(model: Layers, options: poptorch.Options, x: torch.Tensor) -> dict[str, torch.Tensor]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    trained = poptorch.trainingModel(model, options, optimizer)
    trained(x)
    trained.copyWeightsToHost()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    trained.destroy()
    return state


@pytest.mark.parametrize("strategy", [*STRATEGIES, "phases", "replicas"])
def test_functions_in_every_strategy(strategy: str, tmp_path: Path) -> None:
    x = torch.linspace(-1, 1, 96).reshape(24, 4)
    plain = options_of(accumulation=8)
    wanted = _step(Layers(False), plain, x)
    options = options_of(tmp_path if strategy == "phases" else None, accumulation=8)
    if strategy == "replicas":
        options = options_of(accumulation=4).replicationFactor(2)
    elif strategy in STRATEGIES:
        options.setExecutionStrategy(STRATEGIES[strategy]("0", "1", "2", "3"))
    given = _step(Layers(strategy in STRATEGIES), options, x)
    for name, value in wanted.items():
        assert value.isfinite().all()
        torch.testing.assert_close(given[name], value)


class Wrong(torch.autograd.Function):
    """Returns what its argument makes of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, returned: Callable[[torch.Tensor], Any]) -> torch.Tensor:
        ctx.returned = returned
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.returned(gradient)


class Writes(torch.autograd.Function):
    """Writes its input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


ERRORS: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], str]] = {
    "too few": (
        lambda h, w: Wrong.apply(h, lambda g: g),
        r"function WrongBackward returned an incorrect number of gradients \(expected 2, got 1\)",
    ),
    "too many": (
        lambda h, w: Wrong.apply(h, lambda g: (g, None, g)),
        r"WrongBackward returned an incorrect number of gradients \(expected 2, got 3\)",
    ),
    "shape": (
        lambda h, w: Wrong.apply(h, lambda g: (g[:2], None)),
        r"Function WrongBackward returned an invalid gradient at index 0 - got \[2, 4\] but "
        r"expected shape compatible with \[3, 4\]",
    ),
    "kind": (
        lambda h, w: Wrong.apply(h, lambda g: (1.5, None)),
        "WrongBackward returned an invalid gradient at index 0 - wanted a tensor or None; got 1.5",
    ),
    "writes": (
        lambda h, w: Writes.apply(h * 1),
        r"A function that torch.autograd.Function Writes calls at .*test_autograd_functions.py:\d+ "
        r"writes a tensor of shape \[3, 4\]",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_of_functions(case: str) -> None:
    function, message = ERRORS[case]
    model = Step(function)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(poptorch.Error, match=message):
        poptorch.trainingModel(model)(X)
    for name, value in before.items():
        assert torch.equal(model.state_dict()[name], value)


def test_gradients_that_are_larger_than_the_input_are_summed() -> None:
    def function(h: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return Wrong.apply(w, lambda g: (g.expand(3, 4) * h.detach(), None))

    model, reference = Step(function), Step(function)
    reference(X).backward()
    assert reference.weight.grad is not None
    poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))(X)
    wanted = reference.weight.detach() - 0.1 * reference.weight.grad
    torch.testing.assert_close(model.state_dict()["weight"], wanted)


class Penalized(nn.Module):
    """A critic whose gradient by its input is wanted to have a length of one, as of some GANs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.hidden, self.out = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_(True)
        y = self.out(torch.tanh(self.hidden(x)))
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        loss = y.mean() + ((gradient.norm(dim=1) - 1) ** 2).mean()
        return poptorch.identity_loss(loss, "none")


def test_gradients_inside_of_a_loss() -> None:
    model, reference = Penalized(), Penalized()
    loss = reference(X)
    loss.backward()
    torch.optim.SGD(reference.parameters(), lr=0.1).step()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = poptorch.trainingModel(model, optimizer=optimizer)(X)
    torch.testing.assert_close(given, loss.detach())
    for name, value in reference.named_parameters():
        torch.testing.assert_close(model.state_dict()[name], value.detach(), msg=name)
