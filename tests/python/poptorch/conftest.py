"""What tests of poptorch share."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from poptorch import _compilation, _logging
from poptorch._accessor import AsynchronousDataAccessor


@pytest.fixture(autouse=True)
def _messages_are_counted_anew() -> Iterator[None]:
    """The message of one test is not muted because another test made it too."""
    _logging._handler._counts.clear()
    yield
    _logging.set_repeat_limit(4)


@pytest.fixture(scope="module")
def quick_processes() -> None:
    """The server imports what each of its processes needs, once."""
    multiprocessing.set_forkserver_preload(["tests.python.poptorch.loader_data"])


@pytest.fixture
def accessor(quick_processes: None) -> Iterator[Callable[..., AsynchronousDataAccessor]]:
    """Makes accessors, which end with the test; nothing may be left of them."""
    made = []

    def make(dataset: Any, **arguments: Any) -> AsynchronousDataAccessor:
        made.append(AsynchronousDataAccessor(dataset, **arguments))
        return made[-1]

    yield make
    for one in made:
        one.terminate()
    assert multiprocessing.active_children() == []


@pytest.fixture
def in_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are in phases although they would fit."""
    monkeypatch.setattr(_compilation, "may_be_whole", lambda *_: False)
