"""What tests of poptorch share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from poptorch import _logging


@pytest.fixture(autouse=True)
def _messages_are_counted_anew() -> Iterator[None]:
    """The message of one test is not muted because another test made it too."""
    _logging._handler._counts.clear()
    yield
    _logging.set_repeat_limit(4)
