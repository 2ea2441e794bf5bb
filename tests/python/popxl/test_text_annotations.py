"""Graphs of functions whose annotations are text, as this import makes all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import popxl
from popxl import ops

if TYPE_CHECKING:
    from collections.abc import Sequence


def increment(x: popxl.TensorByRef, by: float, names: Sequence[str]) -> None:
    del names
    ops.var_updates.accumulate_(x, popxl.constant(by))


def test_tensors_by_reference_are_found_and_other_names_left_alone() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32(1.0))
        graph = ir.create_graph(increment, x, 2.0, ["a"])
        ops.call(graph, x)
    with popxl.Session(ir, "cpu") as session:
        session.run()
    assert session.get_tensor_data(x) == 3.0


def test_an_annotation_that_cannot_be_evaluated_is_named() -> None:
    def build(x: elsewhere.TensorByRef) -> None:  # type: ignore[name-defined] # noqa: F821
        ops.add_(x, x)

    ir = popxl.Ir()
    with (
        ir.main_graph,
        pytest.raises(TypeError, match=r"'elsewhere\.TensorByRef' of 'x'"),
    ):
        ir.create_graph(build, popxl.variable(np.float32(1.0)))
