"""Ctrl-C, and disks that are full, at the worst places: a module is plain torch afterwards."""

from __future__ import annotations

import gc
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import poptorch
import popxl
from poptorch import _executor_weights
from poptorch._executable import Executable
from poptorch._optimizer_device import DeviceOptimizer
from poptorch._program_variables import ProgramVariables
from tests.python.poptorch.models import WithLoss
from tests.python.poptorch.phased import options_of

X = torch.linspace(-1, 1, 16).reshape(4, 4)
TARGET = torch.linspace(1, 2, 12).reshape(4, 3)


class Watched(nn.Module):
    """Ctrl-C comes while a parameter is put back after the trace."""

    def __init__(self) -> None:
        super().__init__()
        self.is_armed = False
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 2.0))
        self.shift = nn.Parameter(torch.ones(4))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "scale" and self.is_armed and value.device.type == "cpu":
            signal.raise_signal(signal.SIGINT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_armed:
            signal.raise_signal(signal.SIGINT)
        result: torch.Tensor = self.fc(x) * self.scale + self.shift
        return result


def test_parameters_are_put_back_whatever_comes() -> None:
    model = Watched()
    weights = dict(model.named_parameters())
    executor = poptorch.inferenceModel(model)
    model.is_armed = executor.model.is_armed = True
    with pytest.raises(KeyboardInterrupt):
        executor(X)
    model.is_armed = executor.model.is_armed = False
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert all(weights[name] is one for name, one in model.named_parameters())
    torch.testing.assert_close(executor(X), model(X).detach())


class Pair:
    """A model that is trained, and the same in plain torch."""

    def __init__(self, options: poptorch.Options | None = None, momentum: float = 0.9) -> None:
        self.model, self.reference = WithLoss(), WithLoss()
        self.reference.load_state_dict(self.model.state_dict())
        self.optimizer = torch.optim.SGD(self.reference.parameters(), lr=0.1, momentum=momentum)
        self.executor = poptorch.trainingModel(
            self.model,
            options,
            torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=momentum),
        )

    def step(self) -> None:
        """Makes a step of both, with the same loss."""
        self.optimizer.zero_grad()
        loss = self.reference(X, TARGET)[1]
        loss.backward()
        self.optimizer.step()
        torch.testing.assert_close(self.executor(X, TARGET)[1], loss.detach())

    def check(self) -> None:
        """The weights of both are the same."""
        state = self.model.state_dict()
        for name, value in self.reference.state_dict().items():
            torch.testing.assert_close(state[name], value)


def once(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: type[Exception] | None
) -> None:
    """Lets the next call of a method end by an error, or by Ctrl-C where that is None."""
    method = getattr(owner, name)

    def fails(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(owner, name, method)
        if error is not None:
            raise error("No space left on device")
        signal.raise_signal(signal.SIGINT)
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, fails)


def fails(action: Callable[[], object]) -> None:
    with pytest.raises((KeyboardInterrupt, OSError)):
        action()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


ERRORS = [None, OSError]
ATTACHING = [
    (popxl.Session, "__enter__"),
    (ProgramVariables, "attached"),
    (Executable, "write"),
    (DeviceOptimizer, "attached"),
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("owner", "name"), ATTACHING)
def test_an_attachment_that_fails_is_made_again(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: type[Exception] | None
) -> None:
    check_attachments(Pair(), monkeypatch, owner, name, error)


@pytest.mark.parametrize(("owner", "name"), ATTACHING)
def test_an_attachment_that_fails_in_phases_is_made_again(
    in_phases: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    pair = Pair(options_of(tmp_path, blocks=["fc"]))
    check_attachments(pair, monkeypatch, owner, name, OSError)
    assert pair.executor.fitPlan().phases > 0


def check_attachments(
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    error: type[Exception] | None,
) -> None:
    pair.executor.compile(X, TARGET)
    pair.executor.detachFromDevice()
    for _ in range(2):
        once(monkeypatch, owner, name, error)
        fails(lambda: pair.executor(X, TARGET))
        pair.check()
        pair.executor.copyWeightsToHost()
        pair.check()
        pair.step()
        pair.step()
        pair.executor.detachFromDevice()
    pair.check()


@pytest.mark.parametrize("error", ERRORS)
def test_an_upload_that_fails_in_inference_is_made_again(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception] | None
) -> None:
    model = WithLoss()
    executor = poptorch.inferenceModel(model)
    once(monkeypatch, Executable, "write", error)
    fails(lambda: executor(X))
    torch.testing.assert_close(executor(X), model(X).detach())
    with torch.no_grad():
        model.fc.weight.mul_(2)
    once(monkeypatch, Executable, "write", error)
    fails(executor.copyWeightsToDevice)
    executor.copyWeightsToHost()
    torch.testing.assert_close(executor(X), model(X).detach())


READING = [
    (owner, name, action, error)
    for owner, name in ((Executable, "read"), (_executor_weights, "_take"))
    for action in ("state_dict", "detachFromDevice", "destroy")
    for error in ERRORS
]
GIVING_UP = [(popxl.Session, "__exit__"), (DeviceOptimizer, "destroyed")]
GIVEN_UP = [
    (*GIVING_UP[0], "detachFromDevice", None),
    (*GIVING_UP[0], "destroy", None),
    (*GIVING_UP[1], "destroy", None),
]


@pytest.mark.parametrize(("owner", "name", "action", "error"), [*READING, *GIVEN_UP])
def test_weights_whose_reading_fails_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    action: str,
    error: type[Exception] | None,
) -> None:
    pair = Pair()
    pair.step()
    perform = getattr(pair.model if action == "state_dict" else pair.executor, action)
    once(monkeypatch, owner, name, error)
    fails(perform)
    if (owner, name) in GIVING_UP:
        # Ctrl-C waited for the end.
        assert not pair.executor.isAttachedToDevice()
    else:
        perform()
    assert isinstance(pair.model, WithLoss)
    assert (type(pair.model) is WithLoss) == (action == "destroy")
    pair.check()
    if action != "destroy":
        pair.step()
        pair.check()


@contextmanager
def full_disk() -> Iterator[None]:
    """Files of more than a few bytes cannot be written, as on a disk without room."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("action", ["state_dict", "detachFromDevice", "destroy"])
def test_a_disk_that_is_full_when_phases_are_read_loses_no_weights(
    in_phases: None, tmp_path: Path, action: str
) -> None:
    pair = Pair(options_of(tmp_path, blocks=["fc"]))
    pair.step()
    perform = getattr(pair.model if action == "state_dict" else pair.executor, action)
    with full_disk():
        fails(perform)
    perform()
    pair.check()
    if action != "destroy":
        pair.step()
        pair.check()


# That of Ctrl-C, which Python passes over there.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_weights_are_read_when_an_executor_goes_whatever_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair()
    pair.step()
    once(monkeypatch, Executable, "read", None)
    del pair.executor
    gc.collect()
    pair.check()


def test_an_optimizer_is_followed_after_ctrl_c_at_the_end_of_the_compilation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(momentum=0.0)
    once(monkeypatch, DeviceOptimizer, "compiled", None)
    fails(lambda: pair.executor(X, TARGET))
    assert pair.executor.isCompiled()
    pair.step()
    pair.executor.setOptimizer(torch.optim.SGD(pair.model.parameters(), lr=0.0))
    pair.executor(X, TARGET)
    pair.check()


@pytest.mark.parametrize("action", ["detachFromDevice", "destroy"])
def test_a_profile_that_cannot_be_written_is_a_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], action: str
) -> None:
    (tmp_path / "file").touch()
    pair = Pair(poptorch.Options().enableProfiling(tmp_path / "file"))
    pair.step()
    getattr(pair.executor, action)()
    assert "The profile cannot be written" in capfd.readouterr().err
    assert not pair.executor.isAttachedToDevice()
    pair.check()
    if action == "destroy":
        assert type(pair.model) is WithLoss
