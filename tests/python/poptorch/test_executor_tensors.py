"""Tensors inside programs that executors give: anchors, random state, buffers, ops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import poptorch
from poptorch._lower.table import is_lowered
from poptorch.options import Options
from tests.python.poptorch.models import Scaled, WithLoss

ROOT = Path(__file__).parents[3]
X = torch.arange(8.0).reshape(2, 4) / 8
TARGET = torch.ones(2, 3)


@pytest.fixture(autouse=True)
def _same_random_numbers() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    poptorch._logging.set_repeat_limit(4)


def quiet(options: Options | None = None) -> Options:
    return (options or Options()).showCompilationProgressBar(False)


def trained(options: Options | None = None, lr: float = 0.1) -> poptorch.PoplarExecutor:
    module = WithLoss()
    optimizer = torch.optim.SGD(module.parameters(), lr=lr)
    return poptorch.trainingModel(module, quiet(options), optimizer)


def test_random_state_can_be_read_and_written() -> None:
    models = [poptorch.inferenceModel(Scaled(), quiet().randomSeed(seed)) for seed in (7, 8)]
    with pytest.raises(poptorch.Error, match="Model has not been compiled"):
        _ = models[0].rng_state
    for model in models:
        model(X)
    state = models[0].rng_state
    assert (state[0], models[1].rng_state[0]) == (7, 8)
    models[1].rng_state = state
    assert models[1].rng_state == state
    models[1].detachFromDevice()
    assert models[1].rng_state == state
    for bad in ([7], [*state, 1], [7, -1, *state[2:]]):
        with pytest.raises(poptorch.Error, match="rng_state: wanted a seed and 2 words"):
            models[1].rng_state = bad


@pytest.mark.skipif(not is_lowered("aten::dropout"), reason="dropout is not lowered")
def test_random_numbers_are_reproducible() -> None:
    class Noise(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(x, 0.5, training=True)

    ones = torch.ones(2, 64)
    models = [poptorch.inferenceModel(Noise(), quiet().randomSeed(seed)) for seed in (7, 7, 8)]
    first, second, other = (model(ones) for model in models)
    assert torch.equal(first, second) and not torch.equal(first, other)
    state = models[0].rng_state
    third = models[0](ones)
    assert not torch.equal(first, third)
    models[2].rng_state = state
    assert torch.equal(models[2](ones), third)


def test_named_buffers_can_be_updated_alone() -> None:
    module = Scaled().eval()
    model = poptorch.inferenceModel(module, quiet().updatableNamedBuffers(["scale"]))
    with pytest.raises(poptorch.Error, match="has not been compiled"):
        model.copyNamedBuffersToDevice()
    assert torch.equal(model(X), X * 6 + 1)
    with torch.no_grad():
        module.scale.fill_(5.0)
        module.shift.fill_(9.0)
        module.weight.fill_(9.0)
    assert torch.equal(model(X), X * 6 + 1)
    model.copyNamedBuffersToDevice()
    assert torch.equal(model(X), X * 10 + 1)
    unnamed = poptorch.inferenceModel(Scaled(), quiet())
    unnamed(X)
    with pytest.raises(poptorch.Error, match="No named buffers marked as updatable via"):
        unnamed.copyNamedBuffersToDevice()
    wrong = poptorch.inferenceModel(Scaled(), quiet().updatableNamedBuffers(["weight"]))
    wrong(X)
    with pytest.raises(poptorch.Error, match=r"names \['weight'\]; the buffers of the model are"):
        wrong.copyNamedBuffersToDevice()


def test_anchors() -> None:
    options = quiet().deviceIterations(2).anchorTensor("product", "fc/Gemm:0")
    options.anchorTensor("data", "input").anchorTensor("new", "UpdatedVar___fc.weight")
    options.outputMode(poptorch.OutputMode.All)
    model = trained(options, lr=0.0)
    with pytest.raises(AssertionError, match="must be compiled before calling getTensorNames"):
        model.getTensorNames()
    data, targets = torch.randn(4, 4), torch.randn(4, 3)
    y, _ = model(data, targets)
    names = model.getTensorNames()
    assert {"input", "input/1", "fc.weight", "fc.bias", "fc/Gemm:0"} <= set(names)
    assert torch.equal(model.getAnchoredTensor("product"), y)
    assert torch.equal(model.getAnchoredTensor("data"), data)
    assert torch.equal(model.getAnchoredTensor("new"), model.fc.weight.repeat(2, 1))
    with pytest.raises(AssertionError, match="No tensor with name other found"):
        model.getAnchoredTensor("other")
    wrong = poptorch.inferenceModel(Scaled(), quiet().anchorTensor("a", "nowhere:0"))
    with pytest.raises(poptorch.Error, match="there is no tensor nowhere:0 in the graph"):
        wrong(X)


def test_anchored_gradients_and_states() -> None:
    options = quiet().replicationFactor(2).deviceIterations(2)
    options.Training.gradientAccumulation(2)
    for short, long in {"gradient": "Gradient___fc.weight", "new": "UpdatedVar___fc.bias"}.items():
        options.anchorTensor(short, long)
    options.anchorTensor("velocity", "Accl___fc.weight")
    module, reference = WithLoss(), WithLoss()
    reference.load_state_dict(module.state_dict())
    optimizer = poptorch.optim.SGD(
        module.parameters(), lr=0.1, momentum=0.9, use_combined_accum=False
    )
    model = poptorch.trainingModel(module, options, optimizer)
    data, targets = torch.randn(16, 4), torch.randn(16, 3)
    model(data, targets)
    plain = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    for iteration in range(2):
        plain.zero_grad()
        # Replicas are the outermost dimension of the batch, then device iterations.
        parts = [t.reshape(2, 2, 4, -1)[:, iteration].reshape(8, -1) for t in (data, targets)]
        reference(*parts)[1].backward()
        plain.step()
    # As of outputs: one for each replica.
    gradient = reference.fc.weight.grad.repeat(2, 1)
    torch.testing.assert_close(model.getAnchoredTensor("gradient"), gradient)
    torch.testing.assert_close(model.getAnchoredTensor("new"), reference.fc.bias.detach().repeat(2))
    velocity = plain.state[reference.fc.weight]["momentum_buffer"].repeat(2, 1)
    torch.testing.assert_close(model.getAnchoredTensor("velocity"), velocity)
    assert {"Gradient___fc.weight", "UpdatedVar___fc.bias", "Accl___fc.weight"} <= set(
        model.getTensorNames()
    )
    frozen = quiet().anchorTensor("a", "Gradient___other")
    with pytest.raises(poptorch.Error, match="there is no tensor Gradient___other"):
        trained(frozen)(X, TARGET)


# In each the micro-batches whose values are returned, of 3 iterations with 2 micro-batches each.
MODES: dict[str, tuple[tuple[Any, ...], list[int]]] = {
    "all": ((poptorch.OutputMode.All,), [0, 1, 2, 3, 4, 5]),
    "every_third": ((poptorch.OutputMode.EveryN, 3), [2, 5]),
    "final": ((poptorch.OutputMode.Final,), [5]),
}


def anchored_in_each_update(
    mode: tuple[Any, ...],
) -> tuple[poptorch.PoplarExecutor, dict[str, list[torch.Tensor]]]:
    """A run of 3 iterations of 2 micro-batches, and what torch has after each of 3 updates."""
    options = quiet().deviceIterations(3).outputMode(*mode)
    options.Training.gradientAccumulation(2)
    module, reference = WithLoss(), WithLoss()
    reference.load_state_dict(module.state_dict())
    names = ("Gradient___", "FinalReducedGradient___", "UpdatedVar___", "Accl1___", "Accum___")
    for prefix in names:
        options.anchorTensor(prefix, f"{prefix}fc.weight")
    options.anchorTensor("Step___", "Step___fc.bias")
    arguments = {"lr": 0.1, "betas": (0.8, 0.9)}
    model = poptorch.trainingModel(
        module, options, poptorch.optim.Adam(module.parameters(), **arguments)
    )
    data, targets = torch.randn(12, 4), torch.randn(12, 3)
    model(data, targets)
    plain = torch.optim.Adam(reference.parameters(), **arguments)
    wanted: dict[str, list[torch.Tensor]] = {name: [] for name in (*names, "Step___")}
    weight = reference.fc.weight
    for step in range(3):
        plain.zero_grad()
        reference(data[4 * step : 4 * step + 4], targets[4 * step : 4 * step + 4])[1].backward()
        plain.step()
        assert weight.grad is not None
        wanted["Gradient___"].append(weight.grad.clone())
        wanted["FinalReducedGradient___"].append(weight.grad.clone())
        # The sum of both micro-batches, before it becomes their mean.
        wanted["Accum___"].append(2 * weight.grad)
        wanted["UpdatedVar___"].append(weight.detach().clone())
        wanted["Accl1___"].append(plain.state[weight]["exp_avg"].clone())
        wanted["Step___"].append(torch.tensor(step + 1.0))
    return model, wanted


@pytest.mark.parametrize("mode", MODES)
def test_anchors_of_updates_follow_the_output_mode(mode: str) -> None:
    given, micro_batches = MODES[mode]
    model, wanted = anchored_in_each_update(given)
    for prefix, values in wanted.items():
        kept = torch.stack([values[i // 2] for i in micro_batches])
        if len(micro_batches) == 1:
            kept = kept[0]
        elif kept.ndim > 1:
            kept = kept.flatten(0, 1)
        torch.testing.assert_close(
            model.getAnchoredTensor(prefix), kept, rtol=1e-4, atol=1e-6, msg=prefix
        )
        name = "fc.bias" if prefix == "Step___" else "fc.weight"
        assert f"{prefix}{name}" in model.getTensorNames()


def test_anchors_of_updates_are_summed_over_micro_batches() -> None:
    model, wanted = anchored_in_each_update((poptorch.OutputMode.Sum,))
    for prefix, values in wanted.items():
        torch.testing.assert_close(
            model.getAnchoredTensor(prefix), 2 * sum(values), rtol=1e-4, atol=1e-5, msg=prefix
        )


def test_anchors_of_inference_and_of_synthetic_data() -> None:
    options = (
        quiet().randomSeed(5).deviceIterations(3).anchorTensor("seed", "randomSeed___fromHost")
    )
    model = poptorch.inferenceModel(Scaled(), options)
    model(torch.ones(3, 2))
    assert model.getAnchoredTensor("seed").tolist() == [5, 0] * 3
    options = quiet().enableSyntheticData(True).anchorTensor("gradient", "Gradient___fc.weight")
    synthetic = trained(options)
    synthetic(X, TARGET)
    assert torch.equal(synthetic.getAnchoredTensor("gradient"), torch.zeros(3, 4))


def test_repeated_names_are_numbered() -> None:
    class Sums(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 + 2 + 3

    options = quiet().anchorTensor("second", "Add:0/1")
    model = poptorch.inferenceModel(Sums(), options)
    model(X)
    assert model.getTensorNames()[:4] == ["input", "Add:0", "Add:0/1", "Add:0/2"]
    assert torch.equal(model.getAnchoredTensor("second"), X + 3)


def test_ops_as_json() -> None:
    model = trained()
    assert model._debugGetPopartIR().startswith("unavailable")
    model(X, TARGET)
    ops = json.loads(model._debugGetPopartIR())["maingraph"]
    assert {"type", "name", "inputs", "outputs"} == set(ops[0])
    assert any("fc" in op["name"].split("/") for op in ops)
    assert all(op["name"].rpartition("/")[2] == op["type"] for op in ops)
    assert not any(op["name"].startswith("/") for op in ops)
    types = [op["type"] for op in ops]
    assert {"HostLoad", "HostStore"} <= set(types)
    assert types.count("SGD0VarUpdate") == len(list(WithLoss().parameters()))
    assert not {"AdamUpdater", "AdamVarUpdate", "Restore", "MultiConv"} & set(types)


class _Convolutions(torch.nn.Module):
    """Two stages with what programs look for among the ops."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv1d(2, 2, 1)
        self.second = torch.nn.Conv1d(2, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with poptorch.Block("first", ipu_id=0):
            y = poptorch.recomputationCheckpoint(torch.relu(self.first(x)))
        with poptorch.Block("second", ipu_id=1):
            with poptorch.MultiConv():
                z = self.second(y)
            return poptorch.identity_loss(z * z, "mean")


def test_ops_that_programs_search_for() -> None:
    module = _Convolutions()
    options = quiet()
    options.Training.gradientAccumulation(4)
    adam = poptorch.optim.Adam(module.parameters(), lr=0.1)
    model = poptorch.trainingModel(module, options, adam)
    model(torch.ones(4, 2, 3))
    ops = json.loads(model._debugGetPopartIR())["maingraph"]
    types = [op["type"] for op in ops]
    parameters = len(list(module.parameters()))
    assert types.count("AdamUpdater") == types.count("AdamVarUpdate") == parameters
    assert types.count("Restore") >= 1 and "SGD0VarUpdate" not in types
    assert (types.count("Conv"), types.count("MultiConv")) == (1, 1)
    assert [op for op in ops if "Checkpoint" in op["name"].split("/")]


class Weighted(torch.nn.Module):
    """A loss whose gradient is the input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.stack([torch.ones(3), 2 * torch.ones(3)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return poptorch.identity_loss((self.weight * x).sum(), "sum")


def test_anchors_of_grouped_weights_are_those_of_each_replica() -> None:
    options = quiet().replicationFactor(2).deviceIterations(2)
    options.outputMode(poptorch.OutputMode.All)
    for name in ("Gradient___weight", "UpdatedVar___weight"):
        options.anchorTensor(name, name)
    module = Weighted()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    model = poptorch.trainingModel(module, options, optimizer)
    retrieval = poptorch.VariableRetrievalMode.OnePerGroup
    model.weight.replicaGrouping(poptorch.CommGroupType.NoGrouping, 0, retrieval)
    # The first replica sees 1 and 2, the second 3 and 4.
    model(torch.arange(1.0, 5.0)[:, None].expand(4, 3).contiguous())
    gradient = model.getAnchoredTensor("Gradient___weight").reshape(4, 3)
    updated = model.getAnchoredTensor("UpdatedVar___weight").reshape(4, 3)
    assert gradient[:, 0].tolist() == [1, 2, 3, 4]
    assert updated[:, 0].tolist() == [0.5, -0.5, 0.5, -1.5]


LAYERS = ("first", "second")


class OnTwoDevices(torch.nn.Module):
    """Layers on two devices and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with poptorch.Block("first", ipu_id=0):
            y = torch.tanh(self.first(x))
        with poptorch.Block("second", ipu_id=1):
            return torch.nn.functional.mse_loss(self.second(y), x[:, :2])


@pytest.mark.parametrize(
    "strategy", [poptorch.PipelinedExecution(), poptorch.ShardedExecution()], ids=["pipe", "shard"]
)
def test_anchors_of_updates_on_several_devices(strategy: Any) -> None:
    options = quiet().deviceIterations(2).outputMode(poptorch.OutputMode.EveryN, 4)
    options.setExecutionStrategy(strategy).Training.gradientAccumulation(4)
    names = [f"{kind}___{layer}" for kind in ("Gradient", "UpdatedVar", "Accl") for layer in LAYERS]
    for name in names:
        options.anchorTensor(name, f"{name}.weight")
    module, reference = OnTwoDevices(), OnTwoDevices()
    reference.load_state_dict(module.state_dict())
    optimizer = poptorch.optim.SGD(
        module.parameters(), lr=0.1, momentum=0.9, use_combined_accum=False
    )
    data = torch.randn(16, 4)
    model = poptorch.trainingModel(module, options, optimizer)
    model(data)
    plain = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    for step, part in enumerate(data.chunk(2)):
        plain.zero_grad()
        reference(part).backward()
        plain.step()
        for layer in LAYERS:
            weight = getattr(reference, layer).weight
            assert weight.grad is not None
            velocity = plain.state[weight]["momentum_buffer"]
            kept = {"Gradient": weight.grad, "UpdatedVar": weight, "Accl": velocity}
            for kind, wanted in kept.items():
                given = model.getAnchoredTensor(f"{kind}___{layer}").chunk(2)[step]
                torch.testing.assert_close(given, wanted.detach())
