"""What custom ops import: checks, conversions and the names of options."""

from typing import get_args

import numpy as np
import pytest

import popart._internal.ir as _ir
import popxl
from popxl import ops
from popxl.errors import UndefinedValue
from popxl.ops.code_copy import code_copy
from popxl.ops.collectives.collectives import OP_MAP, CollectiveOps, to_collective_op
from popxl.ops.utils import (
    cast_if_needed,
    check_in_graph,
    check_tensor_ipu_and_tile_set,
    convert_optional_dtype,
    convert_optional_float,
    convert_optional_int,
    convert_optional_int64_list,
    handle_negative_axis,
)
from tests.python.popxl.ops.op_testing import outputs, random


def test_cast_if_needed():
    ir = popxl.Ir()
    with ir.main_graph as main:
        t = popxl.variable(np.ones(2, np.float32))
        assert cast_if_needed(t, popxl.float32) is t
        assert main._pb_graph.getOps() == []
        other = cast_if_needed(t, popxl.float16)
        assert (other.dtype, other.name) == (popxl.float16, f"{t.name}_float16")
        assert [op.opType() for op in main._pb_graph.getOps()] == ["Cast"]
    x = random(3)
    (given,) = outputs(lambda t: cast_if_needed(t, popxl.float16), x)
    np.testing.assert_array_equal(given, x.astype(np.float16))


def test_check_in_graph():
    ir = popxl.Ir()
    graph = ir.create_empty_graph()
    with graph:
        inside = popxl.graph_input((), popxl.float32, "inside")
    with ir.main_graph:
        outside = popxl.variable(1.0, name="outside")
    check_in_graph(graph)
    check_in_graph(graph, a=inside, b=inside)
    with pytest.raises(ValueError, match="`b`"):
        check_in_graph(graph, a=inside, b=outside)
    with pytest.raises(TypeError, match="`b`"):
        check_in_graph(graph, a=inside, b=1.0)
    with pytest.raises(Exception, match="by name"):
        check_in_graph(graph, inside)


def test_check_tensor_ipu_and_tile_set():
    with popxl.Ir().main_graph:
        unknown = popxl.variable(1.0)
        with popxl.ipu(0):
            first = popxl.variable(1.0) + 1
        with popxl.ipu(1):
            second = popxl.variable(1.0) + 1
        with popxl.io_tiles():
            io = popxl.variable(1.0) + 1
        with pytest.raises(UndefinedValue):
            unknown.ipu  # noqa: B018
        check_tensor_ipu_and_tile_set(a=first, b=unknown)
        check_tensor_ipu_and_tile_set(a=second, b=unknown, c=second)
        with pytest.raises(ValueError, match=r"`a` and `c` .* different IPUs: 0 != 1"):
            check_tensor_ipu_and_tile_set(a=first, b=unknown, c=second)
        with pytest.raises(ValueError, match="tile sets: compute != io"):
            check_tensor_ipu_and_tile_set(a=first, b=io)
        with pytest.raises(ValueError, match="different IPUs"):
            first + second
        check_tensor_ipu_and_tile_set(a=first, b=second.copy_to_ipu(0))
        check_tensor_ipu_and_tile_set(a=first, b=ops.io_tile_copy(io))


def test_handle_negative_axis():
    with popxl.Ir().main_graph:
        t = popxl.variable(np.ones((2, 3, 4)))
        assert [handle_negative_axis(t, axis) for axis in (-3, -1, 0, 2)] == [0, 2, 0, 2]


def test_conversions_to_optional_arguments():
    for convert, kind, value in (
        (convert_optional_float, _ir.OptionalFloat, 1.5),
        (convert_optional_int, _ir.OptionalInt, 3),
    ):
        for given, wanted in ((value, kind(value)), (None, kind())):
            converted = convert(given)
            assert isinstance(converted, kind)
            assert converted == wanted
        assert convert(value).value() == value
        assert not convert(None).has_value()
        # Zero is a value, not nothing.
        assert convert(0).has_value()
    found = convert_optional_dtype(popxl.float16)
    assert found == _ir.OptionalDataType(_ir.DataType.FLOAT16)
    assert convert_optional_dtype(None) == _ir.OptionalDataType()
    assert convert_optional_int64_list((1, np.int32(2))) == [1, 2]
    assert convert_optional_int64_list(None) == []


def test_code_is_never_copied():
    with popxl.Ir().main_graph, pytest.raises(NotImplementedError):
        code_copy(popxl.gmg(), "executable", "compute_buffer")


def test_pad_types():
    assert set(get_args(ops.PadType)) == {"not_set", "same_upper", "same_lower", "valid"}
    x, w = random(1, 1, 5, 5), random(1, 1, 2, 2)
    shapes = {
        name: outputs(lambda t, u, n=name: ops.conv(t, u, pad_type=n), x, w)[0].shape
        for name in get_args(ops.PadType)
    }
    assert shapes == {
        "not_set": (1, 1, 4, 4),
        "valid": (1, 1, 4, 4),
        "same_upper": (1, 1, 5, 5),
        "same_lower": (1, 1, 5, 5),
    }
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="not_set, same_upper"):
        ops.conv(popxl.variable(x), popxl.variable(w), pad_type="same")


def test_collective_operators():
    wanted = {
        "add": "Add",
        "mean": "Mean",
        "mul": "Mul",
        "min": "Min",
        "max": "Max",
        "and": "LogicalAnd",
        "or": "LogicalOr",
        "square_add": "SquareAdd",
    }
    assert set(get_args(CollectiveOps)) == set(OP_MAP) == set(wanted)
    for name, member in wanted.items():
        assert to_collective_op(name) is _ir.CollectiveOperator[member]
    with pytest.raises(ValueError, match=r"sum.*add"):
        to_collective_op("sum")
