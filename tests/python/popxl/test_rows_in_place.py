"""Remote rows in memory that are operands themselves, without copies."""

import re

import numpy as np
import pytest

import popxl
from pando import checkpoint
from pando.settings import use_session_settings
from popxl import ops
from tests.python.popxl.remote_testing import random_program, random_steps
from tests.python.popxl.replica_testing import store

WIDTH = 1000
START = np.random.default_rng(0).integers(-8, 9, (2, WIDTH)).astype(np.float32)


def loads(session):
    """How many there are, and how many of them use their row in place."""
    text = session._pb_session.program.disassembly()
    return len(re.findall(r"RemoteLoad \d", text)), len(re.findall(r"RemoteLoad \d+ as row", text))


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    steps = random_steps(100 + seed)
    program = random_program(steps, (1027,), dynamic=seed % 4 == 0)
    program.check(popxl.Session(program.ir), steps)


def read(buffer, one):
    return [ops.sum(ops.remote_load(buffer, 0))], lambda rows: [rows[0].sum()]


def read_a_row_of_any_number(buffer, one):
    number = popxl.variable(1, popxl.uint32)
    return [ops.sum(ops.remote_load(buffer, number))], lambda rows: [rows[1].sum()]


def update(buffer, one):
    t = ops.remote_load(buffer, 0)
    ops.add_(t, one)
    ops.remote_store(buffer, 0, t)

    def reference(rows):
        rows[0] += 1
        return [rows[0]]

    return [t], reference


def update_in_a_loop(buffer, one):
    def step(t: popxl.TensorByRef, x: popxl.Tensor):
        ops.add_(t, x)

    t = ops.remote_load(buffer, 1)
    ops.repeat(popxl.gir().create_graph(step, t, one), 3, t, one)
    ops.remote_store(buffer, 1, t)

    def reference(rows):
        rows[1] += 3
        return [rows[1]]

    return [t], reference


def overwrite_what_is_still_read(buffer, one):
    before = ops.remote_load(buffer, 0)
    ops.remote_store(buffer, 0, one)
    total = ops.sum(before * ops.remote_load(buffer, 0))

    def reference(rows):
        value = rows[0].sum()
        rows[0] = 1
        return [value]

    return [total], reference


def overwrite_in_a_call(buffer, one):
    before = ops.remote_load(buffer, 0)

    def put(x):
        ops.remote_store(buffer, 0, x)
        return x + ops.remote_load(buffer, 1)

    graph = popxl.gir().create_graph(put, one)
    (after,) = ops.call(graph, one)
    ops.call(graph, one)
    total = ops.sum(before * after)

    def reference(rows):
        value = (rows[0] * (1 + rows[1])).sum()
        rows[0] = 1
        return [value]

    return [total], reference


def update_what_is_still_read(buffer, one):
    old, new = ops.remote_load(buffer, 0), ops.remote_load(buffer, 0)
    ops.add_(new, one)
    # A product's result takes the memory of neither.
    total = ops.matmul(old.reshape((1, WIDTH)), new.reshape((WIDTH, 1)))
    ops.remote_store(buffer, 0, new)

    def reference(rows):
        value = rows[0] @ (rows[0] + 1)
        rows[0] += 1
        return [value.reshape(1, 1)]

    return [total], reference


def load_before_the_update_is_stored(buffer, one):
    new = ops.remote_load(buffer, 0)
    ops.add_(new, one)
    total = ops.sum(ops.remote_load(buffer, 0))
    ops.remote_store(buffer, 0, new)

    def reference(rows):
        value = rows[0].sum()
        rows[0] += 1
        return [value]

    return [total], reference


def change_without_a_store(buffer, one):
    t = ops.remote_load(buffer, 0)
    ops.add_(t, one)
    return [t], lambda rows: [rows[0] + 1]


def store_to_another_row(buffer, one):
    t = ops.remote_load(buffer, 0)
    ops.add_(t, one)
    ops.remote_store(buffer, 1, t)

    def reference(rows):
        rows[1] = rows[0] + 1
        return [rows[1]]

    return [t], reference


def store_and_change_again(buffer, one):
    t = ops.remote_load(buffer, 0)
    ops.add_(t, one)
    ops.remote_store(buffer, 0, t)
    ops.add_(t, one)

    def reference(rows):
        rows[0] += 1
        return [rows[0] + 1]

    return [t], reference


def load_another_row_over_it(buffer, one):
    t = ops.remote_load(buffer, 0)
    total = ops.sum(t)
    ops.remote_store(buffer, 0, ops.remote_load_(buffer, 1, t))

    def reference(rows):
        value = rows[0].sum()
        rows[0] = rows[1]
        return [value, rows[1]]

    return [total, t], reference


def load_into_a_part(buffer, one):
    whole = ops.init((2 * WIDTH,), popxl.float32, init_type="undef")
    part = ops.slice_(whole, 0, WIDTH)
    ops.remote_load_(buffer, 0, part)
    return [ops.sum(part)], lambda rows: [rows[0].sum()]


@pytest.mark.parametrize(
    ("build", "in_place"),
    [
        (read, 1),
        (read_a_row_of_any_number, 1),
        (update, 1),
        (update_in_a_loop, 1),
        (overwrite_what_is_still_read, 1),  # the later load
        (overwrite_in_a_call, 1),  # the last load
        (update_what_is_still_read, 1),  # the one that is only read
        (load_before_the_update_is_stored, 1),  # the later load, read before the store
        (change_without_a_store, 0),
        (store_to_another_row, 0),
        (store_and_change_again, 0),
        (load_another_row_over_it, 0),
        (load_into_a_part, 0),
    ],
)
@pytest.mark.parametrize("tier", ["ram", "file"])
def test_a_row_is_an_operand_where_nobody_can_tell(build, in_place, tier, tmp_path):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((WIDTH,), popxl.float32, 2)
        variables = [popxl.remote_variable(row, buffer, i) for i, row in enumerate(START)]
        one = popxl.variable(np.ones(WIDTH, np.float32))
        outputs, reference = build(buffer, one)
        streams = [store(output) for output in outputs]
    # Without loads ahead, files take the same program.
    with use_session_settings(
        remote_tier=tier, remote_folder=tmp_path, remote_prefetch_bytes=0, num_threads=1
    ):
        session = popxl.Session(ir)
    assert loads(session)[1] == in_place
    rows = START.copy()
    with session:
        for _ in range(3):
            results = session.run()
            for stream, value in zip(streams, reference(rows), strict=True):
                np.testing.assert_array_equal(results[stream], value)
    for variable, row in zip(variables, rows, strict=True):
        np.testing.assert_array_equal(session.get_tensor_data(variable), row)


def test_other_devices_may_store_meanwhile():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((WIDTH,), popxl.float32, 2)
        popxl.remote_variable(START[0], buffer, 0)
        total = store(ops.sum(ops.remote_load(buffer, 0)))
        with popxl.ipu(1):
            ops.remote_store(buffer, 0, popxl.variable(np.ones(WIDTH, np.float32)))
    session = popxl.Session(ir)
    assert loads(session) == (1, 0)
    with session:
        assert session.run()[total] == START[0].sum()


def test_a_checkpoint_has_the_rows_of_its_step(tmp_path):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((WIDTH,), popxl.float32, 2)
        w = popxl.remote_variable(START[0], buffer, 0)
        update(buffer, popxl.variable(np.ones(WIDTH, np.float32)))
    session = popxl.Session(ir)
    assert loads(session) == (1, 1)
    with session:
        session.run()
        pending = checkpoint.save_later(session, tmp_path, step=1)
        for _ in range(3):
            session.run()
        pending.wait()
        np.testing.assert_array_equal(session.get_tensor_data(w), START[0] + 4)
        checkpoint.load(session, tmp_path)
        np.testing.assert_array_equal(session.get_tensor_data(w), START[0] + 1)
