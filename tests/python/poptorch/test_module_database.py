"""Modules of torch.nn against eager torch, on samples of torch's own module database."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import module_db

import poptorch
from tests.python.poptorch.operator_database import flat

# What poptorch, or torch itself, refuses by name, in a text that each error contains.
REFUSALS = (
    "with momentum=None is unsupported in training",
    "Zero-sized tensors are unsupported",
    "Attempted to use an uninitialized parameter",
    "torch_nn::_linear_cross_entropy_batch_chunked",
    "need lengths that are known while the model is traced",
    "proj_size is not supported",
    "Expect _random_samples to have the same dtype as input",
)
SAMPLES = 4


class WithLoss(torch.nn.Module):
    """A module whose loss is a weighted sum of its results."""

    def __init__(self, module: torch.nn.Module, kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.module, self.kwargs = module, kwargs

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = [t for t in flat(self.module(*inputs, **self.kwargs)) if t.is_floating_point()]
        total = torch.zeros(())
        for t in outputs:
            weights = torch.cos(torch.arange(t.numel(), dtype=torch.float32)).reshape(t.shape)
            total = total + (t * weights).sum()
        return poptorch.identity_loss(total, "none"), *outputs


def without_dropout(module: torch.nn.Module) -> torch.nn.Module:
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            part.p = 0.0
        if isinstance(part, torch.nn.MultiheadAttention):
            part.dropout = 0.0
    return module


def samples(info: Any) -> Iterator[tuple[WithLoss, tuple[Any, ...]]]:
    """Some samples of a module in training, spread over all that the database has."""
    found = list(
        info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
        )
    )
    for sample in found[:: max(1, len(found) // SAMPLES)]:
        torch.manual_seed(0)
        made = sample.constructor_input
        module = without_dropout(info.module_cls(*made.args, **made.kwargs)).train()
        model = WithLoss(module, sample.forward_input.kwargs)
        yield model, sample.forward_input.args


def check(model: WithLoss, inputs: tuple[Any, ...]) -> None:
    """Results of a step, and the weights after it, are those of eager torch."""
    eager = copy.deepcopy(model)
    loss, *wanted = eager(*copy.deepcopy(inputs))
    options = poptorch.Options().showCompilationProgressBar(False)
    if loss.requires_grad:
        optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
        loss.backward()
        optimizer.step()
        given = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    else:
        given = poptorch.inferenceModel(model, options)
    results = given(*copy.deepcopy(inputs))
    for one, other in zip(results, (loss, *wanted), strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-4, atol=1e-4, equal_nan=True)
    for name, value in eager.state_dict().items() if loss.requires_grad else ():
        torch.testing.assert_close(
            model.state_dict()[name], value, rtol=1e-4, atol=1e-4, equal_nan=True, msg=name
        )
    given.destroy()


@pytest.mark.parametrize("info", module_db, ids=lambda info: info.name)
def test_modules_are_trained_as_in_torch(info: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, inputs in samples(info):
            try:
                check(model, inputs)
            except (poptorch.Error, RuntimeError, ValueError) as error:
                if not any(text in str(error) for text in REFUSALS):
                    raise


class Cells(torch.nn.Module):
    """A cell that is called at each step."""

    def __init__(self, cell: torch.nn.Module) -> None:
        super().__init__()
        self.layer, self.cell = torch.nn.Linear(4, 5), cell

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = None
        for step in x:
            state = self.cell(torch.relu(self.layer(step)), state)
        y = state[0] if isinstance(state, tuple) else state
        return poptorch.identity_loss(y.square().sum(), "none"), y


CELLS = {
    "gru": lambda: torch.nn.GRUCell(5, 3),
    "gru_without_bias": lambda: torch.nn.GRUCell(5, 3, bias=False),
    "lstm": lambda: torch.nn.LSTMCell(5, 3),
    "rnn": lambda: torch.nn.RNNCell(5, 3),
}


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_recurrent_cells_in_a_loop(make: Any) -> None:
    torch.manual_seed(0)
    model, x = Cells(make()), torch.randn(3, 2, 4)
    eager = copy.deepcopy(model)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    trained = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(2):
        optimizer.zero_grad()
        loss, wanted = eager(x)
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(trained(x), (loss.detach(), wanted.detach()))
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, msg=name)
