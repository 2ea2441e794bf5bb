"""Weights that only kernels with a layout of their own read are in memory once, in that layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import popxl
import popxl.ops as ops
from pando import checkpoint, session_info
from pando.settings import use_session_settings

RNG = np.random.default_rng(11)
HIDDEN = 64
Layer = Callable[[Any, Any], Any]


def uniform(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def rnn(x: popxl.Tensor, weights: popxl.Tensor) -> popxl.Tensor:
    inputs = popxl.constant(np.eye(HIDDEN, dtype=np.float32))
    states, _ = ops.rnn(x, [ops.RecurrentWeights(inputs, weights)])
    return states


def rnn_of_torch(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    layer = torch.nn.RNN(HIDDEN, HIDDEN, bias=False)
    layer.load_state_dict({"weight_ih_l0": torch.eye(HIDDEN), "weight_hh_l0": weights})
    with torch.no_grad():
        return layer(x)[0]


class Case(NamedTuple):
    """A function of images and weights."""

    weights: tuple[int, ...]
    images: tuple[int, ...]
    layer: Layer
    of_torch: Layer


CASES = {
    "product": Case((300, 200), (70, 300), lambda x, w: x @ w, lambda x, w: x @ w),
    "transposed": Case((200, 300), (70, 300), lambda x, w: x @ w.T, lambda x, w: x @ w.T),
    "parts": Case(
        (600, 200),
        (70, 300),
        lambda x, w: x @ w[:300] + (2 * x) @ w[300:],
        lambda x, w: x @ w[:300] + (2 * x) @ w[300:],
    ),
    "convolution": Case((160, 32, 3, 3), (2, 32, 8, 8), ops.conv, torch.nn.functional.conv2d),
    "recurrent": Case((HIDDEN, HIDDEN), (5, 40, HIDDEN), rnn, rnn_of_torch),
}


class Program:
    """Inference, of which the host keeps no values of weights."""

    def __init__(self, case: Case, replicas: int = 1, read_elsewhere: bool = False) -> None:
        self.case = case
        self.images, self.initial = uniform(*case.images), uniform(*case.weights)
        ir = popxl.Ir(replication=replicas)
        with ir.main_graph, popxl.in_sequence():
            self.weights = popxl.variable(self.initial, name="w")
            self._images = popxl.h2d_stream(case.images, popxl.float32)
            y = case.layer(ops.host_load(self._images), self.weights)
            self._result = popxl.d2h_stream(y.shape, y.dtype)
            ops.host_store(self._result, y)
            if read_elsewhere:
                row = ops.sum(self.weights, axis=0)
                ops.host_store(popxl.d2h_stream(row.shape, row.dtype, "row"), row)
        self.ir = ir
        with use_session_settings(keep_host_values=False):
            self.session = popxl.Session(ir, "cpu")

    @property
    def bytes_of_weights(self) -> float:
        """What persistent memory has, in sizes of the weights."""
        return session_info.memory_plan(self.session).persistent_bytes / self.initial.nbytes

    def check(self, weights: np.ndarray) -> None:
        replicas = self.ir.replication_factor
        images = self.images if replicas == 1 else np.stack([self.images] * replicas)
        got = self.session.run({self._images: images})[self._result]
        wanted = self.case.of_torch(torch.tensor(self.images), torch.tensor(weights)).numpy()
        for result in got if replicas > 1 else [got]:
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-3)

    def check_bits_of_weights(self, wanted: np.ndarray) -> None:
        got = self.session.get_tensor_data(self.weights)
        np.testing.assert_array_equal(got.view(np.int32), wanted.view(np.int32))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_weights_are_there_once_and_come_back(name: str, replicas: int) -> None:
    program = Program(CASES[name], replicas)
    # The other weights of the recurrent layer are as large; panels are filled up.
    assert program.bytes_of_weights < (2.2 if name == "recurrent" else 1.2)
    second = uniform(*program.case.weights)
    with program.session as session:
        program.check(program.initial)
        program.check_bits_of_weights(program.initial)
        program.check(program.initial)
        session.write_variable_data(program.weights, second)
        program.check(second)
        session.weights_to_host()
        program.check_bits_of_weights(second)
    program.check_bits_of_weights(second)
    with program.session:
        program.check(second)


@pytest.mark.parametrize("name", CASES)
def test_no_bits_are_lost(name: str) -> None:
    program = Program(CASES[name])
    special = program.initial.copy()
    special.flat[:7] = [-0.0, 1e-45, -1e-40, np.nan, np.inf, -np.inf, 3e38]
    special.flat[-1:] = [np.nan]
    special.view(np.uint32).flat[7] = 0xFFA00001  # a signalling NaN
    with program.session as session:
        session.write_variable_data(program.weights, special)
        session.weights_to_host()
        program.check_bits_of_weights(special)


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_has_their_values(name: str, tmp_path: Path) -> None:
    program = Program(CASES[name])
    with program.session as session:
        checkpoint.save(session, tmp_path, step=1)
        session.write_variable_data(program.weights, uniform(*program.case.weights))
        checkpoint.load(session, tmp_path)
        program.check(program.initial)
        program.check_bits_of_weights(program.initial)


def test_weights_that_something_else_reads_stay_as_they_are_too() -> None:
    program = Program(CASES["convolution"], read_elsewhere=True)
    assert program.bytes_of_weights > 1.9
    with program.session:
        program.check(program.initial)
        program.check_bits_of_weights(program.initial)


def test_weights_that_differ_between_replicas_come_back() -> None:
    first, second = uniform(2, 300, 200), uniform(2, 300, 200)
    images = uniform(2, 70, 300)
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        own = ir.replica_grouping(group_size=1)
        weights = popxl.variable(first, name="w", replica_grouping=own)
        stream = popxl.h2d_stream((70, 300), popxl.float32)
        y = ops.host_load(stream) @ weights
        result = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(result, y)
    with popxl.Session(ir, "cpu") as session:
        plan = session_info.memory_plan(session)
        assert plan.persistent_bytes < 1.2 * first[0].nbytes
        for value in (first, second):
            session.write_variable_data(weights, value)
            got = session.run({stream: images})[result]
            np.testing.assert_allclose(got, images @ value, rtol=1e-4, atol=1e-3)
            session.weights_to_host()
            np.testing.assert_array_equal(session.get_tensor_data(weights), value)


def test_weights_of_programs_for_several_devices_come_back() -> None:
    right = uniform(300, 200)
    ir = popxl.Ir(replication=1)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(uniform(70, 300))
        with popxl.ipu(0):
            y = x @ popxl.variable(right, name="w")
        with popxl.ipu(1):
            y = y @ popxl.variable(uniform(200, 100), name="v")
        ops.host_store(popxl.d2h_stream(y.shape, y.dtype), y)
    weights = ir.main_graph.variables
    with popxl.Session(ir, "cpu") as session:
        session.run()
        session.weights_to_host()
        for tensor in weights:
            if tensor.name == "w":
                np.testing.assert_array_equal(session.get_tensor_data(tensor), right)
