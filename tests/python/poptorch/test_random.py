"""How the random numbers of a program are distributed, and that no two draws are the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import distributions, nn
from torch.nn import functional

import poptorch

COUNT = 20_000
X = torch.zeros(COUNT)
HALF = torch.full((COUNT,), 0.5)


class Calls(nn.Module):
    """A module that calls a function of torch."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def draw(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    model = poptorch.inferenceModel(Calls(function), poptorch.Options().randomSeed(7))
    first = model(x)
    assert not torch.equal(first, model(x))
    return first.double()


THIRD = 1 / math.sqrt(12)
# Mean and standard deviation.
DRAWS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float, float]] = {
    "rand": (lambda x: torch.rand(COUNT) + x, 0.5, THIRD),
    "rand_like": (lambda x: torch.rand_like(x), 0.5, THIRD),
    "randn": (lambda x: torch.randn(COUNT) + x, 0.0, 1.0),
    "randint": (lambda x: torch.randint(0, 10, (COUNT,)) + x, 4.5, math.sqrt(99 / 12)),
    "bernoulli": (lambda x: torch.bernoulli(x + 0.3), 0.3, math.sqrt(0.21)),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.3), 0.3, math.sqrt(0.21)),
    "normal": (lambda x: torch.normal(x + 2, 3.0), 2.0, 3.0),
    "normal_": (lambda x: x.clone().normal_(2, 3), 2.0, 3.0),
    "uniform_": (lambda x: x.clone().uniform_(-1, 3), 1.0, 4 * THIRD),
    "exponential_": (lambda x: x.clone().exponential_(2), 0.5, 0.5),
    "random_": (lambda x: x.clone().random_(0, 10), 4.5, math.sqrt(99 / 12)),
    "dropout": (lambda x: functional.dropout(x + 1, 0.25), 1.0, math.sqrt(1 / 3)),
    "Bernoulli": (lambda x: distributions.Bernoulli(x + 0.3).sample(), 0.3, math.sqrt(0.21)),
    "Normal": (lambda x: distributions.Normal(x + 2, 3.0).sample(), 2.0, 3.0),
    "Uniform": (lambda x: distributions.Uniform(x - 1, x + 3).sample(), 1.0, 4 * THIRD),
    "Exponential": (lambda x: distributions.Exponential(x + 2).sample(), 0.5, 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_mean_and_deviation(name: str) -> None:
    function, mean, deviation = DRAWS[name]
    given = draw(function, X)
    # Five standard errors of the mean; the deviation of these distributions is as well known.
    allowed = 5 * deviation / math.sqrt(COUNT)
    assert abs(float(given.mean()) - mean) < allowed
    assert abs(float(given.std()) - deviation) < 3 * allowed
    if name in ("rand", "rand_like"):
        assert float(given.min()) >= 0 and float(given.max()) < 1


def test_permutations_have_each_number_once() -> None:
    given = draw(lambda x: torch.randperm(COUNT) + x.int(), X)
    assert torch.equal(given.sort().values, torch.arange(COUNT).double())
    assert abs(float(given[: COUNT // 2].mean()) - COUNT / 2) < 5 * COUNT * THIRD / math.sqrt(
        COUNT / 2
    )


@pytest.mark.parametrize("layer", [nn.Dropout2d(0.5), nn.Dropout3d(0.5)])
def test_features_are_dropped_as_a_whole(layer: nn.Module) -> None:
    shape = (40, 50, *((3,) * (2 if isinstance(layer, nn.Dropout2d) else 3)))
    given = poptorch.inferenceModel(layer.train())(torch.ones(shape)).flatten(2)
    assert torch.equal(given.amin(2), given.amax(2))
    assert set(given.unique().tolist()) == {0.0, 2.0}
    assert abs(float(given.mean()) - 1) < 5 / math.sqrt(2000)
    x = torch.ones(shape)
    assert torch.equal(poptorch.inferenceModel(layer.eval())(x), x)


def test_rrelu_draws_slopes_in_training_and_takes_their_mean_otherwise() -> None:
    given = draw(lambda x: functional.rrelu(x - 1, 0.1, 0.3, True), X)
    assert float(given.min()) >= -0.3 and float(given.max()) <= -0.1
    assert abs(float(given.mean()) + 0.2) < 5 * 0.2 * THIRD / math.sqrt(COUNT)
    fixed = poptorch.inferenceModel(Calls(lambda x: functional.rrelu(x - 1, 0.1, 0.3, False)))(X)
    torch.testing.assert_close(fixed, torch.full((COUNT,), -0.2))
