"""`torch.vmap` in programs, against eager torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch

X = torch.linspace(-2, 2, 12).reshape(3, 4)
Y = torch.cos(torch.arange(12.0) * 3).reshape(3, 4)
LINEAR = nn.Linear(4, 4).requires_grad_(False)
MATRIX = torch.sin(torch.arange(16.0)).reshape(4, 4)


def attends(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(a[None, None], b[None, None], b[None, None])[0, 0]


def scans(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """States of a linear recurrence, as Mamba has them, by halves of halves."""

    def combine(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left * 0.5 + right

    rows = x * y
    combined = torch.vmap(combine)(rows[:-1], rows[1:])
    return torch.cat([rows[:1], combined])


FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "numbers": lambda x, y: torch.vmap(
        lambda a, b: torch.div(a, 3, rounding_mode="floor") * 2.0 + a - b.sum() * 0.5 - 1
    )(x, y),
    "nested": lambda x, y: torch.vmap(torch.vmap(lambda a, b: a * b + 1))(x, y),
    "axes": lambda x, y: torch.vmap(
        lambda a, b: torch.softmax(a * b, -1).cumsum(0), in_dims=(1, 1), out_dims=1
    )(x, y),
    "pairs": lambda x, y: torch.vmap(
        torch.vmap(lambda a, b: (a - b).abs().sum(), (None, 0)), (0, None)
    )(x, y),
    "layers": lambda x, y: torch.vmap(lambda a: F.layer_norm(LINEAR(a), (4,)))(x) + y,
    "products": lambda x, y: torch.vmap(lambda a: a @ MATRIX @ a)(x).sum() + y,
    "tensors_around": lambda x, y: torch.vmap(lambda a: F.gelu(a) * y[0])(x),
    "indices": lambda x, y: torch.vmap(lambda a, i: a[i.long().abs() % 3])(x, y[:, 0] * 5),
    "several_results": lambda x, y: sum(
        torch.vmap(lambda a, b: (a.max(), torch.where(b > 0, a, 0.5).min()))(x, y),
        start=torch.zeros(3),
    ),
    "writes_in_place": lambda x, y: torch.vmap(lambda a, b: (a * 1).add_(b).mul_(2))(x, y),
    "chunks": lambda x, y: torch.vmap(lambda a, b: a.dot(b), chunk_size=2)(x, y),
    "attention": lambda x, y: torch.vmap(attends)(x[:, None], y[:, None]),
    "weights": lambda x, y: torch.vmap(
        lambda bias: torch.func.functional_call(LINEAR, {"bias": bias}, (x,))
    )(y * x.mean()),
    "scan": scans,
}


class Maps(nn.Module):
    """A function of the inputs, the first of which is multiplied by a weight."""

    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.linspace(0.5, 1, 4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = self.function(x * self.weight, y)
        weights = torch.cos(torch.arange(result.numel(), dtype=torch.float32))
        loss = (result * weights.reshape(result.shape)).sum()
        return result, poptorch.identity_loss(loss, "none")


# Torch maps some functions one row after another, and says so.
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions_of_rows_train(case: str) -> None:
    model, reference = Maps(FUNCTIONS[case]), Maps(FUNCTIONS[case])
    wanted, loss = reference(X, Y)
    loss.backward()
    assert reference.weight.grad is not None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given, _ = poptorch.trainingModel(model, optimizer=optimizer)(X, Y)
    torch.testing.assert_close(given, wanted.detach())
    after = reference.weight.detach() - 0.1 * reference.weight.grad
    torch.testing.assert_close(model.state_dict()["weight"], after)


class Draws(nn.Module):
    """A function that draws random numbers for each row."""

    def __init__(self, randomness: str, draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.randomness, self.draw = randomness, draw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(self.draw, randomness=self.randomness)(x)


DRAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand": lambda row: row * 0 + torch.rand(1000, device=row.device),
    "rand_like": lambda row: torch.rand_like(row),
    "dropout": lambda row: F.dropout(row + 1, 0.5),
}


@pytest.mark.parametrize("case", DRAWS)
@pytest.mark.parametrize("randomness", ["same", "different"])
def test_random_numbers_of_rows(randomness: str, case: str) -> None:
    model = Draws(randomness, DRAWS[case])
    rows = poptorch.inferenceModel(model)(torch.zeros(2, 1000))
    assert torch.equal(rows[0], rows[1]) == (randomness == "same")
    assert 0.4 < (rows > 0.5).float().mean() < 0.6


def test_random_numbers_need_a_randomness() -> None:
    with pytest.raises(RuntimeError, match="vmap: called random operation"):
        poptorch.inferenceModel(Draws("error", torch.rand_like))(X)


@pytest.mark.parametrize(
    "function",
    [
        torch.func.grad(lambda row: row.square().sum()),
        torch.vmap(torch.func.grad(lambda row: row.tanh().sum())),
        torch.func.jacrev(torch.tanh),
        lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
    ],
)
def test_other_transforms_are_refused(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    class Transformed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    with pytest.raises(poptorch.Error, match=r"torch.func.grad, jvp .* Use torch.autograd.grad"):
        poptorch.inferenceModel(Transformed())(X)
