"""Errors: their classes, texts and attributes; casts and hooks of the tracer's interface."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

import popart
import poptorch
from poptorch import _impl, poptorch_core
from poptorch._errors import native_error
from poptorch._native_errors import NativeErrors

Samples = poptorch_core.TestErrorType


def test_classes() -> None:
    for name in ("Error", "RecoverableError", "UnrecoverableError"):
        one = getattr(poptorch, name)
        assert one is getattr(poptorch_core, name)
        assert issubclass(one, poptorch.Error)
        assert f"{one.__module__}.{one.__name__}" == f"poptorch.poptorch_core.{name}"
    error = poptorch.Error("text")
    assert (str(error), error.message, error.type, error.location) == ("text", "text", "", "")


def test_errors_of_this_package() -> None:
    error = poptorch.createPoptorchError("what is wrong")
    assert str(error) == "'poptorch_py_error': what is wrong"
    assert error.message == "what is wrong"
    assert (error.type, error.location) == ("poptorch_py_error", "")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.message) == (poptorch.Error, str(error), error.message)


@pytest.mark.parametrize(
    ("kind", "name", "error_class", "action"),
    [
        (Samples.Poptorch, "poptorch_cpp_error", poptorch.Error, None),
        (Samples.Popart, "popart_exception", poptorch.Error, None),
        (Samples.PopartInternal, "popart_internal_exception", poptorch.Error, None),
        (Samples.Poplibs, "poplibs_exception", poptorch.Error, None),
        (Samples.PoplarLink, "poplar_link_error", poptorch.Error, None),
        (Samples.StdException, "std::exception", poptorch.Error, None),
        (Samples.StdOutOfRange, "std::out_of_range", poptorch.Error, None),
        (
            Samples.PoplarUnrecoverable,
            "poplar_unrecoverable_runtime_error",
            poptorch.UnrecoverableError,
            None,
        ),
        *[
            (kind, "poplar_recoverable_runtime_error", poptorch.RecoverableError, action)
            for kind, action in [
                (Samples.PoplarRecoverableIpuReset, "IPU_RESET"),
                (Samples.PoplarRecoverablePartitionReset, "PARTITION_RESET"),
                (Samples.PoplarRecoverableFullReset, "FULL_RESET"),
            ]
        ],
    ],
)
def test_samples(
    kind: poptorch_core.TestErrorType,
    name: str,
    error_class: type[poptorch.Error],
    action: str | None,
) -> None:
    with pytest.raises(poptorch.Error) as caught:
        poptorch_core._throwTestError(kind)
    error = caught.value
    assert type(error) is error_class
    assert error.type == name
    assert error.message == "This is a test error"
    lines = str(error).splitlines()
    assert lines[0] == f"In poptorch_core:1: '{name}': This is a test error"
    if action is not None:
        assert isinstance(error, poptorch.RecoverableError)
        assert error.recovery_action == action
        assert lines.pop(1) == f"Recovery action required: {action}"
    assert lines[1:] == ["Error raised in:", "  [0] _throwTestError"]
    assert error.location == "  [0] _throwTestError"


def test_long_messages_are_cut(tmp_path: Path) -> None:
    short = "\n".join(f"line {number}" for number in range(80))
    assert str(native_error(short, "popart_exception", "a.py:1", [])).endswith(short)
    long = f"{short}\nline 80"
    folder = tmp_path / "logs"
    error = native_error(long, "popart_exception", "a.py:1", ["step"], log_folder=folder)
    lines = str(error).splitlines()
    assert lines[79:] == [
        "line 79",
        "See poptorch_error.log for details",
        "Error raised in:",
        "  [0] step",
    ]
    assert error.message == long
    assert (folder / "poptorch_error.log").read_text() == f"{long}\n"
    (tmp_path / "file").write_text("")
    error = native_error(long, "popart_exception", "a.py:1", [], log_folder=tmp_path / "file")
    assert "The other 1 lines could not be written: " in str(error)


@pytest.mark.parametrize(
    ("given", "kind", "error_class"),
    [
        (popart.popart_exception, "popart_exception", poptorch.Error),
        (popart.popart_internal_exception, "popart_internal_exception", poptorch.Error),
        (popart.OutOfMemoryException, "popart_exception", poptorch.Error),
        (popart.poplibs_exception, "poplibs_exception", poptorch.Error),
        (popart.poplar_application_runtime_error, "popart_exception", poptorch.Error),
        (
            popart.poplar_recoverable_runtime_error,
            "poplar_recoverable_runtime_error",
            poptorch.RecoverableError,
        ),
        (
            popart.poplar_unrecoverable_runtime_error,
            "poplar_unrecoverable_runtime_error",
            poptorch.UnrecoverableError,
        ),
    ],
)
def test_failures_below(
    given: type[Exception], kind: str, error_class: type[poptorch.Error]
) -> None:
    with pytest.raises(poptorch.Error) as caught, NativeErrors("run", "PoplarExecutor.__call__"):
        raise given("it failed")
    error = caught.value
    assert type(error) is error_class
    assert (error.type, error.message) == (kind, "it failed")
    assert error.location == "  [0] run\n  [1] PoplarExecutor.__call__"
    assert str(error).startswith("In test_errors.py:")
    assert type(error.__cause__) is given


def test_other_exceptions_stay_as_they_are() -> None:
    with pytest.raises(ValueError, match="of the user"), NativeErrors("run"):
        raise ValueError("of the user")


def test_casts_outside_of_traces() -> None:
    with pytest.raises(ValueError) as caught:
        _impl.internal_cast(torch.ones(2), torch.int32)
    assert str(caught.value).startswith(
        "Invalid poptorch.cast target type. Expecting torch.float or torch.half"
    )


def test_tracing_flag() -> None:
    assert not _impl.isDispatchTracing()
    _impl.set_dispatch_tracing(True)
    try:
        assert _impl.isDispatchTracing()
        assert poptorch.isRunningOnIpu()
        assert poptorch_core.isCompilingWithDispatcher()
    finally:
        _impl.set_dispatch_tracing(False)
    assert not poptorch.isRunningOnIpu()


def test_substitution_managers(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class First:
        def replace(self) -> None:
            calls.append("replace 1")

        def restore(self) -> None:
            calls.append("restore 1")
            raise KeyError("one fails")

    class Second:
        def replace(self) -> None:
            calls.append("replace 2")

        def restore(self) -> None:
            calls.append("restore 2")

    class Failing(First):
        def replace(self) -> None:
            raise ValueError("cannot")

    manager = poptorch._OverwriteContextManager
    monkeypatch.setattr(manager, "_manager_types", [])
    manager.registerSubsitutionManager(Second)
    manager.registerSubsitutionManager(First)
    with pytest.raises(KeyError, match="one fails"), manager():
        calls.append("traced")
    assert calls == ["replace 2", "replace 1", "traced", "restore 1", "restore 2"]
    calls.clear()
    manager._manager_types.pop()
    manager.registerSubsitutionManager(Failing)
    with pytest.raises(ValueError, match="cannot"), manager():
        calls.append("traced")
    assert calls == ["replace 2", "restore 2"]
    for bad in (object, Second(), None):
        with pytest.raises(TypeError, match="replace\\(\\) and restore\\(\\)"):
            manager.registerSubsitutionManager(bad)  # type: ignore[arg-type]
