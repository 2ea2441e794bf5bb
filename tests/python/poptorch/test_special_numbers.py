"""NaN, infinities, zeros with signs, and quotients near whole numbers, beside eager torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import poptorch

NAN = float("nan")
X = torch.tensor(
    [[1.0, NAN, 3.0, 2.0], [4.0, 1.0, 2.0, 9.0], [NAN, NAN, NAN, NAN], [NAN, 5.0, 5.0, -1.0]]
)

FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "median": lambda x: x.median(1),
    "median_of_columns": lambda x: x.median(0, keepdim=True),
    "median_of_all": lambda x: x.median(),
    "median_of_one": lambda x: x[1, 2].median(),
    "nanmedian": lambda x: x.nanmedian(1).values,
    "nanmedian_of_all": lambda x: x.nanmedian(),
    "mode": lambda x: x[:3].mode(1),
    "cummax": lambda x: x.cummax(1),
    "cummin": lambda x: x.cummin(1),
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "kthvalue_of_one": lambda x: x[1, 2].kthvalue(1),
    "topk": lambda x: x.topk(2, 1).values,
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(1),
    "sort": lambda x: x.sort(dim=1, stable=True),
    "quantile": lambda x: x.quantile(0.5, 1),
    "nanquantile": lambda x: x.nanquantile(0.5, 1),
}


class Calls(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_has_its_place(name: str) -> None:
    wanted, given = FUNCTIONS[name](X), poptorch.inferenceModel(Calls(FUNCTIONS[name]))(X)
    parts = zip(given, wanted, strict=True) if isinstance(wanted, tuple) else [(given, wanted)]
    for part, of_torch in parts:
        torch.testing.assert_close(part.to(of_torch.dtype), of_torch, equal_nan=True)


def test_the_gradient_of_a_median_goes_to_one_element() -> None:
    weight = nn.Parameter(torch.tensor([[3.0, 1.0, 2.0, 5.0], [0.5, 7.0, 4.0, 6.0]]))
    wanted = weight.detach().clone().requires_grad_()
    (wanted.median(1).values * torch.tensor([2.0, 3.0])).sum().backward()

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self) -> torch.Tensor:
            values = self.weight.median(1).values
            return poptorch.identity_loss((values * torch.tensor([2.0, 3.0])).sum(), "none")

    before, model = weight.detach().clone(), Loss()
    poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))()
    torch.testing.assert_close(before - model.state_dict()["weight"], wanted.grad)


SPECIAL = torch.tensor([NAN, float("inf"), -float("inf"), 0.0, -0.0, 1.0, -0.5, 3e38, -3e38, 7.3])
LEFT, RIGHT = (t.reshape(-1) for t in torch.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
TENTHS = torch.arange(-40, 41) / 10

OF_TWO: dict[str, tuple[Callable[..., Any], torch.Tensor, torch.Tensor]] = {
    "atan2": (torch.atan2, LEFT, RIGHT),
    "hypot": (torch.hypot, LEFT, RIGHT),
    "asinh": (lambda x, y: torch.asinh(x), SPECIAL, SPECIAL),
    "acosh": (lambda x, y: torch.acosh(x), SPECIAL, SPECIAL),
    "copysign": (torch.copysign, LEFT[RIGHT == RIGHT], RIGHT[RIGHT == RIGHT]),
    "sign": (lambda x, y: torch.sign(x), SPECIAL, SPECIAL),
    "sgn": (lambda x, y: torch.sgn(x), SPECIAL, SPECIAL),
    "signbit": (lambda x, y: torch.signbit(x), SPECIAL[1:], SPECIAL[1:]),
    "floor_divide": (torch.floor_divide, LEFT, RIGHT),
    "floor_divide_of_tenths": (torch.floor_divide, TENTHS[:, None], TENTHS[None]),
    "div_of_tenths": (
        lambda x, y: torch.div(x, y, rounding_mode="floor"),
        TENTHS[:, None],
        TENTHS[None],
    ),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_special_numbers(name: str) -> None:
    function, x, y = OF_TWO[name]

    class Two(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(function(x, y))

    given = poptorch.inferenceModel(Two())(x, y)
    torch.testing.assert_close(given, function(x, y), equal_nan=True, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("function", [torch.fmod, torch.remainder])
def test_remainders_of_trained_divisors(function: Callable[..., Any], dtype: torch.dtype) -> None:
    """Are as exact as others; the gradient is the quotient of exact numbers."""
    infinity = float("inf")
    x = torch.tensor([-7, 7, 7.5, 2000, -1.5, 5.5, -5.5, 3, -3, 0.75, NAN], dtype=dtype)
    y = torch.tensor([3, -3, 0.1, 0.3, 0.5, infinity, -infinity, 0, 0, 0.25, 2], dtype=dtype)

    class Divided(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.divisor = nn.Parameter(y.clone())

        def forward(self, x: torch.Tensor) -> Any:
            rest = function(x, self.divisor)
            return rest, poptorch.identity_loss(rest, "sum")

    model = Divided()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    rest, _ = poptorch.trainingModel(model, optimizer=optimizer)(x)
    exact = nn.Parameter(y.double())
    function(x.double(), exact).sum().backward()
    torch.testing.assert_close(rest, function(x, y), equal_nan=True, rtol=0, atol=0)
    assert exact.grad is not None
    stepped = (y.double() - 0.125 * exact.grad).to(dtype)
    torch.testing.assert_close(model.divisor.detach(), stepped, equal_nan=True)
