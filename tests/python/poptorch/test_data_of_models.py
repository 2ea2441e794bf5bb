"""Combined batches, their types and loaders, through models that run."""

from __future__ import annotations

import weakref

import pytest
import torch

import poptorch
from tests.python.poptorch.loader_data import Numbers


class Double(torch.nn.Module):
    def forward(self, x):
        return x + x


class Regression(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear = torch.nn.Linear(2, 1)

    def forward(self, number, row):
        out = self.linear(row / 16)
        return out, torch.nn.functional.mse_loss(out, number[:, None].float())


@pytest.mark.parametrize(
    "kind", [poptorch.CommGroupType.Consecutive, poptorch.CommGroupType.Orthogonal]
)
def test_replicas_of_a_group_get_the_same_rows(kind: poptorch.CommGroupType) -> None:
    options = poptorch.Options().deviceIterations(2).replicationFactor(4)
    options.inputReplicaGrouping(2, kind)
    given = torch.arange(8.0)  # two rows for each of two iterations and two groups
    result = poptorch.inferenceModel(Double(), options)(given)
    group = {"Consecutive": [0, 0, 1, 1], "Orthogonal": [0, 1, 0, 1]}[kind.name]
    expected = [given[4 * one : 4 * one + 4] * 2 for one in group]
    torch.testing.assert_close(result, torch.cat(expected))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float64, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float16),
        (torch.int64, torch.int32),
        (torch.int16, torch.int16),
        (torch.uint8, torch.uint8),
    ],
)
def test_types_of_inputs(dtype: torch.dtype, expected: torch.dtype) -> None:
    model = poptorch.inferenceModel(Double())
    for _ in range(2):
        given = torch.tensor([1, 3]).to(dtype)
        torch.testing.assert_close(model(given), (given + given).to(expected))
    with pytest.raises(poptorch.Error, match=r"Data type mismatch for x: expected .* torch.bool"):
        model(torch.tensor([True, False]))


def test_inputs_that_are_refused() -> None:
    with pytest.raises(poptorch.Error, match=r"Unsupported input type torch.complex64"):
        poptorch.inferenceModel(Double())(torch.zeros(2, dtype=torch.complex64))
    options = poptorch.Options().deviceIterations(2)
    with pytest.raises(AssertionError, match=r"Invalid batch dimension: .*Size\(\[3\]\)"):
        poptorch.inferenceModel(Double(), options)(torch.zeros(3))


def test_a_compiled_model_keeps_no_batch() -> None:
    model = poptorch.inferenceModel(Double())
    given = torch.zeros(4)
    model(given)
    reference = weakref.ref(given)
    del given
    assert reference() is None


@pytest.mark.parametrize("mode", [poptorch.DataLoaderMode.Sync, poptorch.DataLoaderMode.Async])
def test_training_from_a_loader(mode: poptorch.DataLoaderMode) -> None:
    """Whatever loads the batches, the losses are those of torch with the same rows."""
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(2)
    options.outputMode(poptorch.OutputMode.All)
    model = Regression()
    training = poptorch.trainingModel(
        model, options, poptorch.optim.SGD(model.parameters(), lr=0.01)
    )
    loader = poptorch.DataLoader(options, Numbers(24), batch_size=2, mode=mode)
    losses = [training(*batch)[1] for _ in range(2) for batch in loader]
    loader.terminate()

    eager = Regression()
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.01)
    expected = []
    for _ in range(2):
        for batch in torch.utils.data.DataLoader(Numbers(24), batch_size=4):
            optimizer.zero_grad()
            parts = zip(batch[0].split(2), batch[1].split(2), strict=True)
            each = [eager(*part)[1] for part in parts]
            (sum(each) / 2).backward()
            optimizer.step()
            expected += [loss.detach() for loss in each]
    torch.testing.assert_close(torch.cat(losses), torch.stack(expected))


def test_the_last_batch_of_a_loader() -> None:
    options = poptorch.Options().deviceIterations(2)
    model = poptorch.inferenceModel(Double(), options)
    loader = poptorch.DataLoader(options, Numbers(10), batch_size=2, drop_last=False)
    batches = [number for number, _ in loader]
    for batch in batches[:2]:
        torch.testing.assert_close(model(batch), (2 * batch).int())
    with pytest.raises(poptorch.Error, match=r"Shape mismatch for x: expected .*4.* but got .*2"):
        model(batches[2])
