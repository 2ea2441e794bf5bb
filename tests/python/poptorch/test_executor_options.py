"""What options do to executors, and what executors tell."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import poptorch
from poptorch.options import Options
from tests.python.poptorch.models import Counter, Log, Scaled, WithLoss

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


# Compilation.


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    model = poptorch.inferenceModel(Scaled())
    with pytest.raises(poptorch.Error, match="compile the model before obtaining compilation time"):
        model.compilationTime()
    model(X)
    written = capsys.readouterr()
    assert written.out == ""
    assert "Graph compilation: 100%|" in written.err
    assert "| 3/3 [" in written.err
    assert model.compilationTime() > datetime.timedelta(0)
    silent = poptorch.inferenceModel(Scaled(), quiet())
    silent(X)
    assert capsys.readouterr().err == ""
    with pytest.raises(poptorch.Error) as caught:
        silent.compilationTime()
    assert caught.value.message == (
        "Please set showCompilationProgressBar option to obtain compilation time."
    )


def test_compiling_twice_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    model = poptorch.inferenceModel(Scaled(), quiet())
    model.compile(X)
    assert capsys.readouterr().err == ""
    model.compile(X)
    assert "Call to compile() ignored: the executable is already compiled" in (
        capsys.readouterr().err
    )


def test_options_of_the_compiler_are_checked_before_the_trace() -> None:
    options = quiet()
    options._Popart.set("enableOutlinin", True)
    model = poptorch.inferenceModel(Scaled(), options)
    with pytest.raises(poptorch.Error, match="Unknown bool option enableOutlinin"):
        model(X)
    assert not model.isCompiled()


def test_connection_types() -> None:
    always = poptorch.inferenceModel(Scaled(), quiet())
    always.compile(X)
    assert always.isAttachedToDevice()
    on_demand = poptorch.inferenceModel(
        Scaled(), quiet().connectionType(poptorch.ConnectionType.OnDemand)
    )
    on_demand.compile(X)
    assert on_demand.isCompiled() and not on_demand.isAttachedToDevice()
    on_demand(X)
    assert on_demand.isAttachedToDevice()
    never = poptorch.inferenceModel(Scaled(), quiet().useOfflineIpuTarget())
    never.compile(X)
    assert never.isCompiled() and not never.isAttachedToDevice()
    with pytest.raises(AssertionError) as caught:
        never(X)
    assert str(caught.value) == (
        "Trying to run a model on an offline device (ConnectionType.Never): use "
        "model.compile(inputs) instead of model(inputs)"
    )
    with pytest.raises(AssertionError, match="Trying to attach to an offline device"):
        never.attachToDevice()


def test_models_of_the_device() -> None:
    model = poptorch.inferenceModel(Scaled(), quiet().useIpuModel(True))
    assert torch.equal(model(X), Scaled()(X))
    offline = poptorch.inferenceModel(Scaled(), quiet().useIpuModel(True).useOfflineIpuTarget())
    with pytest.raises(poptorch.Error, match=r"ConnectionType\.Never / .* not supported"):
        offline.compile(X)
    with pytest.raises(poptorch.Error, match=r"Failed to acquire 1 IPU\(s\) with ID 64"):
        poptorch.inferenceModel(Scaled(), quiet().useIpuId(64))(X)
    poptorch.inferenceModel(Scaled(), quiet().useIpuId(3))(X)


def test_numbers_of_devices() -> None:
    three = torch.ones(3, 4)
    model = poptorch.inferenceModel(Scaled(), quiet().replicationFactor(3))
    with pytest.raises(poptorch.Error, match="The model specifies the use of 3 IPUs, however"):
        model(three)
    rounded = quiet().replicationFactor(3).autoRoundNumIPUs()
    assert torch.equal(poptorch.inferenceModel(Scaled(), rounded)(three), Scaled()(three))
    many = poptorch.inferenceModel(Scaled(), quiet().replicationFactor(65))
    with pytest.raises(poptorch.Error, match=r"Too many IPUs requested \(65\)"):
        many(torch.ones(65, 4))


def test_a_model_that_does_nothing_is_refused() -> None:
    class Nothing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> None:
            return None

    model = poptorch.inferenceModel(Nothing(), quiet())
    with pytest.raises(poptorch.Error, match="Your compiled model is empty"):
        model(X)
    assert torch.equal(poptorch.inferenceModel(torch.nn.Identity(), quiet())(X), X)


def test_several_processes_cannot_train_together() -> None:
    options = Options()
    options.Distributed.configureProcessId(0, 2)
    with pytest.raises(poptorch.Error, match="Training with 2 processes is not supported"):
        trained(options)(X, TARGET)
    assert poptorch.inferenceModel(Scaled(), quiet(options.clone()))(X).shape == X.shape


def test_replicas_have_buffers_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    options = quiet().replicationFactor(2)
    with pytest.raises(poptorch.Error) as caught:
        poptorch.inferenceModel(Counter(), options)(X)
    assert caught.value.message.startswith(
        "PopTorch does not support broadcasting buffers. If your model is able to tolerate buffers "
        "becoming out of sync between replicas, you can disable buffer broadcasting using "
        "poptorch.Options.broadcastBuffers(False)."
    )
    model = poptorch.inferenceModel(Counter(), options.clone().broadcastBuffers(False))
    assert torch.equal(model(X), X + 1)
    assert torch.equal(model(X), X + 2)
    poptorch.inferenceModel(Scaled(), options)(X)


class Sum(torch.nn.Module):
    """A buffer that depends on the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x.sum()
        return x + self.total


def test_the_buffer_of_the_first_replica_is_read_back() -> None:
    module = Sum()
    model = poptorch.inferenceModel(module, quiet().replicationFactor(2).broadcastBuffers(False))
    assert model(torch.tensor([1.0, 10.0])).tolist() == [2.0, 20.0]
    model.copyWeightsToHost()
    assert module.total.item() == 1.0


def test_replicas_with_the_same_inputs_need_not_broadcast_buffers() -> None:
    options = quiet().replicationFactor(2)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    module = Sum()
    model = poptorch.inferenceModel(module, options.clone())
    assert model(torch.tensor([3.0])).tolist() == [6.0, 6.0]
    model.copyWeightsToHost()
    assert module.total.item() == 3.0
    four = options.clone().replicationFactor(4)
    with pytest.raises(poptorch.Error, match="does not support broadcasting buffers"):
        poptorch.inferenceModel(Sum(), four)(torch.ones(2))


# Runs.


def test_synthetic_data() -> None:
    options = quiet().enableSyntheticData(True).deviceIterations(2)
    options.outputMode(poptorch.OutputMode.All)
    model = trained(options)
    before = model.fc.weight.detach().clone()
    y, loss = model(torch.full((4, 4), torch.nan), torch.full((4, 3), torch.nan))
    assert torch.equal(y, torch.zeros(4, 3)) and torch.equal(loss, torch.zeros(2))
    after = model.fc.weight.detach()
    assert torch.isfinite(after).all() and not torch.equal(after, before)
    assert model.getPerfCounters() == {
        name: [[], []] for name in ("input", "input_complete", "output", "output_complete")
    }
    assert model.getLatency() == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("mode", "values"), [(1, "zeros"), (2, "normal"), (3, "uniform")])
def test_kinds_of_synthetic_data(mode: int, values: str) -> None:
    options = quiet()
    options._Popart.set("syntheticDataMode", mode)
    module = Sum()
    model = poptorch.inferenceModel(module, options)
    model(torch.full((1000,), torch.nan))
    model.copyWeightsToHost()
    mean = module.total.item() / 1000
    assert {"zeros": mean == 0, "normal": 0 < abs(mean) < 0.2, "uniform": abs(mean - 0.5) < 0.1}[
        values
    ]


def test_floating_point_exceptions() -> None:
    options = quiet()
    options.Precision.enableFloatingPointExceptions(True)
    module = Log()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    model = poptorch.trainingModel(module, options, optimizer)
    good = torch.full((2, 2), 2.0)
    model(good)
    weights = module.weight.detach().clone()
    with pytest.raises(poptorch.Error) as caught:
        model(torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    assert caught.value.type == "popart_exception"
    assert "gives an infinity, which its operands do not have" in caught.value.message
    assert torch.equal(module.weight.detach(), weights)
    model(good)
    assert not torch.equal(module.weight.detach(), weights)
    plain = poptorch.inferenceModel(Log().eval(), quiet())
    assert plain(torch.zeros(1, 2)).isinf().all()


# Times.


@pytest.mark.parametrize(
    ("mode", "outputs"),
    [
        (poptorch.OutputMode.All, 8),
        (poptorch.OutputMode.Final, 2),
        (poptorch.OutputMode.Sum, 2),
    ],
)
def test_counters_of_transfers(mode: poptorch.OutputMode, outputs: int) -> None:
    options = quiet().deviceIterations(2).replicationFactor(2).outputMode(mode)
    options.Training.gradientAccumulation(2)
    model = trained(options)
    names = ("input", "input_complete", "output", "output_complete")
    assert model.getPerfCounters() == {name: [[]] for name in names}
    assert model.getLatency() == (0.0, 0.0, 0.0)
    model(torch.randn(16, 4), torch.randn(16, 3))
    counters = model.getPerfCounters()
    assert [[len(one) for one in counters[name]] for name in names] == [
        *[[8, 8]] * 2,
        *[[outputs, outputs]] * 2,
    ]
    first = [counters[name][0][0] for name in names]
    assert first == sorted(first)
    whole, compute = model.getLatency(), model.getComputeLatency()
    parts = [model.getHostIpuLatency(), compute, model.getIpuHostLatency()]
    assert whole[0] == whole[1] == whole[2] > 0
    assert sum(part[2] for part in parts) == pytest.approx(whole[2])


def test_cycle_counts() -> None:
    model = poptorch.inferenceModel(Scaled(), quiet())
    with pytest.raises(poptorch.Error) as caught:
        model.cycleCount()
    assert caught.value.message == (
        "Cycle count logging is disabled. Please set option logCycleCount to True to enable."
    )
    model = poptorch.inferenceModel(Scaled(), quiet().logCycleCount(True))
    with pytest.raises(poptorch.Error, match="Please run the model at least once before"):
        model.cycleCount()
    model(X)
    assert model.cycleCount() > 0
    model = poptorch.inferenceModel(Scaled(), quiet().logCycleCount(True).useIpuModel(True))
    model(X)
    with pytest.raises(poptorch.Error, match="only supported on actual IPU hardware"):
        model.cycleCount()


# Files.


def test_profiles(tmp_path: Path) -> None:
    model = trained(Options().enableProfiling(tmp_path))
    model(X, TARGET)
    model.detachFromDevice()
    named = poptorch.inferenceModel(Scaled(), quiet().enableProfiling(tmp_path).modelName("mine"))
    named(X)
    named.destroy()
    for name in ("training", "mine"):
        assert (tmp_path / name / "profile.html").read_text().startswith("<!DOCTYPE html>")
        report = json.loads((tmp_path / name / "profile.json").read_text())
        assert report["memory"]


def test_profile_of_a_program_that_just_ends(tmp_path: Path) -> None:
    code = f"""
import torch, poptorch
from tests.python.poptorch.models import Scaled
model = poptorch.inferenceModel(Scaled(), poptorch.Options().enableProfiling({str(tmp_path)!r}))
model(torch.ones(2, 4))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    assert (tmp_path / "inference" / "profile.json").exists()


def test_executable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "not" / "there"
    models = []
    for _ in range(2):
        module = Scaled()
        with torch.no_grad():
            module.weight.fill_(float(len(models)))
        models.append(poptorch.inferenceModel(module, quiet().enableExecutableCaching(str(folder))))
        assert torch.equal(models[-1](X), module(X))
    assert [model._executable.was_read for model in models] == [False, True]
    monkeypatch.setenv("POPTORCH_CACHE_DIR", str(folder))
    model = poptorch.inferenceModel(Scaled(), quiet())
    model(X)
    assert model._executable.was_read
    (tmp_path / "file").write_text("")
    wrong = poptorch.inferenceModel(
        Scaled(), quiet().enableExecutableCaching(str(tmp_path / "file"))
    )
    with pytest.raises(AssertionError, match=r"is not writable$"):
        wrong(X)


def test_the_cache_of_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = quiet().enableExecutableCaching(str(tmp_path))
    options.Distributed.configureProcessId(0, 2)
    first, second = (poptorch.inferenceModel(Scaled(), options) for _ in range(2))
    first(X)
    assert len(list(tmp_path.glob("*.lock"))) == 1
    second(X)
    assert second._executable.was_read
    assert list(tmp_path.glob("*.lock")) == []
    uncached = quiet()
    uncached.Distributed.configureProcessId(0, 2)
    poptorch.inferenceModel(Scaled(), uncached)(X)
    assert "No folder for compiled models is set" in capsys.readouterr().err


def test_the_cache_is_not_for_models_of_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = quiet().enableExecutableCaching(str(tmp_path / "cache")).useIpuModel(True)
    poptorch.inferenceModel(Scaled(), options)(X)
    assert "The executable cache is not used with the IPU model" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_long_errors_go_to_the_log_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import popart
    import popxl

    def fail(*_: Any, **__: Any) -> Any:
        raise popart.popart_exception("\n".join(["it does not compile"] * 200))

    monkeypatch.setattr(popxl, "Session", fail)
    model = poptorch.inferenceModel(Scaled(), quiet().logDir(str(tmp_path / "logs")))
    with pytest.raises(poptorch.Error) as caught:
        model(X)
    assert caught.value.type == "popart_exception"
    assert "See poptorch_error.log for details" in str(caught.value)
    assert "  [0] compile\n  [1] PoplarExecutor.compile" in str(caught.value)
    assert (tmp_path / "logs" / "poptorch_error.log").read_text().count("compile") == 200
    monkeypatch.undo()
    assert torch.equal(model(X), Scaled()(X))


def test_methods_are_trace_points(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def instrument(self: Any, executor: Any, *methods: str) -> Any:
        names.extend(methods)
        return executor

    monkeypatch.setattr(poptorch.profiling.Channel, "instrument", instrument)
    poptorch.inferenceModel(Scaled(), quiet())
    assert {"copyWeightsToHost", "copyWeightsToDevice", "compile", "destroy"} <= set(names)


def test_wrappers_can_be_taken_off_for_a_while() -> None:
    from poptorch import _impl

    model = trained()
    module = model.model
    model(X, TARGET)
    assert type(module) is not WithLoss
    assert _impl.unwrapModelIfNecessary(module) is module
    assert type(module) is WithLoss and type(module.fc.weight) is torch.nn.Parameter
    weights = module.fc.weight.detach().clone()
    assert _impl.rewrapModelIfNecessary(module) is module
    assert type(module).__name__ == "PoptorchWithLoss"
    model(X, TARGET)
    assert not torch.equal(module.fc.weight, weights)
    plain = Scaled()
    for function in (
        _impl.unwrapModelIfNecessary,
        _impl.rewrapModelIfNecessary,
        _impl._restoreWrapperIfNecessary,
    ):
        assert function(plain) is plain and type(plain) is Scaled
