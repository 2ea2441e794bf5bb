"""Integers of more than 64 bits and shapes that no memory holds are refused with their values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import popxl
from pando import _core
from popxl import ops

FLOAT = popxl.float32
Use = Callable[[popxl.Tensor, int], object]


def buffer(entries: int = 2) -> popxl.RemoteBuffer:
    return popxl.remote_buffer((4, 4), FLOAT, entries)


def set_entries(_: popxl.Tensor, value: int) -> None:
    buffer().entries = value


def set_meta_shape(_: popxl.Tensor, value: int) -> None:
    buffer().meta_shape = (value,)


def set_transfers(t: popxl.Tensor, value: int) -> None:
    t.ir.num_host_transfers = value


def repeat(t: popxl.Tensor, value: int) -> None:
    ops.repeat(t.ir.create_graph(ops.relu, t), value, t)


def on_device(t: popxl.Tensor, value: int) -> None:
    with popxl.ipu(value):
        ops.relu(t)


# What is called, and how the error calls the argument.
USES: list[tuple[Use, str]] = [
    (lambda t, n: popxl.h2d_stream((n,), FLOAT), "shape, element 0"),
    (lambda t, n: popxl.d2h_stream((4, n), FLOAT), "shape, element 1"),
    (lambda t, n: popxl.graph_input((n,), FLOAT), "shape, element 0"),
    (lambda t, n: t.ir.create_graph(ops.relu, popxl.TensorSpec((n,), FLOAT)), "shape, element 0"),
    (lambda t, n: popxl.remote_buffer((n,), FLOAT, 1), "shape, element 0"),
    (lambda t, n: buffer(n), "entries"),
    (set_entries, "entries"),
    (set_meta_shape, "meta_shape, element 0"),
    (lambda t, n: buffer().set_remote_buffer_info(FLOAT, (n,), 1), "shape, element 0"),
    (lambda t, n: popxl.remote_variable(np.ones((4, 4), np.float32), buffer(), n), "slot"),
    (set_transfers, "num_host_transfers"),
    (on_device, "device"),
    (repeat, "Loop, .*: attribute 'trip_count'"),
    (lambda t, n: ops.reshape(t, (2, n)), "Reshape, .*: attribute 'shape', element 1"),
    (lambda t, n: ops.init((n,), FLOAT), "Init, .*: attribute 'shape', element 0"),
    (lambda t, n: ops.concat([t, t], n), "Concat, .*: attribute 'axis'"),
    (lambda t, n: ops.softmax(t, n), "Softmax, .*: attribute 'axis'"),
    (lambda t, n: ops.argmax(t, n), "ArgMax, .*: attribute 'axis'"),
    (lambda t, n: t[::n], "Subsample, .*: attribute 'strides', element 0"),
]


@pytest.mark.parametrize("value", [2**63, 2**64, 2**70])
@pytest.mark.parametrize(("use", "what"), USES)
def test_more_than_64_bits(use: Use, what: str, value: int) -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.variable(np.ones((4, 4), np.float32))
        with pytest.raises(ValueError, match=rf"{what}: wanted an integer of 64 bits.*{value}$"):
            use(t, value)
    _core.verify(ir._pb)


@pytest.mark.parametrize("value", [-1, 2**32, 2**63, 2**64])
def test_offsets_of_remote_transfers(value: int) -> None:
    with popxl.Ir().main_graph:
        t = popxl.variable(np.ones((4, 4), np.float32))
        for use in (
            lambda: ops.remote_load(buffer(), value),
            lambda: ops.remote_load_(buffer(), value, t),
            lambda: ops.remote_store(buffer(), value, t),
        ):
            with pytest.raises(ValueError, match=rf"offset: wanted a slot.*given {value}$"):
                use()


def test_values_of_more_than_64_bits() -> None:
    wanted = f"wanted values that int64 can hold; given {2**64}"
    with popxl.Ir().main_graph, pytest.raises(ValueError, match=wanted):
        popxl.constant(2**64, popxl.int64)


# More elements than 64 bits count, and more bytes than 64 bits count.
SHAPES = [(2**62, 4), (2**32, 2**32), (2**61,), (2**40, 2**40, 2**40), (2**62, 2**62)]


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_larger_than_any_memory(shape: tuple[int, ...]) -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        for use in (
            lambda: popxl.h2d_stream(shape, FLOAT),
            lambda: popxl.d2h_stream(shape, FLOAT),
            lambda: popxl.remote_buffer(shape, FLOAT, 1),
            lambda: buffer().set_remote_buffer_info(FLOAT, shape, 1),
            lambda: ops.init(shape, FLOAT),
        ):
            with pytest.raises(_core.popart_exception, match=r"would take more than the .* bytes"):
                use()
        with ir.create_empty_graph("f"), pytest.raises(_core.popart_exception, match="more than"):
            popxl.graph_input(shape, FLOAT)
    _core.verify(ir._pb)


def test_buffers_larger_than_any_memory() -> None:
    with popxl.Ir().main_graph:
        made = buffer()
        for use in (lambda: buffer(2**58), lambda: setattr(made, "entries", 2**62)):
            with pytest.raises(_core.popart_exception, match=r"would take more than the .* bytes"):
                use()
