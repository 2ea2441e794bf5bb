"""Streams that functions feed and drain while the program runs."""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import popxl
from pando import _core
from pando.stream_callbacks import StreamSink, StreamSource
from popxl import ops
from tests.python.in_time import WAIT, run_in_time


def running_sums(transfers: int, replicas: int = 1):
    """A program that loads a vector `transfers` times and stores the sums so far."""
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = transfers

    def accumulate(total: popxl.TensorByRef):
        ops.add_(total, ops.host_load(x))
        ops.host_store(y, total)

    with ir.main_graph:
        x = popxl.h2d_stream((2,), popxl.float32, name="x")
        y = popxl.d2h_stream((2,), popxl.float32, name="y")
        total = popxl.variable(np.zeros(2, np.float32), name="total")
        with popxl.in_sequence():
            ops.repeat(ir.create_graph(accumulate, total), transfers, total)
    return ir, x, y, total


def counted(shape: tuple[int, ...] = (2,)) -> Iterator[np.ndarray]:
    return (np.full(shape, k, np.float32) for k in itertools.count(1))


@pytest.mark.parametrize("ahead", [1, 2, 7])
@pytest.mark.parametrize("room", [1, 3])
def test_transfers_go_on_over_runs(ahead, room):
    ir, x, y, _ = running_sums(3)
    taken: list[np.ndarray] = []
    source, sink = StreamSource(counted(), ahead), StreamSink(taken.append, room)
    with popxl.Session(ir) as session:
        for run in range(1, 4):
            session.run_with_outputs({x: source}, {y: sink})
            assert len(taken) == 3 * run  # the run waits for its sink
    sums = np.cumsum(np.arange(1, 10, dtype=np.float32))
    np.testing.assert_array_equal(taken, np.stack([sums, sums], axis=1))


def test_results_arrive_while_the_program_runs():
    """Each transfer but the first is made of the result of the one before."""
    ir, x, y, _ = running_sums(5)
    arrived: list[float] = []
    condition = threading.Condition()

    def push(value: np.ndarray) -> None:
        with condition:
            arrived.append(float(value[0]))
            condition.notify()

    asked = itertools.count()

    def pull() -> np.ndarray:
        k = next(asked)
        with condition:
            assert condition.wait_for(lambda: len(arrived) >= k, WAIT)
            return np.full(2, arrived[-1] + 1 if arrived else 1, np.float32)

    with popxl.Session(ir) as session:
        session.run_with_outputs({x: StreamSource(pull, ahead=1)}, {y: StreamSink(push, room=1)})
    assert arrived == [1, 3, 7, 15, 31]


def test_tensors_of_bfloat16_go_through():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.h2d_stream((3,), popxl.bfloat16)
        y = popxl.d2h_stream((3,), popxl.bfloat16)
        ops.host_store(y, ops.host_load(x) * popxl.constant(2, popxl.bfloat16))
    given = torch.tensor([1.0, -0.5, 3.0], dtype=torch.bfloat16)
    taken: list[np.ndarray] = []
    with popxl.Session(ir) as session:
        session.run_with_outputs({x: StreamSource([given])}, {y: StreamSink(taken.append)})
    assert torch.equal(torch.from_dlpack(taken[0]), 2 * given)


@pytest.mark.parametrize("ahead", [1, 2])
def test_the_next_transfer_is_made_while_an_iteration_computes(ahead):
    """Each iteration waits until the function was asked for the transfer of the next one."""
    iterations = 4
    ir = popxl.Ir()
    asked = [threading.Event() for _ in range(iterations + 1)]
    numbers = itertools.count()
    done = itertools.count()

    def pull() -> np.ndarray:
        k = next(numbers)
        if k <= iterations:
            asked[k].set()
        return np.full(2, k, np.float32)

    def compute(x: np.ndarray) -> np.ndarray:
        assert asked[next(done) + 1].wait(WAIT)
        return 2 * x

    def body():
        x = ops.host_load(x_in)
        ops.host_store(y, ops.host_call(compute, x, outputs=[x.spec])[0])

    ir.num_host_transfers = iterations
    with ir.main_graph:
        x_in = popxl.h2d_stream((2,), popxl.float32, name="x")
        y = popxl.d2h_stream((2,), popxl.float32, name="y")
        ops.repeat(ir.create_graph(body), iterations)
    with popxl.Session(ir) as session:
        outputs = session.run({x_in: StreamSource(pull, ahead)})
    np.testing.assert_array_equal(outputs[y][:, 0], 2 * np.arange(iterations))


def test_each_replica_has_its_part():
    ir, x, y, _ = running_sums(4, replicas=2)
    given = np.random.default_rng(1).standard_normal((4, 2, 2)).astype(np.float32)
    taken: list[np.ndarray] = []
    with popxl.Session(ir) as session:
        session.run_with_outputs({x: StreamSource(given)}, {y: StreamSink(taken.append)})
    np.testing.assert_allclose(np.stack(taken), np.cumsum(given, axis=0), rtol=1e-6)


def test_arrays_and_callbacks_mix():
    ir, x, y, _ = running_sums(3)
    given = np.arange(6, dtype=np.float32).reshape(3, 2)
    with popxl.Session(ir) as session:
        outputs = session.run({x: StreamSource(list(given))})
    np.testing.assert_array_equal(outputs[y], np.cumsum(given, axis=0))


def test_the_end_of_the_data_names_the_stream_and_keeps_the_state():
    ir, x, y, total = running_sums(2)
    source = StreamSource([np.full(2, 1, np.float32)] * 3)
    with popxl.Session(ir) as session:
        session.run({x: source})
        with pytest.raises(_core.popart_runtime_error, match="stream 'x' ended after 3 transfers"):
            session.run({x: source})
        np.testing.assert_array_equal(session.get_tensor_data(total), [3, 3])
        outputs = session.run({x: np.full((2, 2), 10, np.float32)})
        np.testing.assert_array_equal(outputs[y], [[13, 13], [23, 23]])


def test_what_a_function_raises_is_raised():
    ir, x, y, total = running_sums(2)

    def pull() -> np.ndarray:
        raise KeyError("no more sheep")

    def push(value: np.ndarray) -> None:
        raise ZeroDivisionError("nowhere to put it")

    with popxl.Session(ir) as session:
        with pytest.raises(KeyError, match="no more sheep"):
            session.run({x: StreamSource(pull)})
        with pytest.raises(ZeroDivisionError, match="nowhere"):
            session.run_with_outputs({x: StreamSource(counted())}, {y: StreamSink(push)})
        before = session.get_tensor_data(total).copy()
        outputs = session.run({x: np.ones((2, 2), np.float32)})
        np.testing.assert_array_equal(outputs[y][-1], before + 2)


@pytest.mark.parametrize(
    "given", [np.ones(3, np.float32), np.ones(2, np.float64), np.ones((2, 2), np.float32), "text"]
)
def test_other_shapes_and_dtypes_are_refused(given):
    ir, x, _, _ = running_sums(2)
    wanted = pytest.raises(ValueError, match=r"stream 'x': wanted a transfer of shape \(2,\)")
    with popxl.Session(ir) as session, wanted:
        session.run({x: StreamSource(lambda: given)})


def test_a_callback_is_of_one_stream():
    ir, x, _, _ = running_sums(2)
    other, z, _, _ = running_sums(2, replicas=2)
    source = StreamSource(counted())
    with popxl.Session(ir) as session:
        session.run({x: source})
    with popxl.Session(other) as session, pytest.raises(ValueError, match="is in use for stream"):
        session.run({z: source})
    source.close()
    ended = pytest.raises(_core.popart_runtime_error, match="stream 'x' ended")
    with popxl.Session(ir) as session, ended:
        for _ in range(3):
            session.run({x: source})


def test_parameters_are_checked():
    with pytest.raises(TypeError, match="wanted a function or something to iterate over"):
        StreamSource(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="wanted a function; given 3"):
        StreamSink(3)  # type: ignore[arg-type]
    for room in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="wanted room for 1 transfer or more"):
            StreamSource([], room)  # type: ignore[arg-type]


def interrupt_when(ready: threading.Event) -> threading.Thread:
    def work() -> None:
        assert ready.wait(WAIT)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


CALLS: dict[str, Callable[[popxl.Session, Any, Any], Any]] = {
    "run": lambda session, x, total: session.run({x: np.ones((3, 2), np.float32)}),
    "get_tensor_data": lambda session, x, total: session.get_tensor_data(total),
    "write_variable_data": lambda session, x, total: session.write_variable_data(total, [1, 1]),
    "weights_to_host": lambda session, x, total: session.weights_to_host(),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("side", ["source", "sink"])
def test_the_session_cannot_be_called_by_a_function_of_its_run(name, side):
    ir, x, y, total = running_sums(3)
    taken: list[np.ndarray] = []

    def function(*value: np.ndarray) -> Any:
        return CALLS[name](session, x, total)

    source = StreamSource(function if side == "source" else counted())
    sink = StreamSink(function if side == "sink" else lambda value: None)

    def work() -> None:
        with pytest.raises(RuntimeError, match="a function that its own run waits for, 'stream "):
            session.run_with_outputs({x: source}, {y: sink})

    with popxl.Session(ir) as session:
        run_in_time(work)
        session.write_variable_data(total, np.zeros(2, np.float32))
        session.run_with_outputs({x: np.ones((3, 2), np.float32)}, {y: StreamSink(taken.append)})
    np.testing.assert_array_equal(taken, [[1, 1], [2, 2], [3, 3]])


def test_a_source_may_call_the_session_between_runs():
    ir, x, y, total = running_sums(1)
    ended, was_read = threading.Event(), threading.Event()
    read: list[np.ndarray] = []

    def transfers() -> Iterator[np.ndarray]:
        yield np.ones(2, np.float32)
        assert ended.wait(WAIT)
        read.append(session.get_tensor_data(total).copy())
        was_read.set()
        yield 2 * read[-1]

    with popxl.Session(ir) as session:
        source = StreamSource(transfers())
        session.run({x: source})
        ended.set()
        assert was_read.wait(WAIT)
        assert session.run({x: source})[y].tolist() == [3, 3]


def test_a_source_whose_call_still_waits_when_a_run_begins_gets_an_error():
    ir, x, _, total = running_sums(1)
    ended, calls = threading.Event(), threading.Event()

    def transfers() -> Iterator[np.ndarray]:
        yield np.ones(2, np.float32)
        assert ended.wait(WAIT)
        calls.set()
        yield session.get_tensor_data(total)

    def work() -> None:
        source = StreamSource(transfers())
        session.run({x: source})
        with session._lock:
            ended.set()
            assert calls.wait(WAIT)
            with pytest.raises(RuntimeError, match="a function that its own run waits for"):
                session.run({x: source})

    with popxl.Session(ir) as session:
        run_in_time(work)
        session.run({x: np.ones(2, np.float32)})
        assert session.get_tensor_data(total).tolist() == [2, 2]


@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_function_that_blocks_can_be_interrupted(side):
    ir, x, y, total = running_sums(4)
    ready, forever = threading.Event(), threading.Event()

    def block(*value: np.ndarray) -> np.ndarray:
        ready.set()
        forever.wait(WAIT)
        return np.zeros(2, np.float32)

    source = StreamSource(block if side == "source" else counted())
    sink = StreamSink(block if side == "sink" else lambda value: None, room=1)
    with popxl.Session(ir) as session:
        thread = interrupt_when(ready)
        with pytest.raises(KeyboardInterrupt):
            session.run_with_outputs({x: source}, {y: sink})
        thread.join(WAIT)
        source.close()
        sink.close()
        forever.set()
        before = session.get_tensor_data(total).copy()
        outputs = session.run({x: np.ones((4, 2), np.float32)})
        np.testing.assert_array_equal(outputs[y][-1], before + 4)
