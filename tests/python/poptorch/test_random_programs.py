"""Random programs of torch, and what they have found, against eager torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from tests.python.poptorch.random_programs import checked

PROGRAMS = 40


@pytest.mark.parametrize(
    ("strategy", "first"), [("plain", 100_000), ("sharded", 200_000), ("pipelined", 300_000)]
)
def test_random_programs_agree(strategy: str, first: int) -> None:
    outcomes = list(checked(PROGRAMS, first, strategy))
    assert sum(outcome is not None for _, outcome in outcomes) > PROGRAMS // 2
    assert [(seed, outcome) for seed, outcome in outcomes if outcome] == []


class Corner(nn.Module):
    """The sum of a function of weights, some of which are equal or zero."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 3.0, 1.0, 3.0, 0.0, -0.5]))
        self.function = function

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        result = self.function(self.weight)
        return result, poptorch.identity_loss(result.sum(), "none")


def writes_on_condition(w: torch.Tensor) -> torch.Tensor:
    v = w * 2
    v[v.sum() > 0] = 1.5
    v[v.sum() < 0] = w
    return v


CORNERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # Equal elements share a gradient, or one of them has it.
    "amax": lambda w: w.amax(0),
    "amin": lambda w: w.amin(0, keepdim=True),
    "max": lambda w: w.max(),
    "min_of_rows": lambda w: w.reshape(2, 3).min(1)[0],
    "amax_of_infinities": lambda w: torch.stack([w, w / 0]).amax((0, 1)),
    "infinity_norm": lambda w: w.norm(float("inf")),
    "clamp": lambda w: w.clamp(min=w) + w.clamp(max=w.flip(0)),
    "clamp_by_nan": lambda w: torch.cat([w.detach().clamp(min=torch.nan * w.detach()), w]),
    # Sizes decide what covariances are divided by; complex parts are broadcast.
    "covariance": lambda w: torch.cov(w.reshape(2, 3)) + torch.corrcoef(w.reshape(2, 3) + 1).sum(),
    "broadcast_parts": lambda w: (
        torch.complex(w, w[:1]).abs() + torch.polar(w.abs(), w[:2, None]).imag
    ),
    "written_spectrum": lambda w: torch.fft.rfft(w).real.clamp_(-1, 1),
    # No number times zero is no gradient.
    "atan2": lambda w: torch.atan2(w * 0, w) + torch.atan2(w, w * 0),
    "std": lambda w: torch.stack([w * 0, w]).std(1),
    "xlogy": lambda w: (
        torch.xlogy(w * 0, w - 0.1) + torch.xlogy(w.abs(), 2.0) + torch.xlogy(w * 0, -1)
    ),
    "single_distance": lambda w: w * F.pairwise_distance(w[1].detach(), w[2]),
    # What is detached stays so in all views of it.
    "views_of_detached": lambda w: (w * 2).detach().unfold(-1, 2, 2).sum() * w,
    # Results of functions are no views, whatever makes their shapes.
    "written_on_condition": writes_on_condition,
    "written_take": lambda w: torch.take(w, torch.tensor([1, 0])).pow_(2),
    "written_var": lambda w: w.var(-1, keepdim=True).tanh_(),
    "transpose_of_a_number": lambda w: w[1].mT * 2,
    # Numbers without axes decide the kind of a comparison, too.
    "integers_and_a_float": lambda w: w * (torch.arange(6) > w.detach().mean()),
    "buckets": lambda w: w * torch.bucketize(w.detach(), torch.tensor([False, True])),
    "sorted_booleans": lambda w: w * torch.searchsorted(torch.tensor([False, True]), w.detach()),
    "buckets_of_integers": lambda w: w * torch.bucketize(w.detach()[5], torch.tensor([-1, 0, 1])),
}


@pytest.mark.filterwarnings("ignore:Tensor.mT is deprecated")
@pytest.mark.parametrize("case", CORNERS)
def test_values_and_gradients_in_corners(case: str) -> None:
    model, reference = Corner(CORNERS[case]), Corner(CORNERS[case])
    wanted, loss = reference()
    loss.backward()
    assert reference.weight.grad is not None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    given, _ = poptorch.trainingModel(model, optimizer=optimizer)()
    torch.testing.assert_close(given, wanted.detach(), equal_nan=True)
    after = reference.weight.detach() - 0.5 * reference.weight.grad
    torch.testing.assert_close(model.state_dict()["weight"], after, equal_nan=True)


def test_parameters_that_change_their_shape_are_refused() -> None:
    def turns(w: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            w.unsqueeze_(0)
        return w

    with pytest.raises(poptorch.Error, match=r"The tensor weight of shape \[6\] is changed to"):
        poptorch.trainingModel(Corner(turns))()


def test_renorm_of_float16_has_a_gradient() -> None:
    # Torch's own rules for float16 end in a primitive, whose result has no gradient in torch.
    def normed(w: torch.Tensor) -> torch.Tensor:
        limited = torch.renorm(w.to(kind).reshape(2, 3), 2, 0, 1.0)
        return limited.float() * torch.arange(1.0, 7.0).reshape(2, 3)

    kind = torch.float32
    reference = Corner(normed)
    reference()[1].backward()
    assert reference.weight.grad is not None
    kind = torch.float16
    model = Corner(normed)
    poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5))()
    after = reference.weight.detach() - 0.5 * reference.weight.grad
    torch.testing.assert_close(model.state_dict()["weight"], after, rtol=2e-3, atol=2e-3)
