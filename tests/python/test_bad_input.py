"""Bad input: an error of the documented type, and a process that goes on as if nothing happened.

Damaged data files: tests/python/pando/test_datasets.py. Op by op errors: tests/python/popxl/ops.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import popart
import popxl
from pando.datasets import load_mnist_format
from pando.loss_watch import LossWatch
from popxl import ops


class Regression:
    """loss = mean((x @ w - y)^2), and one step of gradient descent on w."""

    def __init__(self, batch_size: int = 4, learning_rate: float = 0.1) -> None:
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.x = popxl.h2d_stream((batch_size, 3), popxl.float32, "x")
            self.y = popxl.h2d_stream((batch_size, 1), popxl.float32, "y")
            self.loss = popxl.d2h_stream((), popxl.float32, "loss")
            self.w = popxl.variable(np.zeros((3, 1), np.float32), name="w")
            x = ops.host_load(self.x)
            error = x @ self.w - ops.host_load(self.y)
            ops.host_store(self.loss, ops.mean(error * error))
            gradient = ops.transpose(x) @ error
            ops.scaled_add_(self.w, gradient, b=-learning_rate / max(batch_size, 1))
        self.session = popxl.Session(self.ir, "cpu")

    def feed(self, scale: float = 1.0) -> dict[Any, Any]:
        rng = np.random.default_rng(3)
        x = rng.normal(size=self.x.shape).astype(np.float32)
        y = (x @ [[1.0], [-2.0], [0.5]]).astype(np.float32)
        return {self.x: scale * x, self.y: y}

    def step(self, scale: float = 1.0) -> float:
        return float(self.session.run(self.feed(scale))[self.loss])


@pytest.fixture(autouse=True)
def process_lives_on() -> Iterator[None]:
    """After every test of this file, another program trains."""
    yield
    program = Regression()
    with program.session:
        losses = [program.step() for _ in range(30)]
    assert losses[-1] < 0.2 * losses[0]


@pytest.fixture
def main() -> Iterator[popxl.Graph]:
    ir = popxl.Ir()
    with ir.main_graph:
        yield ir.main_graph
    # The faulty ops left nothing behind: what remains can be compiled and run.
    with ir.main_graph:
        ops.add_(popxl.variable(1.0), popxl.constant(1.0))
    with popxl.Session(ir) as session:
        session.run()


def variable(*shape: int, dtype: Any = np.float32) -> popxl.Tensor:
    return popxl.variable(np.ones(shape, dtype))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: variable(2, 3) + variable(4, 5), r"\[2, 3\] and \[4, 5\] are not aligned"),
        (lambda: variable(2) + variable(2, dtype=np.int32), "incompatible types float32 and int32"),
        (lambda: variable(2, 3) @ variable(2, 3), "contracting dimensions unequal"),
        (lambda: variable(2, 3).reshape((7,)), r"6 elements.*got \(7,\)"),
        (lambda: ops.concat([variable(2, 3), variable(2, 4)], 0), "differ in axis 0 only"),
        (lambda: ops.softmax(variable(2, 3), 5), "axis 5 is out of range"),
        (lambda: ops.softmax(variable(2, 3), -3), "axis -1 is out of range"),
        (
            lambda: ops.nll_loss(variable(2, 3), variable(2, 3, dtype=np.int32)),
            r"labels of shape \(2,\)",
        ),
    ],
)
def test_wrong_shapes_and_dtypes(main: popxl.Graph, build: Any, message: str) -> None:
    with pytest.raises(popart.popart_exception, match=message) as error:
        build()
    assert type(error.value) is popart.popart_exception
    assert "test_bad_input.py:" in str(error.value), "the line of the program is named"
    assert "internal error" not in str(error.value)


def test_values_that_are_no_tensors(main: popxl.Graph) -> None:
    for wrong in (None, "text", 3, object()):
        with pytest.raises(TypeError, match="The input `rhs` is not a Tensor"):
            ops.add(variable(2), wrong)
    with pytest.raises(ValueError, match="no popxl dtype"):
        popxl.variable(["text"])
    with pytest.raises(ValueError, match=r"sizes of 0 or more.*\(-1, 3\)"):
        popxl.h2d_stream((-1, 3), popxl.float32)


def test_a_graph_built_outside_a_context() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0)
        graph = ir.create_empty_graph("graph")
        stream = popxl.h2d_stream((), popxl.float32)
    attempts = [
        popxl.gcg,
        popxl.get_main_graph,
        popxl.get_ir,
        lambda: x + x,
        lambda: ops.add(x, x),
        lambda: ops.host_load(stream),
        lambda: ops.call(graph),
        lambda: popxl.variable(1.0),
        lambda: popxl.constant(1.0),
        lambda: popxl.graph_input((), popxl.float32),
        lambda: popxl.h2d_stream((), popxl.float32),
        lambda: popxl.remote_buffer((), popxl.float32),
    ]
    for attempt in attempts:
        with pytest.raises(RuntimeError, match="no graph has been selected"):
            attempt()


def test_a_tensor_used_in_the_wrong_graph(main: popxl.Graph) -> None:
    ir = main.ir
    x = variable(2)
    graph = ir.create_graph(lambda a: a + a, x)
    with pytest.raises(ValueError, match="`lhs` is not in the current Graph"):
        ops.add(graph.outputs[0], x)
    with graph, pytest.raises(ValueError, match="pass it to the graph as an input"):
        ops.add(x, x)
    with graph, pytest.raises(ValueError, match="is not in the current graph"):
        ops.call(graph, x)
    with graph, pytest.raises(ValueError):
        popxl.graph_output(x)


def test_parts_of_another_ir() -> None:
    program = Regression()
    ir = popxl.Ir()
    with ir.main_graph:
        parts_of_another_ir(program)


def parts_of_another_ir(program: Regression) -> None:
    x = variable(2)
    other = popxl.Ir()
    with pytest.raises(RuntimeError), other.main_graph:
        pass
    foreign = other.create_empty_graph("foreign")
    for attempt in (
        lambda: ops.call(foreign),
        lambda: ops.repeat(foreign, 2),
        lambda: ops.conditional(popxl.variable(True), foreign, foreign),
    ):
        with pytest.raises(RuntimeError, match=r"belongs to Ir.*make it in the Ir that uses it"):
            attempt()
    with pytest.raises(ValueError, match="`rhs` is not in the current Graph"):
        ops.add(x, program.w)
    # Same ids here and there: the wrong stream would be taken silently.
    popxl.h2d_stream((4, 3), popxl.float32, "x")
    popxl.d2h_stream((2,), popxl.float32, "loss")
    for attempt in (
        lambda: ops.host_load(program.x),
        lambda: ops.host_store(program.loss, popxl.constant(1.0)),
    ):
        with pytest.raises(RuntimeError, match="belongs to Ir"):
            attempt()


def test_feeds_of_the_wrong_form() -> None:
    program = Regression()
    feed = program.feed()
    wrong_values: list[tuple[Any, type[Exception], str]] = [
        (np.ones((4, 2), np.float32), ValueError, r"\(4, 2\).*wants shape \(4, 3\)"),
        (np.ones((3, 4, 3), np.float32), ValueError, r"wants shape \(4, 3\)"),
        (np.ones((0, 3), np.float32), ValueError, r"\(0, 3\).*wants shape \(4, 3\)"),
        ([], ValueError, "wants shape"),
        (None, ValueError, "wants shape"),
        (np.ones((4, 3), np.int32), popart.popart_runtime_error, "Type discrepancy for tensor x"),
        (np.ones((4, 3), np.float16), popart.popart_runtime_error, "wanted float32.*float16"),
        (np.full((4, 3), None), popart.popart_runtime_error, "object"),
    ]
    missing = {program.y: feed[program.y]}
    spare = {**feed, program.loss: np.zeros((), np.float32)}
    with program.session as session:
        before = program.step()
        weights = session.get_tensor_data(program.w).copy()
        for value, kind, message in wrong_values:
            with pytest.raises(kind, match=message):
                session.run({**feed, program.x: value})
        for streams in ({}, None, missing, spare, {**feed, "x": 1}):
            with pytest.raises(ValueError, match="Unexpected/Missing input"):
                session.run(streams)
        with pytest.raises(TypeError, match="wanted a mapping"):
            session.run([feed[program.x], feed[program.y]])  # type: ignore[arg-type]
        # Nothing of it reached the weights.
        np.testing.assert_array_equal(session.get_tensor_data(program.w), weights)
        assert program.step() < before


def test_data_files_that_are_missing_or_cut_off(tmp_path: Any) -> None:
    with pytest.raises(FileNotFoundError, match="no data folder"):
        load_mnist_format(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte"):
        load_mnist_format(tmp_path)
    header = bytes((0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2))
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        (tmp_path / name).write_bytes(header + bytes(7))
    with pytest.raises(ValueError, match=r"holds 23 bytes.*calls for 24"):
        load_mnist_format(tmp_path)


def test_data_files_of_other_elements(tmp_path: Any) -> None:
    images = bytes((0, 0, 0x0D, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1)) + bytes(4)
    labels = bytes((0, 0, 8, 1, 0, 0, 0, 1)) + bytes(1)
    for prefix in ("train", "t10k"):
        (tmp_path / f"{prefix}-images-idx3-ubyte").write_bytes(images)
        (tmp_path / f"{prefix}-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(ValueError, match=r"images of float32.*must be uint8"):
        load_mnist_format(tmp_path)


def test_a_loss_that_becomes_nan_is_reported_once() -> None:
    reports: list[str] = []
    watch = LossWatch(reports.append)
    program = Regression()
    with program.session as session:
        for step in range(1, 21):
            watch.add(program.step(scale=np.nan if step == 7 else 1.0))
        # The weights are NaN since step 7, and so are all losses since; the run went on.
        assert watch.num_steps == 20
        assert watch.first_bad_step == 7
        np.testing.assert_array_equal(np.isnan(watch.losses), np.arange(1, 21) >= 7)
        assert reports == ["The loss is nan at step 7; training goes on."]
        session.write_variable_data(program.w, np.zeros((3, 1), np.float32))
        for _ in range(20):
            watch.add(program.step())
    assert np.isfinite(watch.losses[20:]).all()
    assert watch.losses[-1] < watch.losses[20]
    assert len(reports) == 1


def test_an_empty_batch() -> None:
    program = Regression(batch_size=0)
    with program.session as session:
        loss = session.run(program.feed())[program.loss]
        # The mean of nothing, as NumPy has it; a sum over nothing changes no weight.
        assert np.isnan(loss)
        np.testing.assert_array_equal(session.get_tensor_data(program.w), np.zeros((3, 1)))
        with pytest.raises(ValueError, match=r"\(4, 3\).*wants shape \(0, 3\)"):
            session.run({**program.feed(), program.x: np.ones((4, 3), np.float32)})
    ir = popxl.Ir()
    with ir.main_graph:
        ops.add_(popxl.variable(0.0), ops.cast(ops.argmax(variable(0, 3)), popxl.float32)[0])
    with pytest.raises(ValueError, match="0 elements"), ir.main_graph:
        ops.add(variable(2), variable(2)._ensure_tensor([]))
    with pytest.raises(popart.popart_exception, match="no elements"), popxl.Session(ir) as session:
        session.run()


HUGE = 1 << 40


@pytest.mark.parametrize("shape", [(HUGE, HUGE), (HUGE, 1 << 20), (1 << 62,)])
def test_a_tensor_beyond_every_memory(main: popxl.Graph, shape: tuple[int, ...]) -> None:

    for attempt in (
        lambda: ops.init(shape, popxl.float32),
        lambda: popxl.graph_input(shape, popxl.float32),
        lambda: popxl.h2d_stream(shape, popxl.float32),
        lambda: popxl.remote_buffer(shape, popxl.float32),
        lambda: popxl.remote_buffer((HUGE,), popxl.float32, HUGE),
    ):
        with pytest.raises(popart.OutOfMemoryException, match="bytes that a process can address"):
            attempt()


def test_a_huge_allocation() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        out = popxl.d2h_stream((HUGE,), popxl.float32)
        big = ops.init((HUGE,), popxl.float32, "big")
        ops.host_store(out, ops.exp(big))
    session = popxl.Session(ir)
    for _ in range(2):
        with pytest.raises(popart.OutOfMemoryException, match="machine has") as error, session:
            pass
        assert f"{4 * HUGE} bytes  Fill_out" in error.value.getSummaryReport()
        assert not session.is_attached
    with ir.main_graph, pytest.raises(MemoryError):
        popxl.variable(np.broadcast_to(np.float32(1), (HUGE,)))


def test_a_huge_remote_buffer() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((1 << 30,), popxl.float32, 1 << 10)
        ops.add_(popxl.variable(0.0), ops.sum(ops.remote_load(buffer, 0)))
    with (
        pytest.raises(popart.OutOfMemoryException, match=r"remote buffer 1.*machine has"),
        popxl.Session(ir) as session,
    ):
        session.run()


def test_sessions_of_two_programs_at_once() -> None:
    first, second = Regression(), Regression(learning_rate=0.05)
    with first.session, second.session:
        losses = [(first.step(), second.step()) for _ in range(10)]
    alone = Regression()
    with alone.session:
        assert [alone.step() for _ in range(10)] == [loss for loss, _ in losses]
    assert losses[1][0] != losses[1][1]


def test_two_sessions_of_one_program() -> None:
    program = Regression()
    second = popxl.Session(program.ir, "cpu")
    with program.session:
        program.step()
        with second:
            # It starts from the host's weights and has its own copy of them.
            assert second.get_tensor_data(program.w).any() == np.False_
            first_loss = float(second.run(program.feed())[program.loss])
        assert program.step() < first_loss
    with pytest.raises(ValueError, match="with session"):
        second.run(program.feed())


def test_sessions_in_two_threads() -> None:
    programs = [Regression(), Regression()]
    losses: list[list[float]] = [[], []]

    def train(index: int) -> None:
        losses[index] = [programs[index].step() for _ in range(200)]

    with programs[0].session, programs[1].session:
        threads = [threading.Thread(target=train, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(losses[0]) == 200
    assert losses[0] == losses[1]


def test_a_session_after_its_end() -> None:
    program = Regression()
    session, feed = program.session, program.feed()
    with session:
        program.step()
        trained = session.get_tensor_data(program.w).copy()
    assert not session.is_attached
    for attempt in (
        lambda: session.run(feed),
        lambda: session.run_with_outputs(feed, session.create_host_outputs()),
        session.weights_from_host,
        session.weights_to_host,
    ):
        with pytest.raises(ValueError, match="with session"):
            attempt()
    np.testing.assert_array_equal(session.get_tensor_data(program.w), trained)
    with session:
        assert np.isfinite(program.step())


def test_sessions_of_other_things() -> None:
    for wrong in (None, "cpu", popxl.Ir().main_graph):
        with pytest.raises(TypeError, match=r"wanted a popxl\.Ir"):
            popxl.Session(wrong)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="has no graphs"):
        popxl.Session(popxl.Ir())
