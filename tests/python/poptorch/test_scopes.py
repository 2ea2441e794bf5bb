"""Contexts: name scopes, hints and multi-convolutions."""

from __future__ import annotations

import pytest
import torch

import poptorch
from tests.python.poptorch.marks import recorded


def test_name_scopes_nest():
    with recorded() as calls, poptorch.NameScope("a"), poptorch.NameScope("b"):
        pass
    assert calls == [
        ("push_name_scope", ("a",)),
        ("push_name_scope", ("b",)),
        ("pop_name_scope", ()),
        ("pop_name_scope", ()),
    ]


def test_a_name_scope_needs_a_string():
    with pytest.raises(AssertionError, match="name must be a string; given 3"):
        poptorch.NameScope(3)


def test_hints_are_restored_or_cleared():
    outer = poptorch.Attribute(__outline={"layer": "a", "kept": "b"})
    inner = poptorch.Attribute(__outline={"layer": "c"}, other={"x": "y"})
    with recorded() as calls, outer, inner:
        pass
    assert calls == [
        ("set_attribute", ("__outline", "layer", "a")),
        ("set_attribute", ("__outline", "kept", "b")),
        ("set_attribute", ("__outline", "layer", "c")),
        ("set_attribute", ("other", "x", "y")),
        ("set_attribute", ("__outline", "layer", "a")),
        ("clear_attribute", ("other", "x")),
        ("clear_attribute", ("__outline", "layer")),
        ("clear_attribute", ("__outline", "kept")),
    ]


@pytest.mark.parametrize("values", ["text", {"a": 1}, {1: "a"}])
def test_hints_are_dictionaries_of_strings(values):
    with pytest.raises(TypeError, match="wanted a dictionary from str to str for group"):
        poptorch.Attribute(group=values)


def test_a_multi_conv_records_its_settings():
    multi_conv = (
        poptorch.MultiConv()
        .availableMemoryProportions((0.25, 0.5))
        .partialsTypes(torch.half)
        .planType(poptorch.MultiConvPlanType.Serial)
        .perConvReservedTiles(100)
        .cycleBackOff(0.1)
        .enableConvDithering([True, False])
    )
    with recorded() as calls, multi_conv:
        pass
    with recorded() as plain_calls, poptorch.MultiConv():
        pass
    assert calls == [
        ("begin_multi_conv", ()),
        ("end_multi_conv", ([0.25, 0.5], [1], 1, 100, 0.1, [1, 0])),
    ]
    assert plain_calls[1] == ("end_multi_conv", (None, None, None, None, None, None))


def test_multi_convs_do_not_nest():
    with (
        recorded() as calls,
        pytest.raises(poptorch.Error, match=r"Nested poptorch.MultiConv is not supported"),
        poptorch.MultiConv(),
        poptorch.MultiConv(),
    ):
        pass
    assert [name for name, _ in calls] == ["begin_multi_conv", "end_multi_conv"]
    with recorded(), poptorch.MultiConv():
        pass


@pytest.mark.parametrize(
    ("setter", "value", "error", "text"),
    [
        ("availableMemoryProportions", "0.5", AssertionError, "available memory proportion!"),
        ("availableMemoryProportions", (0.5, 2.0), AssertionError, "available memory proportion!"),
        ("partialsTypes", torch.int32, ValueError, "Invalid partials types. Expecting torch.float"),
        ("partialsTypes", (torch.half, 3), ValueError, "Invalid partials types."),
        ("planType", 1, AssertionError, "Invalid plan type!"),
        ("perConvReservedTiles", 1.5, AssertionError, "given 1.5"),
        ("cycleBackOff", "a", AssertionError, "given 'a'"),
        ("enableConvDithering", 1, ValueError, "value must be bool or list of bools"),
        ("enableConvDithering", [True, 0], ValueError, "value must be bool or list of bools"),
    ],
)
def test_settings_of_multi_convs_are_checked(setter, value, error, text):
    with pytest.raises(error, match=text):
        getattr(poptorch.MultiConv(), setter)(value)


def test_outside_of_a_trace_contexts_do_nothing():
    with (
        poptorch.NameScope("a"),
        poptorch.Attribute(group={"key": "value"}),
        poptorch.MultiConv(),
        poptorch.MultiConv(),
    ):
        assert torch.ones(1) + 1 == 2
