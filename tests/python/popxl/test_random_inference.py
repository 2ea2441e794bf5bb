"""Random networks that only run: whatever the device makes of their weights, the host sees those.

As a program (`python -m tests.python.popxl.test_random_inference COUNT SEED`) it compares more.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import popxl
import popxl.ops as ops
from pando import checkpoint, session_info
from pando.settings import use_session_settings

ROWS = (1, 3, 8, 40, 130)
SIZES = (16, 60, 300, 420)
ACTIONS = ("run", "run", "write", "read", "to_host", "leave", "checkpoint")

Array = np.ndarray[Any, Any]


class Network:
    """A chain of products with weights that are whole, transposed, in parts, tied or read twice.

    Args:
        seed: Of its layers, weights and inputs.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.replicas = self.draw.choice((1, 1, 2))
        self.values: dict[str, Array] = {}
        self.variables: dict[str, popxl.Tensor] = {}
        self.layers: list[tuple[Callable[..., Any], list[str]]] = []
        rows, self.columns = self.draw.choice(ROWS), self.draw.choice(SIZES)
        self.x = self.numbers.uniform(-1, 1, (rows, self.columns)).astype(np.float32)
        self._make_layers()
        ir = popxl.Ir(replication=self.replicas)
        with ir.main_graph, popxl.in_sequence():
            self.stream = popxl.h2d_stream(self.x.shape, popxl.float32)
            for name, value in self.values.items():
                self.variables[name] = popxl.variable(value, name=name)
            y = ops.host_load(self.stream)
            for function, names in self.layers:
                y = ops.tanh(function(y, *(self.variables[name] for name in names)))
            self.result = popxl.d2h_stream(y.shape, y.dtype)
            ops.host_store(self.result, y)
        self.ir = ir

    def _make_layers(self) -> None:
        kinds = [self._whole, self._transposed, self._rows, self._columns, self._tied, self._read]
        for _ in range(self.draw.randrange(1, 6)):
            self.draw.choice(kinds)(self.columns, self.draw.choice(SIZES))

    def _add(self, function: Callable[..., Any], *shape: int) -> None:
        name = f"w{len(self.values)}"
        self.values[name] = self.new_value(shape)
        self.layers.append((function, [name]))

    def new_value(self, shape: tuple[int, ...]) -> Array:
        return self.numbers.uniform(-0.2, 0.2, shape).astype(np.float32)

    def _whole(self, k: int, n: int) -> None:
        self._add(lambda x, w: x @ w, k, n)
        self.columns = n

    def _transposed(self, k: int, n: int) -> None:
        self._add(lambda x, w: x @ w.T, n, k)
        self.columns = n

    def _rows(self, k: int, n: int) -> None:
        self._add(lambda x, w: x @ w[:k] + (x * 0.5) @ w[k:], 2 * k, n)
        self.columns = n

    def _columns(self, k: int, n: int) -> None:
        self._add(lambda x, w: x @ w[:, :n] - (x * 0.5) @ w[:, n:], k, 2 * n)
        self.columns = n

    def _tied(self, k: int, n: int) -> None:
        self._add(lambda x, w: (x @ w) @ w.T, k, n)

    def _read(self, k: int, n: int) -> None:
        self._add(lambda x, w: x @ w + w[0], k, n)
        self.columns = n

    def wanted(self) -> Array:
        y = self.x.astype(np.float64)
        for function, names in self.layers:
            y = np.tanh(function(y, *(self.values[name].astype(np.float64) for name in names)))
        return y


def check_run(network: Network, session: popxl.Session) -> None:
    x = network.x
    given = x if network.replicas == 1 else np.stack([x] * network.replicas)
    got = session.run({network.stream: given})[network.result]
    for result in got if network.replicas > 1 else [got]:
        np.testing.assert_allclose(result, network.wanted(), atol=1e-4)


def act(network: Network, session: popxl.Session, action: str) -> None:
    names = network.draw.sample(
        sorted(network.values), network.draw.randint(1, len(network.values))
    )
    if action == "run":
        check_run(network, session)
    elif action == "write":
        new = {name: network.new_value(network.values[name].shape) for name in names}
        session.write_variables_data({network.variables[n]: v for n, v in new.items()})
        network.values |= new
    elif action == "read":
        for name in names:
            got = session.get_tensor_data(network.variables[name])
            np.testing.assert_array_equal(got, network.values[name])
    elif action == "to_host":
        session.weights_to_host()
    elif action == "leave":
        session.__exit__(None, None, None)
        session.__enter__()
    else:
        with tempfile.TemporaryDirectory() as folder:
            checkpoint.save(session, folder, step=0)
            changed = {v: np.zeros_like(network.values[n]) for n, v in network.variables.items()}
            session.write_variables_data(changed)
            checkpoint.load(session, folder)


def check(seed: int) -> None:
    network = Network(seed)
    keeps, limits = (network.draw.random() < 0.5 for _ in range(2))
    with use_session_settings(keep_host_values=keeps):
        session = popxl.Session(network.ir, "cpu")
        plan = session_info.memory_plan(session)
        if limits:
            need = plan.persistent_bytes + plan.peak_frame_bytes
            with use_session_settings(memory_limit_bytes=need):
                session = popxl.Session(network.ir, "cpu")
    with session:
        for _ in range(8):
            act(network, session, network.draw.choice(ACTIONS))
        check_run(network, session)
    for name, value in network.values.items():
        np.testing.assert_array_equal(session.get_tensor_data(network.variables[name]), value)


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_run_and_keep_their_weights(seed: int) -> None:
    check(seed)


if __name__ == "__main__":
    count, first = map(int, sys.argv[1:])
    for number in range(first, first + count):
        try:
            check(number)
        except Exception as error:
            print(f"seed {number}: {type(error).__name__}: {error}", flush=True)
    print(f"{count} networks from seed {first} on")
