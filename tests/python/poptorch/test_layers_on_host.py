"""Layers that run on the host in the middle of a program: `poptorch.CPU`."""

from __future__ import annotations

import copy

import pytest
import torch

import poptorch
from tests.python.poptorch.test_compiled_ops import Of, values


def test_layers_of_the_host():
    seen = []

    def layer(a, n):
        seen.append((a.dtype, n.dtype, torch.is_grad_enabled()))
        return torch.linalg.pinv(a), n + 1

    host = poptorch.CPU(layer, "inverse")
    x, n = values(3, 3), torch.tensor([4])
    model = poptorch.inferenceModel(Of(lambda a, m: host(a * 2, m)))
    for _ in range(2):
        inverse, number = model(x, n)
    torch.testing.assert_close(inverse, torch.linalg.pinv(x * 2), rtol=1e-4, atol=1e-5)
    assert number.tolist() == [5]
    assert seen[1:] == [(torch.float32, torch.int64, False)] * 2


def test_a_module_on_the_host_between_modules_of_the_program():
    torch.manual_seed(0)

    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(4, 8)
            self.host = poptorch.CPU(torch.nn.Linear(8, 3), "middle")
            self.last = torch.nn.Linear(3, 2)

        def forward(self, x):
            return self.last(self.host(torch.relu(self.first(x))))

    module, x = Mixed(), values(5, 4)
    torch.testing.assert_close(poptorch.inferenceModel(module)(x), module(x))


class PartOnHost(torch.nn.Module):
    """A part of the module runs on the host, as it is registered."""

    def __init__(self, part, read_first=False):
        super().__init__()
        self.first, self.part, self.reads = torch.nn.Linear(4, 8), part, read_first
        self.host = poptorch.CPU(self.on_host if read_first else part, "part")

    def on_host(self, x):
        result = self.part(x)
        return (result[0] if isinstance(result, tuple) else result) * self.first.weight.sum()

    def forward(self, x):
        return self.host(torch.relu(self.first(x)))


PARTS = {
    "linear": (lambda: torch.nn.Linear(8, 3), False),
    "statistics": (lambda: torch.nn.BatchNorm1d(8), False),
    "recurrent": (lambda: torch.nn.LSTM(8, 3), True),
    "reads_others": (lambda: torch.nn.Linear(8, 3), True),
}


@pytest.mark.parametrize("part, reads_first", PARTS.values(), ids=PARTS)
def test_parts_of_the_module_on_the_host_have_their_weights(part, reads_first):
    torch.manual_seed(0)
    module, x = PartOnHost(part(), reads_first), values(5, 4)
    plain = copy.deepcopy(module)
    plain.host = poptorch.CPU(plain.on_host if reads_first else plain.part, "part")
    model = poptorch.inferenceModel(module)
    for _ in range(2):
        torch.testing.assert_close(model(x), plain(x))
    # A batch of zeros, which the trace gives the part, has left no trace in its statistics.
    for name, buffer in plain.named_buffers():
        torch.testing.assert_close(dict(module.named_buffers())[name], buffer)
    with torch.no_grad():
        for parameter in (*module.part.parameters(), *plain.part.parameters()):
            parameter.fill_(0.5)
    torch.testing.assert_close(model(x), plain(x))


def test_what_a_layer_of_the_host_raises_leaves_the_model_usable():
    calls = []

    def layer(a):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("from the layer")
        return a + 1

    host = poptorch.CPU(layer, "fails")
    model = poptorch.inferenceModel(Of(lambda a: host(a)))
    with pytest.raises(KeyError, match="from the layer"):
        model(torch.ones(2))
    assert torch.equal(model(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize("returned", [None, "text", (torch.ones(2), 3)])
def test_layers_of_the_host_that_return_no_tensor_in_a_run(returned):
    results = iter([torch.ones(2)])
    host = poptorch.CPU(lambda a: next(results, returned), "changes")
    model = poptorch.inferenceModel(Of(lambda a: host(a)))
    with pytest.raises(poptorch.Error, match=r"poptorch.CPU 'changes' must return a tensor, or a"):
        model(torch.ones(2))
