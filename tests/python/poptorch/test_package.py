"""Names of the package: enums, devices, hooks, profiling, comparison."""

from __future__ import annotations

import contextlib
import enum
import importlib.util
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import poptorch
from poptorch import _compile_hooks, enums, profiling
from poptorch._devices import devices_per_replica, devices_to_reserve, uses_model
from poptorch.options import Options
from poptorch.testing import allclose

MEMBERS: dict[str, dict[str, Any]] = {
    "OutputMode": {"Final": 0, "EveryN": 1, "All": 2, "Sum": 3, "Default": 4},
    "DataLoaderMode": {"Sync": 0, "Async": 1, "AsyncRebatched": 2},
    "SharingStrategy": {"SharedMemory": 0, "FileSystem": 1, "Fork": 2, "ForkServer": 3},
    "MeanReductionStrategy": {"Running": 0, "Post": 1, "PostAndLoss": 2},
    "ReductionType": {"Sum": 0, "Mean": 1, "NoReduction": 2},
    "ConnectionType": {"Always": 0, "OnDemand": 1, "Never": 2},
    "SyncPattern": {"Full": 0, "SinglePipeline": 1, "ReplicaAndLadder": 2},
    "HalfFloatCastingBehavior": {"FloatDowncastToHalf": 0, "HalfUpcastToFloat": 1, "Default": 2},
    "MatMulSerializationMode": {
        "InputChannels": "input_channels",
        "ReducingDim": "reducing_dim",
        "OutputChannels": "output_channels",
        "Disabled": "none",
    },
    "OverlapMode": {
        "NoOverlap": "no_overlap",
        "OverlapAccumulationLoop": "overlap_accumulation_loop",
        "OverlapDeviceIterationLoop": "overlap_device_iteration_loop",
    },
    "Liveness": {
        "AlwaysLive": 0,
        "OffChipAfterFwd": 1,
        "OffChipAfterFwdNoOverlap": 2,
        "OffChipAfterEachPhase": 3,
    },
    "AutoStage": {"SameAsIpu": 0, "AutoIncrement": 1},
    "MultiConvPlanType": {"Parallel": 0, "Serial": 1},
    "CommGroupType": {"All": 0, "Consecutive": 1, "Orthogonal": 2, "NoGrouping": 3},
    "VariableRetrievalMode": {"OnePerGroup": 0, "AllReplicas": 2},
}


def test_enums() -> None:
    assert set(enums.__all__) == set(MEMBERS)
    for name, members in MEMBERS.items():
        kind = getattr(poptorch, name)
        assert kind is getattr(poptorch.enums, name)
        assert {member.name: member.value for member in kind} == members
        is_int = all(isinstance(value, int) for value in members.values())
        assert issubclass(kind, enum.IntEnum) == is_int


def test_names_are_exported() -> None:
    names: dict[str, Any] = {}
    exec("from poptorch import *", names)
    for name in poptorch.ops.__all__:
        assert names[name] is getattr(poptorch.ops, name) is getattr(poptorch, name)
    for name in ("Attribute", "ConfigFileError", "Options", "TensorLocationSettings"):
        assert names[name] is getattr(poptorch.options, name) is getattr(poptorch, name)
    for name in ("enums", "ops", "optim", "options", "poptorch_core", "profiling", "testing"):
        assert names[name] is getattr(poptorch, name) is sys.modules[f"poptorch.{name}"]
    assert {"Stage", "Phase", "DataLoader", "Error", "load", "getIpuTensorId"} <= names.keys()
    assert poptorch.Attribute is poptorch.ops.Attribute


def test_the_module_of_executors_may_be_executed_again() -> None:
    spec = importlib.util.find_spec("poptorch._poplar_executor")
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    layer, x = torch.nn.Linear(4, 2), torch.ones(3, 4)
    options = Options().outputMode(poptorch.OutputMode.All)
    for kind in (poptorch.PoplarExecutor, again.PoplarExecutor):
        executor = kind(layer, options.clone(), training=False)
        torch.testing.assert_close(executor(x), layer(x).detach())


def test_version_can_be_parsed() -> None:
    assert tuple(map(int, poptorch.__version__.split("+")[0].split("."))) == (3, 4, 0)


def test_devices_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert poptorch.ipuHardwareIsAvailable()
    assert [poptorch.ipuHardwareIsAvailable(n) for n in (0, 64, 65)] == [False, True, False]
    assert poptorch.ipuHardwareVersion() == 2
    assert not uses_model(Options())
    assert uses_model(Options().useIpuModel(True))
    for name in ("POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL"):
        monkeypatch.setenv(name, "1")
        assert not poptorch.ipuHardwareIsAvailable()
        with pytest.raises(AssertionError, match=r"^No IPU hardware available on this system"):
            poptorch.ipuHardwareVersion()
        assert uses_model(Options())
        assert not uses_model(Options().useIpuModel(False))
        monkeypatch.setenv(name, "0")
        assert poptorch.ipuHardwareIsAvailable()


def test_devices_of_a_replica() -> None:
    assert devices_per_replica([0]) == 1
    assert devices_per_replica([2, 0, 2]) == 3
    with pytest.raises(poptorch.Error) as caught:
        devices_per_replica([])
    assert caught.value.message == (
        "Your compiled model is empty (All the operations have been optimised out)"
    )


def test_devices_are_powers_of_two(capsys: pytest.CaptureFixture[str]) -> None:
    poptorch.setLogLevel("WARN")
    hardware = Options().useIpuModel(False)
    assert [devices_to_reserve(n, hardware) for n in (1, 2, 4, 64)] == [1, 2, 4, 64]
    with pytest.raises(poptorch.Error) as caught:
        devices_to_reserve(3, hardware)
    assert caught.value.message == (
        "The model specifies the use of 3 IPUs, however PopTorch must reserve a minimum of 4 in "
        "order to allow the model to run, because PopTorch must reserve a power of 2 or maximum of "
        "64 IPUs per process. Please reconfigure your model to use a different number of IPUs or "
        "set poptorch.Options().autoRoundNumIPUs(True)."
    )
    assert devices_to_reserve(3, hardware.clone().autoRoundNumIPUs()) == 4
    assert "must reserve a minimum of 4" in capsys.readouterr().err
    assert devices_to_reserve(3, Options().useIpuModel(True)) == 3
    with pytest.raises(poptorch.Error, match=r"Too many IPUs requested \(65\)\. Experiments"):
        devices_to_reserve(65, hardware)
    offline = Options().useIpuModel(True).useOfflineIpuTarget()
    with pytest.raises(poptorch.Error) as caught:
        devices_to_reserve(1, offline)
    assert caught.value.message == (
        "ConnectionType.Never / poptorch.Options.useOfflineIpuTarget not supported for the IPU "
        "model"
    )
    assert devices_to_reserve(1, offline.clone().useIpuModel(False)) == 1


def test_compile_hooks() -> None:
    calls: list[str] = []
    first = poptorch.registerPreCompileHook(lambda: calls.append("pre 1"))
    second = poptorch.registerPreCompileHook(lambda: (calls.append("pre 2"), second.remove()))
    third = poptorch.registerPostCompileHook(lambda: calls.append("post"))
    for _ in range(2):
        _compile_hooks.call_pre_compile_hooks()
        _compile_hooks.call_post_compile_hooks()
    first.remove()
    third.remove()
    _compile_hooks.call_pre_compile_hooks()
    _compile_hooks.call_post_compile_hooks()
    assert calls == ["pre 1", "pre 2", "post", "pre 1", "post"]
    with pytest.raises(RuntimeError, match=r"^Pre-compile hook must be callable$"):
        poptorch.registerPreCompileHook(1)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"^Post-compile hook must be callable$"):
        poptorch.registerPostCompileHook(None)  # type: ignore[arg-type]


class Worker:
    def work(self, amount: int) -> int:
        return amount + 1

    def rest(self) -> str:
        return "rested"


def test_trace_points_do_nothing_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    for setting in (None, '{"enable":"true"}'):
        if setting is not None:
            monkeypatch.setenv("PVTI_OPTIONS", setting)
        channel = profiling.Channel("mine")
        assert channel.instrument(worker, "work") is worker
        assert "work" not in vars(worker)
        with channel.tracepoint("here"):
            assert worker.work(1) == 2
    with pytest.raises(AttributeError, match="no_such"):
        channel.instrument(worker, "no_such")


def test_trace_points_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str, str]] = []

    @contextlib.contextmanager
    def tracepoint(channel: str, name: str) -> Iterator[None]:
        seen.append(("begin", channel, name))
        yield
        seen.append(("end", channel, name))

    library = types.ModuleType("libpvti")
    vars(library).update(createTraceChannel=lambda name: f"<{name}>", Tracepoint=tracepoint)
    monkeypatch.setitem(sys.modules, "libpvti", library)
    for setting in (None, "", '{"enable":"false"}', '{"directory":"here"}', "[]"):
        monkeypatch.delenv("PVTI_OPTIONS", raising=False)
        if setting is not None:
            monkeypatch.setenv("PVTI_OPTIONS", setting)
        assert profiling.Channel("off").instrument(Worker(), "work").work(1) == 2
        assert seen == []
    monkeypatch.setenv("PVTI_OPTIONS", "enable")
    with pytest.raises(ValueError, match="PVTI_OPTIONS = 'enable' is no JSON"):
        profiling.Channel("unreadable")
    monkeypatch.setenv("PVTI_OPTIONS", '{"enable":"true"}')
    worker = profiling.Channel("mine").instrument(Worker(), "work", "rest")
    assert (worker.work(1), worker.rest()) == (2, "rested")
    with profiling.Channel("other").tracepoint("point"):
        pass
    assert seen == [
        (what, channel, name)
        for channel, name in [("<mine>", "work"), ("<mine>", "rest"), ("<other>", "point")]
        for what in ("begin", "end")
    ]


def test_allclose() -> None:
    one, two = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-7])
    other = torch.tensor([1.0, 3.0])
    assert allclose(one, two)
    assert not allclose(one, other)
    assert allclose((one, [two, one]), (two, [one, one]))
    assert not allclose((one, [two, other]), (two, [one, one]))
    assert not allclose((one, two), [one, two])
    assert not allclose((one, two), (one,))
    assert not allclose((one,), one)
    assert not allclose(one, (one,))
    assert not allclose([one, [two]], [one, two])


def test_geometric_parsers_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    from poptorch._import_effects import geometric_registration

    monkeypatch.setitem(sys.modules, "poptorch_geometric", None)
    assert geometric_registration() is None
    package = types.ModuleType("poptorch_geometric")
    monkeypatch.setitem(sys.modules, "poptorch_geometric", package)
    assert geometric_registration() is None
    vars(package)["registerCustomArgParsers"] = test_allclose
    assert geometric_registration() is test_allclose


def test_one_file_uses_private_names_of_torch() -> None:
    folder = Path(poptorch.__file__).parent
    private = re.compile(
        r"\btorch(\.\w+)*\._[a-zA-Z]|from torch[\w.]* import (\([^)]*|.*)\b_[a-zA-Z]"
    )
    users = [
        str(file.relative_to(folder))
        for file in sorted(folder.rglob("*.py"))
        if private.search(file.read_text())
    ]
    assert users == ["_private_torch.py"]


@pytest.mark.parametrize("version", ["2.12.1", "2.14.0+cpu", "2.130.0", "9"])
def test_an_unknown_torch_is_an_error_that_names_the_known_ones(version: str) -> None:
    program = f"import torch; torch.__version__ = {version!r}; import poptorch"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    expected = f"knows those of torch 2.13; torch {version} is installed. Install torch==2.13.0"
    assert done.stderr.strip().splitlines()[-1].endswith(expected), done.stderr
