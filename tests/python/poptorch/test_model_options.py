"""Options and optimizers that show only in models: messages, places in errors, shapes."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import poptorch
from poptorch._logging import logger
from poptorch.options import Options
from tests.python.poptorch.log_testing import logged
from tests.python.poptorch.models import WithLoss
from tests.python.poptorch.test_batching import WORKED
from tests.python.poptorch.test_trace_rules import Calls, X, run


def test_the_limit_of_repeated_messages(capsys: pytest.CaptureFixture[str]) -> None:
    for options, shown in ((Options().maxRepeatLogs(2), 2), (Options().maxRepeatLogs(None), 7)):
        poptorch.inferenceModel(nn.Linear(4, 1), options).compile(X)
        capsys.readouterr()
        for _ in range(7):
            logger.warning("the same for %s", shown)
        text = capsys.readouterr().err
        assert text.count(f"[warning] the same for {shown}") == shown


def low_rank(m: Calls, x: torch.Tensor) -> torch.Tensor:
    return torch.svd_lowrank(x, 2)[0]


def place_of_the_error(options: Options) -> str:
    with pytest.raises(poptorch.Error, match="Unsupported ops found in compiled model") as raised:
        poptorch.inferenceModel(Calls(low_rank), options)(X)
    return str(raised.value).splitlines()[1]


def test_places_in_errors_are_outside_of_excluded_files() -> None:
    assert "test_model_options.py" in place_of_the_error(Options())
    without_this = Options().appendToLocationExcludes("test_model_options")
    assert "test_model_options.py" not in place_of_the_error(without_this)
    anywhere = Options().sourceLocationExcludes(["elsewhere"])
    assert "site-packages/torch" in place_of_the_error(anywhere)


@pytest.mark.parametrize("relaxed", [True, False])
def test_unexpected_attributes_of_optimizers(relaxed: bool) -> None:
    module = WithLoss()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    options = Options().relaxOptimizerAttributesChecks(relaxed)
    model = poptorch.trainingModel(module, options, optimizer)
    optimizer.late = 1
    with logged(logging.DEBUG) as messages:
        model.setOptimizer(optimizer)
    levels = {level for level, text in messages if "late" in text}
    assert levels == {logging.DEBUG if relaxed else logging.WARNING}


def test_an_optimizer_of_another_module_is_refused() -> None:
    optimizer = torch.optim.SGD(nn.Linear(4, 3).parameters(), lr=0.1)
    model = poptorch.trainingModel(WithLoss(), optimizer=optimizer)
    with pytest.raises(poptorch.Error, match=r"in group 0 that is not in the model"):
        model(X, torch.ones(3, 3))


class Rows(nn.Module):
    """What the worked shapes of the specification are of: [b, 10] and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 10)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.layer(x)
        return y, functional.mse_loss(y, torch.zeros_like(y))


@pytest.mark.parametrize(("d", "a", "r", "g", "mode", "period", "rows", "loss"), WORKED)
def test_shapes_of_a_model(d, a, r, g, mode, period, rows, loss) -> None:
    options = Options().deviceIterations(d).replicationFactor(r).outputMode(mode, period)
    options.inputReplicaGrouping(g, poptorch.CommGroupType.Consecutive)
    options.Training.gradientAccumulation(a)
    model = poptorch.trainingModel(Rows(), options)
    results = model(torch.randn(2 * d * a * r // g, 4))
    assert [tuple(one.shape) for one in results] == [rows, loss]


def test_writes_into_integers_of_larger_numbers() -> None:
    def writes(m: Calls, x: torch.Tensor) -> list[torch.Tensor]:
        integers, halves, small = (x * 3).int(), x.half(), (x * 3).to(torch.int8)
        integers += torch.tensor([1, 2, 3, 4])
        integers.copy_(x * 2.5)
        halves.mul_(x)
        halves[0] = x[1] * 3
        small.add_((x * 3).int())
        return [integers, halves, small]

    for given, wanted in zip(run(writes, X), writes(Calls(writes), X), strict=True):
        assert given.dtype == wanted.dtype
        torch.testing.assert_close(given, wanted, rtol=2e-3, atol=2e-3)
