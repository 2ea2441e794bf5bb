"""Random sequences of calls of sessions, and what they have found."""

from __future__ import annotations

import numpy as np
import pytest

import popxl
from pando import checkpoint
from popxl import ops
from tests.python.popxl.random_interrupts import Interrupted
from tests.python.popxl.random_sessions import Sequence
from tests.python.random_sequences import outcome_of

SEQUENCES = 200
INTERRUPTED_SEQUENCES = 100


def test_random_sequences_do_what_is_expected() -> None:
    outcomes = {seed: outcome_of(Sequence, seed) for seed in range(700_000, 700_000 + SEQUENCES)}
    assert {seed: outcome for seed, outcome in outcomes.items() if outcome} == {}


def test_ctrl_c_leaves_no_call_half_done() -> None:
    seeds = range(710_000, 710_000 + INTERRUPTED_SEQUENCES)
    outcomes = {seed: outcome_of(Interrupted, seed) for seed in seeds}
    assert {seed: outcome for seed, outcome in outcomes.items() if outcome} == {}


@pytest.mark.parametrize("is_restored", [False, True])
def test_writing_a_variable_leaves_parts_of_others_on_the_device(is_restored, tmp_path) -> None:
    """They lie in a remote buffer as well, which has older values."""
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        rate = popxl.variable(1.0, popxl.float32, name="rate")
        handles = []
        for name in ("first", "second"):
            handle, shard = popxl.replica_sharded_variable(np.zeros(3, np.float32), name=name)
            handles.append(handle)
            ops.add_(shard, rate)
    session = popxl.Session(ir, "cpu")
    with session:
        session.run()
        if is_restored:
            checkpoint.save(session, tmp_path, step=1)
            session.run()
            checkpoint.load(session, tmp_path)
        session.write_variable_data(rate, np.float32(10))
        session.write_variable_data(handles[0], np.full(3, 5, np.float32))
        session.run()
        first, second = (session.get_tensor_data(handle) for handle in handles)
        np.testing.assert_array_equal(first, np.full(3, 15))
        np.testing.assert_array_equal(second, np.full(3, 11))
