"""Weights that runs only read are laid out before them, as their kernels want them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

import popxl
import popxl.ops as ops
from pando import checkpoint, session_info
from pando.settings import use_session_settings
from popart._internal.enums import ExecutionContext
from popxl.context import _execution_context

SHAPE = (160, 32, 3, 3)
RNG = np.random.default_rng(7)
IMAGES = RNG.standard_normal((2, 32, 8, 8), dtype=np.float32)
# With so many tiles convolutions are computed with fewer products, of transformed filters.
LARGE_IMAGES = RNG.standard_normal((2, 32, 20, 20), dtype=np.float32)


def some_weights() -> np.ndarray:
    return RNG.standard_normal(SHAPE, dtype=np.float32)


class Program(NamedTuple):
    ir: popxl.Ir
    weights: popxl.tensor.Variable
    images: popxl.HostToDeviceStream
    result: popxl.DeviceToHostStream
    values: np.ndarray

    def run(self, session: popxl.Session) -> np.ndarray:
        return session.run({self.images: self.values})[self.result]


def convolution(
    initial: np.ndarray,
    decay: bool = False,
    values: np.ndarray = IMAGES,
    read_elsewhere: bool = False,
) -> Program:
    """Two convolutions, one of ones. ``decay``: each run halves the weights in its end."""
    ir = popxl.Ir(replication=1)
    with ir.main_graph, popxl.in_sequence():
        weights = popxl.variable(initial, popxl.float32, "w")
        images = popxl.h2d_stream(values.shape, popxl.float32, "images")
        ones = popxl.variable(np.ones((32, 160, 3, 3), np.float32), name="ones")
        y = ops.conv(ops.host_load(images, "x"), weights, (1, 1), (1, 1, 1, 1))
        y = ops.conv(y, ones, (1, 1), (1, 1, 1, 1))
        result = popxl.d2h_stream(y.shape, y.dtype, "y")
        ops.host_store(result, y)
        if decay:
            ops.var_updates.copy_var_update_(weights, weights * 0.5)
        if read_elsewhere:
            total = ops.sum(weights) + ops.sum(ones)
            ops.host_store(popxl.d2h_stream((), popxl.float32, "sum"), total)
    return Program(ir, weights, images, result, values)


def wanted(weights: np.ndarray, images: np.ndarray = IMAGES) -> np.ndarray:
    y = torch.nn.functional.conv2d(torch.tensor(images), torch.tensor(weights), padding=1)
    return np.asarray(torch.nn.functional.conv2d(y, torch.ones((32, 160, 3, 3)), padding=1))


def is_prepared(session: popxl.Session) -> bool:
    return any(t.id == "w (prepared)" for t in session._pb_session.program.persistent)


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("images", [IMAGES, LARGE_IMAGES], ids=["few_tiles", "many_tiles"])
def test_results_follow_weights_that_the_host_writes(images: np.ndarray) -> None:
    first, second = some_weights(), some_weights()
    program = convolution(first, values=images)
    with popxl.Session(program.ir, "cpu") as session:
        assert is_prepared(session)
        for _ in range(2):
            close(program.run(session), wanted(first, images))
        session.write_variable_data(program.weights, second)
        for _ in range(2):
            close(program.run(session), wanted(second, images))
    with session:
        close(program.run(session), wanted(second, images))


@pytest.mark.parametrize("has_function", [False, True])
def test_products_follow_matrices_that_the_host_writes(has_function: bool) -> None:
    rows, right, bias = (
        RNG.standard_normal(shape, dtype=np.float32) for shape in ((70, 90), (90, 330), (330,))
    )
    ir = popxl.Ir(replication=1)
    with ir.main_graph, popxl.in_sequence():
        images = popxl.h2d_stream(rows.shape, popxl.float32, "x")
        weights = popxl.variable(right, name="w")
        y = ops.host_load(images, "x") @ weights
        y = ops.relu(y + popxl.variable(bias)) if has_function else y
        # The same matrix in another order has a layout of its own.
        y = y @ weights.T
        result = popxl.d2h_stream(y.shape, y.dtype, "y")
        ops.host_store(result, y)
    program = Program(ir, weights, images, result, rows)

    def wanted_product(weights: np.ndarray) -> np.ndarray:
        matrix = torch.tensor(weights)
        y = torch.tensor(rows) @ matrix
        if has_function:
            y = torch.relu(y + torch.tensor(bias))
        return np.asarray(y @ matrix.T)

    with popxl.Session(ir, "cpu") as session:
        for value in (right, 2 * right, right[::-1].copy()):
            session.write_variable_data(weights, value)
            for _ in range(2):
                close(program.run(session), wanted_product(value))


def test_weights_that_a_run_writes_are_not_prepared() -> None:
    first = some_weights()
    program = convolution(first, decay=True)
    with popxl.Session(program.ir, "cpu") as session:
        assert not is_prepared(session)
        close(program.run(session), wanted(first))
        close(program.run(session), wanted(first / 2))


def test_a_checkpoint_has_no_prepared_weights_and_restores_them(tmp_path: Path) -> None:
    first, second = some_weights(), some_weights()
    program = convolution(first)
    with popxl.Session(program.ir, "cpu") as session:
        program.run(session)
        checkpoint.save(session, tmp_path, step=1)
        session.write_variable_data(program.weights, second)
        close(program.run(session), wanted(second))
        checkpoint.load(session, tmp_path)
        close(program.run(session), wanted(first))
    stored = sum(file.stat().st_size for file in tmp_path.rglob("*"))
    assert stored < 2.5 * first.nbytes


def test_a_memory_limit_has_weights_stay_as_they_are() -> None:
    first = some_weights()
    program = convolution(first, read_elsewhere=True)
    session = popxl.Session(program.ir, "cpu")
    plan = session_info.memory_plan(session)
    need = plan.persistent_bytes + plan.peak_frame_bytes
    with use_session_settings(memory_limit_bytes=need - 1):
        small = popxl.Session(program.ir, "cpu")
    assert is_prepared(session)
    assert not is_prepared(small)
    with small:
        close(program.run(small), wanted(first))


def test_a_program_from_the_cache_prepares_them_too(tmp_path: Path) -> None:
    first = some_weights()
    for turn in range(2):
        program = convolution(first)
        options = program.ir._pb_ir.getSessionOptions()
        options.enableEngineCaching, options.cachePath = True, str(tmp_path)
        session = popxl.Session(program.ir, "cpu")
        assert (session_info.cache_file(session) is not None) == (turn == 1)
        with session:
            close(program.run(session), wanted(first))


@pytest.mark.parametrize("product", [False, True], ids=["convolution", "product"])
def test_results_follow_weights_that_are_made_when_weights_come(product: bool) -> None:
    of_weights, of_images = ((90, 330), (70, 90)) if product else (SHAPE, IMAGES.shape)
    first, second, values = (
        RNG.standard_normal(shape, dtype=np.float32)
        for shape in (of_weights, of_weights, of_images)
    )
    ir = popxl.Ir(replication=1)
    with ir.main_graph, popxl.in_sequence():
        given = popxl.variable(first, name="given")
        weights = popxl.variable(np.zeros_like(first), name="w")
        with _execution_context(ExecutionContext.WeightsFromHostFragment):
            ops.var_updates.copy_var_update_(weights, given * 2)
        images = popxl.h2d_stream(values.shape, popxl.float32, "x")
        x = ops.host_load(images, "x")
        y = x @ weights if product else ops.conv(x, weights)
        result = popxl.d2h_stream(y.shape, y.dtype, "y")
        ops.host_store(result, y)

    def expected(given: np.ndarray) -> np.ndarray:
        x, w = torch.tensor(values), torch.tensor(2 * given)
        return np.asarray(x @ w if product else torch.nn.functional.conv2d(x, w))

    with popxl.Session(ir, "cpu") as session:
        # Of products only some processors have a layout of their own.
        assert product or is_prepared(session)
        close(session.run({images: values})[result], expected(first))
        session.write_variable_data(given, second)
        close(session.run({images: values})[result], expected(second))
