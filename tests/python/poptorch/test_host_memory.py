"""What the host keeps of weights that the device has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

import poptorch

# Prints what compiling took at its peak, and the bytes of the weights.
_COMPILE = """
import torch
import poptorch
from pando.process_memory import peak_resident_bytes, resident_bytes


class Model(torch.nn.Sequential):
    def forward(self, x):
        return poptorch.identity_loss(super().forward(x), "sum")


module = Model(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(16)))
optimizer = torch.optim.Adam(module.parameters())
model = poptorch.trainingModel(module, optimizer=optimizer)
before = resident_bytes()
model.compile(torch.ones(1, 2048))
print(peak_resident_bytes() - before, sum(one.nbytes for one in module.parameters()))
"""


# Prints by how much saving, and reading what was saved, raise the memory of the process.
_SAVE = """
import sys
import torch
import poptorch
from pando.process_memory import peak_resident_bytes, resident_bytes


def growth(action):
    open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
    before = resident_bytes()
    result = action()
    return peak_resident_bytes() - before, result


file = sys.argv[1] + "/model.poptorch"
module = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(8)))
model = poptorch.inferenceModel(module)
model.compile(torch.ones(1, 2048))
model.save(file)  # compiles once more
saved, _ = growth(lambda: model.save(file))
read, found = growth(lambda: poptorch.importPoptorchMetadataFromFile(file))
print(saved, read, sum(one.nbytes for one in module.parameters()))
assert all(map(torch.equal, found.model.parameters(), module.parameters()))
"""


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


def test_compiling_takes_what_the_device_has_and_little_more() -> None:
    command = [sys.executable, "-c", _COMPILE]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, weights = map(int, done.stdout.split())
    # Weights and two moments, 64 MiB under way, and what Python imports meanwhile.
    assert peak < 3 * weights + (160 << 20), (peak, weights)


def test_saving_and_reading_hold_one_weight_at_a_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SAVE, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    saved, read, weights = map(int, done.stdout.split())
    assert saved < weights // 4
    assert read < weights + weights // 4
