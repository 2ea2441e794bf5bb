"""Arrays of streams whose transfers and replicas are not one after the other in memory."""

from __future__ import annotations

import numpy as np
import pytest

import popxl
from popart import popart_exception
from popxl import ops

TRANSFERS, REPLICAS, SHAPE = 3, 4, (2, 5)
RNG = np.random.default_rng(2)


def program(transfers: int, replicas: int):
    """Stores twice what it loads, `transfers` times."""
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = transfers

    def body():
        ops.host_store(y, ops.host_load(x) * 2.0)

    with ir.main_graph:
        x = popxl.h2d_stream(SHAPE, popxl.float32, name="x")
        y = popxl.d2h_stream(SHAPE, popxl.float32, name="y")
        ops.repeat(ir.create_graph(body), transfers)
    return ir, x, y


def data(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


FULL = (TRANSFERS, REPLICAS, *SHAPE)
VIEWS = {
    "replicas first": lambda: data(REPLICAS, TRANSFERS, *SHAPE).swapaxes(0, 1),
    "one for all replicas": lambda: np.broadcast_to(data(TRANSFERS, 1, *SHAPE), FULL),
    "one for all transfers": lambda: np.broadcast_to(data(1, REPLICAS, *SHAPE), FULL),
    "backwards": lambda: data(*FULL)[::-1, ::-1],
    "with gaps": lambda: data(TRANSFERS * 2, REPLICAS * 3, *SHAPE)[1::2, ::3],
    "groups of two replicas": lambda: np.broadcast_to(
        data(TRANSFERS, REPLICAS // 2, 1, *SHAPE), (TRANSFERS, REPLICAS // 2, 2, *SHAPE)
    ).reshape(FULL),
    "elements not in C order": lambda: data(TRANSFERS, REPLICAS, *SHAPE[::-1]).swapaxes(2, 3),
}


@pytest.mark.parametrize("view", VIEWS)
def test_inputs(view: str) -> None:
    ir, x, y = program(TRANSFERS, REPLICAS)
    given = VIEWS[view]()
    assert given.shape == FULL
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run({x: given})[y], given * 2)


@pytest.mark.parametrize(("transfers", "replicas"), [(TRANSFERS, 1), (1, REPLICAS)])
@pytest.mark.parametrize("part", [slice(None, None, -1), slice(None, None, 3)])
def test_one_axis(transfers: int, replicas: int, part: slice) -> None:
    ir, x, y = program(transfers, replicas)
    length = transfers * replicas
    given = data(length * (part.step if part.step > 0 else 1), *SHAPE)[part]
    out = np.full((length * 2, *SHAPE), -1, np.float32)
    with popxl.Session(ir) as session:
        session.run_with_outputs({x: given}, {y: out[::2]})
    np.testing.assert_array_equal(out[::2], given * 2)
    np.testing.assert_array_equal(out[1::2], -1)


def test_outputs() -> None:
    ir, x, y = program(TRANSFERS, REPLICAS)
    given = data(*FULL)
    by_replica = np.zeros((REPLICAS, TRANSFERS, *SHAPE), np.float32)
    with popxl.Session(ir) as session:
        session.run_with_outputs({x: given}, {y: by_replica.swapaxes(0, 1)})
        np.testing.assert_array_equal(by_replica, given.swapaxes(0, 1) * 2)
        turned = np.zeros((TRANSFERS, REPLICAS, *SHAPE[::-1]), np.float32).swapaxes(2, 3)
        with pytest.raises(popart_exception, match="C-contiguous elements"):
            session.run_with_outputs({x: given}, {y: turned})
        shared = np.lib.stride_tricks.as_strided(by_replica, FULL, (0, *by_replica.strides[1:]))
        with pytest.raises(ValueError, match="stream 'y': wanted an array with memory of its own"):
            session.run_with_outputs({x: given}, {y: shared})


def test_broadcast_inputs_are_not_copied() -> None:
    """What the host writes between runs is seen, in one place by all replicas."""
    ir, x, y = program(1, REPLICAS)
    one = data(*SHAPE)
    with popxl.Session(ir) as session:
        given = np.broadcast_to(one, (REPLICAS, *SHAPE))
        for _ in range(2):
            np.testing.assert_array_equal(session.run({x: given})[y], given * 2)
            one += 1
