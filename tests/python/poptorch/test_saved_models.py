"""Files of compiled models."""

from __future__ import annotations

import errno
import pickle
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import poptorch
from poptorch import _saved_model
from poptorch.options import Options
from tests.python.poptorch.models import Scaled, WithLoss

ROOT = Path(__file__).parents[3]
X = torch.arange(8.0).reshape(2, 4) / 8
TARGET = torch.ones(2, 3)


@pytest.fixture(autouse=True)
def _same_random_numbers() -> Iterator[None]:
    torch.manual_seed(0)
    yield


def quiet() -> Options:
    return Options().showCompilationProgressBar(False)


def trained(options: Options | None = None) -> poptorch.PoplarExecutor:
    module = WithLoss()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return poptorch.trainingModel(module, options or quiet(), optimizer)


def test_training_goes_on_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "made" / "training.poptorch"
    model = trained(quiet().deviceIterations(2))
    data, targets = torch.randn(4, 4), torch.randn(4, 3)
    model(data, targets)
    model.save(str(file))
    _, loss = model(data, targets)
    torch.save((data, targets), tmp_path / "data.pt")
    code = f"""
import torch, poptorch
model = poptorch.load({str(file)!r})
assert model._executable.was_read and model.isAttachedToDevice()
data, targets = torch.load({str(tmp_path / "data.pt")!r})
y, loss = model(data, targets)
print(repr(loss.item()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == loss.item()


def test_compiled_offline_and_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "model.poptorch")
    options = quiet().useOfflineIpuTarget(2)
    model = poptorch.inferenceModel(Scaled(), options)
    model.compileAndExport(file, X)
    assert model.isCompiled() and not model.isAttachedToDevice()
    loaded = poptorch.load(file)
    assert loaded.options.connection_type == poptorch.ConnectionType.Always
    assert loaded.options.offline_ipu_version is None
    assert loaded._executable.was_read
    assert torch.equal(loaded(X), Scaled()(X))
    with torch.no_grad():
        loaded.model.weight.fill_(7.0)
    loaded.copyWeightsToDevice()
    assert torch.equal(loaded(X), X * 21 + 1)
    assert capsys.readouterr().err == ""


def test_only_options_of_the_run_can_be_edited(tmp_path: Path) -> None:
    file = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(Scaled(), quiet()).compileAndExport(file, X)

    def edit(options: Options) -> None:
        options.useIpuId(1).connectionType(poptorch.ConnectionType.OnDemand)
        options.deviceIterations(2).logDir("elsewhere")

    loaded = poptorch.load(file, edit_opts_fn=edit)
    assert (loaded.options.ipu_id, loaded.options.log_dir) == (1, "elsewhere")
    assert loaded.options.device_iterations == 1
    assert not loaded.isAttachedToDevice()
    assert torch.equal(loaded(X), Scaled()(X))


def test_a_loaded_model_has_a_device_whatever_was_stored(tmp_path: Path) -> None:
    file = str(tmp_path / "model.poptorch")
    never = poptorch.ConnectionType.Never
    poptorch.inferenceModel(Scaled(), quiet().connectionType(never)).compileAndExport(file, X)
    seen = []

    def edit(options: Options) -> None:
        seen.append(options.connection_type)
        options.connectionType(never)

    loaded = poptorch.load(file, edit_opts_fn=edit)
    assert seen == [never]
    assert loaded.options.connection_type == poptorch.ConnectionType.Always
    assert torch.equal(loaded(X), Scaled()(X))


def test_devices_are_taken_as_options_of_the_wrapper_say(tmp_path: Path) -> None:
    file = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(Scaled(), quiet()).compileAndExport(file, X)
    options = quiet().connectionType(poptorch.ConnectionType.OnDemand)
    model = poptorch.inferenceModel(Scaled(), options)
    model.loadExecutable(file)
    assert model.isCompiled() and not model.isAttachedToDevice()
    assert torch.equal(model(X), Scaled()(X))


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "torch's SGD": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "torch's Adam": lambda weights: torch.optim.Adam(weights, lr=0.1),
    "SGD": lambda weights: poptorch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "AdamW": lambda weights: poptorch.optim.AdamW(weights, lr=0.1),
}


def losses_of_torch(make: Callable[..., torch.optim.Optimizer], steps: int) -> list[float]:
    module = WithLoss()
    optimizer, losses = make(module.parameters()), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = module(X, TARGET)[1]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("way", ["saved", "destroyed", "detached and destroyed"])
def test_training_goes_on_with_the_state_of_the_optimizer(
    tmp_path: Path, name: str, way: str
) -> None:
    wanted = losses_of_torch(OPTIMIZERS[name], 6)
    torch.manual_seed(0)
    module = WithLoss()
    optimizer = OPTIMIZERS[name](module.parameters())
    model = poptorch.trainingModel(module, quiet(), optimizer)
    for step in range(3):
        assert float(model(X, TARGET)[1]) == pytest.approx(wanted[step], rel=1e-4)
    if way == "saved":
        model.save(str(tmp_path / "model.poptorch"))
        model = poptorch.load(str(tmp_path / "model.poptorch"))
    else:
        if way.startswith("detached"):
            model.detachFromDevice()
        model.destroy()
        model = poptorch.trainingModel(module, quiet(), optimizer)
    for step in range(3, 6):
        assert float(model(X, TARGET)[1]) == pytest.approx(wanted[step], rel=1e-4)


def test_random_numbers_go_on_in_a_loaded_model(tmp_path: Path) -> None:
    file, ones = str(tmp_path / "model.poptorch"), torch.ones(2, 32)
    model = poptorch.inferenceModel(torch.nn.Dropout(0.5).train(), quiet().randomSeed(3))
    first = model(ones)
    model.save(file)
    second = model(ones)
    assert not torch.equal(first, second)
    assert torch.equal(poptorch.load(file)(ones), second)


def test_the_executable_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "model.poptorch")

    class NotPicklable(Scaled):
        pass

    poptorch.inferenceModel(NotPicklable(), quiet()).compileAndExport(file, X, export_model=False)
    with pytest.raises(AssertionError) as caught:
        poptorch.load(file)
    assert "created with 'export_model=False'" in str(caught.value)
    assert "loadExecutable" in str(caught.value)
    module = Scaled()
    with torch.no_grad():
        module.weight.fill_(5.0)
    model = poptorch.inferenceModel(module, quiet())
    model.loadExecutable(file)
    assert model._executable.was_read and model.isAttachedToDevice()
    assert torch.equal(model(X), X * 15 + 1)
    with pytest.raises(poptorch.Error, match="compiled already"):
        model.loadExecutable(file)
    assert capsys.readouterr().err == ""
    other = poptorch.inferenceModel(torch.nn.ReLU(), quiet())
    other.loadExecutable(file)
    assert "is of another program, machine or version of Pando" in capsys.readouterr().err
    assert torch.equal(other(X - 0.5), torch.relu(X - 0.5))


def test_a_module_that_cannot_be_pickled_leaves_no_file(tmp_path: Path) -> None:
    class Local(Scaled):
        pass

    file = tmp_path / "model.poptorch"
    with pytest.raises((pickle.PicklingError, AttributeError)):
        poptorch.inferenceModel(Local(), quiet()).compileAndExport(str(file), X)
    assert list(tmp_path.iterdir()) == []


def test_validation_can_be_connected_to_a_loaded_model(tmp_path: Path) -> None:
    model = trained()
    model.compileAndExport(str(tmp_path / "training.poptorch"), X, TARGET)
    model.model.eval()
    validation = poptorch.inferenceModel(model)
    validation.compileAndExport(str(tmp_path / "validation.poptorch"), X)
    del validation
    model.destroy()
    training = poptorch.load(str(tmp_path / "training.poptorch"))
    validation = poptorch.inferenceModel(training)
    validation.model.eval()
    validation.loadExecutable(str(tmp_path / "validation.poptorch"))
    for _ in range(3):
        training(X, TARGET)
        weight, bias = training.model.fc.weight.detach(), training.model.fc.bias.detach()
        torch.testing.assert_close(validation(X), X @ weight.T + bias)


def test_places_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = poptorch.inferenceModel(Scaled(), quiet())
    with pytest.raises(poptorch.Error, match="Model has not been compiled or has been destroyed"):
        model.save(str(tmp_path / "a.poptorch"))
    model(X)
    model.save(str(tmp_path))
    assert (tmp_path / "model.poptorch").exists()
    assert "is a directory" in capsys.readouterr().err
    with pytest.raises(AssertionError, match="is not a directory"):
        model.save(str(tmp_path / "model.poptorch" / "b" / "c.poptorch"))
    assert torch.equal(poptorch.load(str(tmp_path / "model.poptorch"))(X), Scaled()(X))


def test_what_a_file_has_beside_the_executable(tmp_path: Path) -> None:
    file = str(tmp_path / "model.poptorch")
    model = trained(quiet().randomSeed(3))
    model(X, target=TARGET)
    model.save(file, save_rng_state=False)
    metadata = poptorch.importPoptorchMetadataFromFile(file)
    assert metadata.version == poptorch.__version__
    assert metadata.training and metadata.rng_state is None
    assert type(metadata.model) is WithLoss
    assert type(metadata.model.fc.weight) is torch.nn.Parameter
    assert torch.equal(metadata.model.fc.weight, model.fc.weight)
    assert metadata.optimizer is not None
    parameters = list(metadata.model.parameters())
    assert metadata.optimizer.param_groups[0]["params"][0] is parameters[0]
    model.save(file)
    assert poptorch.importPoptorchMetadataFromFile(file).rng_state == model.rng_state


def test_other_versions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(Scaled(), quiet()).compileAndExport(file, X)
    monkeypatch.setattr(_saved_model, "__version__", "9.9")
    text = (
        f"Invalid file {file}: PopTorch version mismatch: File was created with version: "
        f"{poptorch.__version__} and this is version 9.9"
    )
    with pytest.raises(AssertionError) as caught:
        poptorch.load(file)
    assert str(caught.value) == text
    with pytest.raises(poptorch.Error) as error:
        poptorch.inferenceModel(Scaled(), quiet()).loadExecutable(file)
    assert error.value.message == text


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.poptorch"
    poptorch.inferenceModel(Scaled(), quiet()).compileAndExport(str(file), X)
    content = file.read_bytes()
    (length,) = struct.unpack_from("<Q", content, 16)
    damaged: dict[str, bytes] = {
        "wanted one that": b"something else" * 10,
        "it ends after": content[: length // 2],
        "it is cut off or damaged: EOFError": content[: 24 + length],
        "it is cut off or damaged: RuntimeError": content[: 24 + length + 50],
        "it is cut off or damaged": content[:-1],
        "it is cut off or damaged: .*": content[: 24 + length] + bytes(range(160, 256)) * 4,
        "Invalid file": content[:-100],
        "it holds a": content[: 24 + length] + pickle.dumps([1]),
    }
    for text, bytes_ in damaged.items():
        file.write_bytes(bytes_)
        with pytest.raises(poptorch.Error, match=text):
            poptorch.load(str(file))
    with pytest.raises(FileNotFoundError):
        poptorch.load(str(tmp_path / "nothing"))


def test_an_executable_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import popxl

    sessions: list[Any] = []
    make = popxl.Session

    def count(*args: Any, **kwargs: Any) -> Any:
        sessions.append(args)
        return make(*args, **kwargs)

    monkeypatch.setattr(popxl, "Session", count)
    model = poptorch.inferenceModel(Scaled(), quiet())
    model.compileAndExport(str(tmp_path / "a"), X)
    model.save(str(tmp_path / "b"))
    assert len(sessions) == 1


def test_arguments_for_a_compiled_model_are_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = poptorch.inferenceModel(Scaled(), quiet())
    model.compile(X)
    model.compileAndExport(str(tmp_path / "a"), torch.ones(7, 4))
    assert "the executable is already compiled" in capsys.readouterr().err
    assert torch.equal(poptorch.load(str(tmp_path / "a"))(X), Scaled()(X))


def test_no_space_for_temporary_files(tmp_path: Path) -> None:
    """The limit of the size of a file stands for a full disk."""
    code = f"""
import resource, signal, torch, poptorch
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
model = poptorch.inferenceModel(torch.nn.ReLU())
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    model.compileAndExport({str(tmp_path / "model.poptorch")!r}, torch.ones(2))
except poptorch.Error as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert f"make space in {tempfile.gettempdir()}, or name another folder" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("event", ["disk", "Ctrl-C"])
def test_a_file_that_cannot_be_written_leaves_the_one_before(
    event: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the weights are being written."""
    file = tmp_path / "model.poptorch"
    model = poptorch.inferenceModel(torch.nn.Linear(300, 300), quiet())
    model.compileAndExport(str(file), torch.ones(1, 300))
    before = file.read_bytes()
    raised = OSError(errno.ENOSPC, "No space left on device") if event == "disk" else None

    class Full:
        def __init__(self, real: Any) -> None:
            self.real, self.left = real, 200_000  # of 360,000

        def write(self, data: Any) -> Any:
            self.left -= len(data)
            if self.left > 0:
                return self.real.write(data)
            raise raised or KeyboardInterrupt

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    save = torch.save
    monkeypatch.setattr(torch, "save", lambda what, to, **more: save(what, Full(to), **more))
    with pytest.raises(OSError if raised else KeyboardInterrupt) as error:
        model.save(str(file))
    assert raised is None or error.value is raised
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_bytes() == before
