"""Automatic loss scaling: how the scale follows the size of half precision gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

import poptorch
from poptorch import optim
from poptorch._lower.loss_scaling import AutomaticLossScaling, automatic_loss_scaling
from tests.python.poptorch.update_program import UpdateProgram

SIZE = 1000
EDGE = 0.125 * 65504


class Watched:
    """A program with one weight; `factors` after each gradient."""

    def __init__(
        self,
        settings: AutomaticLossScaling,
        dtype: torch.dtype = torch.float16,
        loss_scaling: float | None = None,
    ) -> None:
        weight = torch.nn.Parameter(torch.zeros(SIZE, dtype=dtype))
        self.optimizer = optim.SGD([weight], lr=1.0, loss_scaling=loss_scaling)
        self.program = UpdateProgram(self.optimizer, settings)

    def factors(self, gradients: Sequence[np.ndarray]) -> list[float]:
        found = []
        for gradient in gradients:
            self.program.run([gradient])
            found.append(float(self.program.value("lossScaleUpdateFactor")))
        return found


def gradient(value: float, others: int = 0, other: float = 1.5 * EDGE) -> np.ndarray:
    array = np.full(SIZE, value, np.float32)
    array[:others] = other
    return array


def test_scale_doubles_until_gradients_are_large() -> None:
    watched = Watched(AutomaticLossScaling())
    small, large = gradient(1.0), gradient(1.0, others=1)
    assert watched.factors([small, small, large, large, large, small]) == [2, 4, 2, 1, 0.5, 1]


@pytest.mark.parametrize("value", [-1.01 * EDGE, np.nan, np.inf, -np.inf])
def test_what_is_large(value: float) -> None:
    watched = Watched(AutomaticLossScaling())
    assert watched.factors([gradient(0.0, 1, value)]) == [0.5]
    assert Watched(AutomaticLossScaling()).factors([gradient(EDGE)]) == [2]


def test_gradients_are_divided_by_the_scale_of_their_step() -> None:
    watched = Watched(AutomaticLossScaling(), loss_scaling=4.0)
    watched.factors([gradient(4.0), gradient(4.0), gradient(4.0)])
    (weight,) = watched.program.weights()
    np.testing.assert_array_equal(weight, np.full(SIZE, -(1 + 1 / 2 + 1 / 4), np.float16))
    watched.optimizer.loss_scaling = 8.0
    watched.program.set_optimizer(watched.optimizer)
    watched.factors([gradient(64.0)])
    (weight,) = watched.program.weights()
    np.testing.assert_array_equal(weight, np.full(SIZE, -2.75, np.float16))


def test_settings() -> None:
    watched = Watched(AutomaticLossScaling(bin_edge=0.5, threshold=0.1))
    few, many = gradient(0.0, 100, 40000.0), gradient(0.0, 101, 40000.0)
    assert watched.factors([few, many, gradient(30000.0)]) == [2, 1, 2]


def test_options() -> None:
    options = poptorch.Options()
    assert automatic_loss_scaling(options._Popart.options) is None
    options.Training.setAutomaticLossScaling(True)
    assert automatic_loss_scaling(options._Popart.options) == AutomaticLossScaling()
    options._Popart.set("automaticLossScalingSettings.updatePeriod", 3)
    options._Popart.set("automaticLossScalingSettings.binEdgeLocation", 0.5)
    options._Popart.set("automaticLossScalingSettings.thresholdUpperCountProportion", 0.25)
    chosen = automatic_loss_scaling(options._Popart.options)
    assert chosen == AutomaticLossScaling(3, 0.5, 0.25)
    options._Popart.set("automaticLossScalingSettings.updatePeriod", 0)
    with pytest.raises(ValueError, match=r"wanted updatePeriod >= 1; given .*0"):
        automatic_loss_scaling(options._Popart.options)


def test_period_looks_at_all_of_its_steps() -> None:
    watched = Watched(AutomaticLossScaling(update_period=3))
    small, large = gradient(1.0), gradient(1.0, others=1)
    steps = [small, small, small, large, small, small, small, small, small]
    assert watched.factors(steps) == [1, 1, 2, 2, 2, 1, 1, 1, 2]


class Products(torch.nn.Module):
    """Its input is the gradient of its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(SIZE, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return poptorch.identity_loss((self.weight * x[0]).sum(), "none")


def test_replicas_have_one_scale() -> None:
    def trained(replicas: int, accumulation: int) -> tuple[torch.Tensor, list[float]]:
        model = Products()
        options = poptorch.Options().replicationFactor(replicas)
        options.Training.gradientAccumulation(accumulation).setAutomaticLossScaling(True)
        optimizer = optim.SGD(model.parameters(), lr=2.0**-15, loss_scaling=1.0)
        executor = poptorch.trainingModel(model, options, optimizer)
        factors = []
        # Only the second of two micro-batches ever has large elements.
        for large in (1.0, 2 * EDGE, 1.0, 1.0):
            executor(torch.tensor([[2.0], [large]], dtype=torch.float16).expand(2, SIZE))
            factors.append(float(optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"]))
        return model.state_dict()["weight"], factors

    wanted, given = trained(1, 2), trained(2, 1)
    assert given[1] == wanted[1] == [2, 1, 2, 4]
    assert torch.equal(given[0], wanted[0])


def test_gradients_in_float32_do_not_count() -> None:
    watched = Watched(AutomaticLossScaling(), dtype=torch.float32)
    assert watched.factors([gradient(1.0), gradient(1e9)]) == [1, 1]


def test_scale_stays_within_half_precision() -> None:
    watched = Watched(AutomaticLossScaling(), loss_scaling=2.0**14)
    assert watched.factors([gradient(0.0)] * 3) == [2, 2, 2]
    smallest = Watched(AutomaticLossScaling(), loss_scaling=2.0**-13)
    assert smallest.factors([gradient(np.inf)] * 3) == [0.5, 0.5, 0.5]
