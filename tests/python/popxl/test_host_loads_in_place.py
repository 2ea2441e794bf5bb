"""Arrays of the host that kernels read where they are, without a copy."""

import re

import numpy as np
import pytest

import popxl
from popxl import ops

SHAPE = (3, 257)


def loads(session):
    """How many there are, and how many of them read the array in place."""
    text = session._pb_session.program.disassembly()
    return len(re.findall(r"  HostLoad ", text)), len(re.findall(r"  HostLoad \S+ as row", text))


def store(tensor):
    stream = popxl.d2h_stream(tensor.shape, tensor.dtype)
    ops.host_store(stream, tensor)
    return stream


def array_at(offset, seed=0):
    """An array that begins `offset` bytes after an address that is aligned to 64."""
    values = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
    raw = np.empty(values.nbytes + 128, np.uint8)
    begin = -raw.ctypes.data % 64 + offset
    array = raw[begin : begin + values.nbytes].view(np.float32).reshape(SHAPE)
    array[...] = values
    return array


def program(transfers=1):
    ir = popxl.Ir()
    ir.num_host_transfers = transfers
    return ir


@pytest.mark.parametrize("offset", [0, 16, 48, 4, 60])
def test_any_address_gives_the_same(offset):
    x = array_at(offset)
    ir = program()
    with ir.main_graph:
        stream = popxl.h2d_stream(SHAPE, popxl.float32)
        loaded = ops.host_load(stream)
        weight = popxl.variable(np.ones((257, 5), np.float32))
        outputs = [store(t) for t in (loaded @ weight, ops.sum(loaded, axis=1), loaded)]
    with popxl.Session(ir, "cpu") as session:
        assert loads(session) == (1, 1)
        results = session.run({stream: x})
    np.testing.assert_allclose(results[outputs[0]], x @ np.ones((257, 5)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results[outputs[1]], x.sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(results[outputs[2]], x)


def test_every_run_reads_its_own_array():
    ir = program()
    with ir.main_graph:
        stream = popxl.h2d_stream(SHAPE, popxl.float32)
        output = store(ops.max(ops.host_load(stream), axis=0))
    with popxl.Session(ir, "cpu") as session:
        assert loads(session) == (1, 1)
        for seed in range(5):
            x = array_at(16 * (seed % 3), seed)
            np.testing.assert_array_equal(session.run({stream: x})[output], x.max(0))


def test_an_array_that_the_program_changes_is_copied():
    x = array_at(0)
    before = x.copy()
    ir = program()
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream(SHAPE, popxl.float32)
        loaded = ops.host_load(stream)
        ops.add_(loaded, popxl.constant(np.ones(SHAPE, np.float32)))
        output = store(loaded)
    with popxl.Session(ir, "cpu") as session:
        assert loads(session) == (1, 0)
        np.testing.assert_array_equal(session.run({stream: x})[output], before + 1)
    np.testing.assert_array_equal(x, before)


def test_a_graph_that_changes_its_argument_is_given_a_copy():
    def change(x: popxl.TensorByRef) -> popxl.Tensor:
        ops.scaled_add_(x, x, b=2.0)
        return x * 3

    x = array_at(0)
    before = x.copy()
    ir = program()
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream(SHAPE, popxl.float32)
        loaded = ops.host_load(stream)
        graph = ir.create_graph(change, loaded)
        outputs = [store(ops.call(graph, loaded)[0]) for _ in range(2)]
    with popxl.Session(ir, "cpu") as session:
        results = session.run({stream: x})
    np.testing.assert_allclose(results[outputs[0]], before * 9, rtol=1e-6)
    np.testing.assert_allclose(results[outputs[1]], before * 27, rtol=1e-6)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("overlapping", [0, 1])
def test_an_output_in_the_memory_of_an_input_changes_no_load(shift, overlapping):
    """What is stored later must be of what was loaded, not of what a store has left there."""
    memory = np.concatenate([array_at(0), array_at(0, 1)])
    x, target = memory[:3], memory[shift : shift + 3]
    ir = program()
    with ir.main_graph:
        stream = popxl.h2d_stream(SHAPE, popxl.float32)
        loaded = ops.host_load(stream)
        twice = popxl.constant(2 * np.eye(257, dtype=np.float32))
        outputs = [store(loaded @ twice), store(loaded)]
    wanted = [x * 2, x.copy()]
    given = [np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)]
    given[overlapping] = target
    with popxl.Session(ir, "cpu") as session:
        assert loads(session) == (1, 1)
        session.run_with_outputs({stream: x}, dict(zip(outputs, given, strict=True)))
        np.testing.assert_array_equal(given, wanted)
        # The next run reads in place again.
        fresh = array_at(0, 2)
        session.run_with_outputs({stream: fresh}, dict(zip(outputs, given, strict=True)))
        np.testing.assert_array_equal(given, [fresh * 2, fresh])


def test_an_output_in_the_memory_of_another_replicas_input_changes_no_load():
    memory = np.random.default_rng(4).standard_normal((3, 64)).astype(np.float32)
    x, target = memory[:2], memory[1:]
    ir = popxl.Ir()
    ir.replication_factor = 2
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((64,), popxl.float32)
        loaded = ops.host_load(stream)
        # Each replica has loaded before either stores.
        total = ops.collectives.replicated_all_reduce(loaded)
        outputs = [store(total), store(loaded)]
    wanted = [np.stack([x.sum(0)] * 2), x.copy()]
    second = np.zeros((2, 64), np.float32)
    with popxl.Session(ir, "cpu") as session:
        assert loads(session) == (1, 1)
        session.run_with_outputs({stream: x}, dict(zip(outputs, (target, second), strict=True)))
    np.testing.assert_allclose(target, wanted[0], rtol=1e-6)
    np.testing.assert_array_equal(second, wanted[1])


@pytest.mark.parametrize("columns", [256, 257])
def test_every_transfer_of_a_loop_reads_its_own_part(columns):
    """With 257 floats only every fourth transfer is aligned."""
    transfers = 8
    x = np.random.default_rng(1).standard_normal((transfers, columns)).astype(np.float32)
    ir = program(transfers)
    with ir.main_graph:
        stream = popxl.h2d_stream((columns,), popxl.float32)
        output = popxl.d2h_stream((1,), popxl.float32)

        def body():
            ops.host_store(output, ops.max(ops.host_load(stream), axis=0, keepdims=True))

        ops.repeat(ir.create_graph(body), transfers)
    with popxl.Session(ir, "cpu") as session:
        assert loads(session) == (1, 1)
        np.testing.assert_array_equal(session.run({stream: x})[output], x.max(1, keepdims=True))


def test_two_loads_of_one_stream_are_two_parts():
    x = np.random.default_rng(1).standard_normal((2, 64)).astype(np.float32)
    ir = program(2)
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((64,), popxl.float32)
        first, second = ops.host_load(stream), ops.host_load(stream)
        output = popxl.d2h_stream((64,), popxl.float32)
        ops.host_store(output, second)
        ops.host_store(output, first)
    with popxl.Session(ir, "cpu") as session:
        assert loads(session) == (2, 2)
        result = session.run({stream: x})[output]
    np.testing.assert_array_equal(result, [x[1], x[0]])
