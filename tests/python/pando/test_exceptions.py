"""The types that Python sees of errors of the core."""

from __future__ import annotations

import builtins

import pytest

import popart
import popxl
from pando import _core


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("popart_exception", "Exception"),
        ("popart_internal_exception", "popart_exception"),
        ("popart_runtime_error", "popart_exception"),
        ("OutOfMemoryException", "popart_exception"),
        ("poplar_exception", "Exception"),
        ("poplar_runtime_error", "poplar_exception"),
        ("poplar_application_runtime_error", "poplar_runtime_error"),
    ],
)
def test_types_of_this_module(name: str, base: str) -> None:
    made = getattr(_core, name)
    assert made.__bases__ == (getattr(_core, base, None) or getattr(builtins, base),)
    assert (made.__module__, made.__name__) == ("pando._core", name)


def test_a_name_that_nothing_has() -> None:
    graph = popxl.Ir().main_graph._pb_graph._pb
    with pytest.raises(popart.popart_exception, match="there is no op kind called 'Nothing'") as at:
        graph.create_op("Nothing", [], {}, _core.OpContext(), [], [])
    assert type(at.value) is _core.popart_exception
