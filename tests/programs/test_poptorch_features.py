"""The programs of the document about features of PopTorch, run as it prints them.

The text has lost the indentation of its listings: what is added here is the depth of each line.
"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from documents import document

import poptorch

_DOCUMENT = "poptorch-features.txt"


def listing(first_line: str, depths: str, number: int = 0) -> str:
    """The listing, of those that begin with a line the one of this number, indented."""
    found: list[list[str]] = []
    for line in document(_DOCUMENT).splitlines():
        match = re.match(r"^(\d{1,3})(?![.\d])(.*)$", line)
        if match is None:
            continue
        if int(match[1]) == 1:
            found.append([])
        if found and int(match[1]) == len(found[-1]) + 1:
            found[-1].append(match[2].strip())
    chosen = [lines for lines in found if lines[0] == first_line][number]
    assert len(chosen) >= len(depths), f"{first_line}: {len(chosen)} lines"
    pairs = zip(chosen, depths, strict=False)
    return "\n".join("    " * int(depth) + line for line, depth in pairs) + "\n"


def run(source: str, **names: Any) -> dict[str, Any]:
    """Runs a listing as a module of its own, as pickles want it; returns its names."""
    module = types.ModuleType("listing")
    sys.modules["listing"] = module
    known = {"torch": torch, "poptorch": poptorch, "numpy": numpy, "F": torch.nn.functional}
    vars(module).update({**known, **names})
    exec(compile(source, _DOCUMENT, "exec"), vars(module))
    return vars(module)


_MODEL_WITH_LOSS = "000001222012232"


def test_training_brings_the_model_to_its_target():
    depths = _MODEL_WITH_LOSS + "0" * 15 + "1" * 5 + "0" * 11
    names = run(listing("import torch", depths))
    assert float(names["loss"]) < 1e-4


@pytest.mark.parametrize(
    ("number", "depths"),
    [
        (0, "0122222022010222302302330232" + "0" * 8),
        (1, "012222202201222220112220112220112" + "0" * 7),
    ],
)
def test_blocks_run_as_a_pipeline(number, depths, capsys):
    torch.manual_seed(1)
    names = run(listing("class Network(torch.nn.Module):", depths, number))
    capsys.readouterr()
    x = torch.rand((4, 5))
    torch.testing.assert_close(names["poptorch_model"](x), names["model"](x).detach())


def test_stages_and_phases_can_be_made_of_blocks():
    names = run(listing("class Model(torch.nn.Module):", "01232323020000000", 0))
    names["opts"] = poptorch.Options().setExecutionStrategy(
        poptorch.ParallelPhasedExecution(
            names["first"], poptorch.Phase(poptorch.Stage("B", "C").ipu(1))
        )
    )
    given = poptorch.inferenceModel(names["Model"](), names["opts"].autoRoundNumIPUs(True))(
        torch.ones(2), torch.ones(2)
    )
    assert [value.tolist() for value in given] == [[2, 2], [2, 2], [3, 3]]


def test_phases_named_by_formatted_strings_compile():
    depths = "0000001222220122232334455333423343" + "0" * 8 + "0" + "1" * 8
    source = listing('poptorch.setLogLevel("DEBUG") # Force debug logging', depths + "0000")
    try:
        names = run(source)
        assert names["poptorch_model"].isCompiled()
    finally:
        poptorch.setLogLevel("WARN")


def test_groups_of_replicas_hold_parts_of_a_weight():
    depths = "01220122" + "0" * 10 + "1" + "0" * 6 + "111" + "0" * 6 + "1" + "000" + "1"
    names = run(listing("class ModelWithLoss(torch.nn.Module):", depths + "0010111110010"))
    x, weight = names["prob_X"].astype(numpy.float64), names["prob_W_init"].astype(numpy.float64)
    losses = []
    for _ in range(names["prob_steps"]):
        z = x @ weight
        losses.append((z**2).mean())
        # Each group takes the mean over its own columns.
        weight = weight - 0.01 * 2 * x.T @ z / (z.size / names["tensor_shards"])
    numpy.testing.assert_allclose(names["pt_losses"], losses, rtol=1e-4)
    numpy.testing.assert_allclose(names["pt_W_final"], weight, rtol=1e-4, atol=1e-5)


def test_a_half_precision_model():
    run(listing("model = torch.nn.Linear(1, 10)", "0" * 13))


@pytest.mark.filterwarnings("ignore:Output expected to be on the IPU")
@pytest.mark.parametrize(("number", "printed"), [(0, [1, 1]), (1, [1, 2])])
def test_counters(number, printed, capsys):
    depths = "01220122" + "0" * (6 if number == 0 else 7)
    run(listing("class CounterModel(torch.nn.Module):", depths, number))
    assert capsys.readouterr().out.split("\n")[:2] == [f"tensor([{n}.])" for n in printed]


def test_values_of_an_optimizer_are_set_between_calls():
    names = run(listing("import torch", _MODEL_WITH_LOSS))
    run(
        listing("opt = poptorch.optim.SGD(model.parameters(),", "0111" + "0" * 9),
        model=names["ExampleModelWithLoss"](),
        options=None,
        input=torch.randn(10),
        target=torch.randn(10),
    )


def test_options_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tmp").mkdir()
    Path("tmp/poptorch.conf").write_text(listing("deviceIterations(1)", "0000"), encoding="utf-8")
    options = run(listing("opts = poptorch.Options()", "00"))["opts"]
    assert isinstance(options._execution_strategy, poptorch.ShardedExecution)


_OF_MODEL = ("ExampleModelWithLoss", "filename", "input", "target")


def test_a_model_is_compiled_for_another_machine(tmp_path):
    names = run(
        listing("import torch", _MODEL_WITH_LOSS + "0" * 17, 2),
        ipu_target_version=poptorch.ipuHardwareVersion(),
        filename=str(tmp_path / "training.poptorch"),
    )
    wanted = {name: names[name] for name in _OF_MODEL}
    loaded = run(listing("poptorch_model = poptorch.load(filename)", "0000"), **wanted)
    output, _ = loaded["poptorch_model"](names["input"], names["target"])
    assert output.shape == (10,)
