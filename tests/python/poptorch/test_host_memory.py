"""What the host keeps of weights that the device has."""

from __future__ import annotations

import torch

import poptorch


class _Regression(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Of the sizes of the parts that are read at a time: less, more than one, and the rest.
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(columns, rows, bias=False)
            for columns, rows in [(64, 512), (512, 40_000), (40_000, 16)]
        )

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return torch.nn.functional.mse_loss(x, wanted)


def test_weights_are_on_the_device_only_and_come_back() -> None:
    torch.manual_seed(1)
    module, twin = _Regression(), _Regression()
    twin.load_state_dict(module.state_dict())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.5)
    model = poptorch.trainingModel(module, optimizer=optimizer)
    x, wanted = torch.randn(4, 64), torch.randn(4, 16)
    model.compile(x, wanted)
    executable = model._executable
    assert executable is not None
    records = executable.session.ir_._variables
    kept = [name for name, one in records.items() if not one.only_on_device]
    assert all(records[name].data.nbytes < 1 << 16 for name in kept)
    twins = torch.optim.SGD(twin.parameters(), lr=0.01, momentum=0.5)
    for _ in range(3):
        model(x, wanted)
        twins.zero_grad()
        twin(x, wanted).backward()
        twins.step()
    model.copyWeightsToHost()
    for own, other in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(own, other)
    model.detachFromDevice()
    model.attachToDevice()
    model(x, wanted)
