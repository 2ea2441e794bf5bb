"""Loops with a condition that the program computes, against Python's own loops and PyTorch."""

import os
import signal
import threading

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from popxl.transforms import autodiff


def collatz(ir, bound=None):
    """The steps from n to 1, and what is left of n."""

    def more(n: popxl.Tensor, steps: popxl.Tensor):
        return ops.greater(n, popxl.constant(1, popxl.int32))

    def step(n: popxl.Tensor, steps: popxl.Tensor):
        half = ops.div(n, popxl.constant(2, popxl.int32))
        odd = ops.equal(n - half * popxl.constant(2, popxl.int32), popxl.constant(1, popxl.int32))
        next_n = ops.where(odd, n * popxl.constant(3, popxl.int32) + 1, half)
        return next_n, steps + 1

    with ir.main_graph:
        n_in = popxl.h2d_stream((), popxl.int32, name="n")
        n_out = popxl.d2h_stream((), popxl.int32, name="left")
        steps_out = popxl.d2h_stream((), popxl.int32, name="steps")
        n = ops.host_load(n_in)
        zero = popxl.constant(0, popxl.int32)
        condition = ir.create_graph(more, n, zero)
        body = ir.create_graph(step, n, zero)
        left, steps = ops.while_loop(condition, body, n, zero, max_iterations=bound)
        ops.host_store(n_out, left)
        ops.host_store(steps_out, steps)
    return n_in, n_out, steps_out


def reference(n, bound=None):
    steps = 0
    while n > 1 and steps != bound:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return n, steps


@pytest.mark.parametrize("bound", [None, 0, 1, 2, 7, 200])
def test_the_trip_count_depends_on_data(bound):
    ir = popxl.Ir()
    n_in, n_out, steps_out = collatz(ir, bound)
    with popxl.Session(ir, "cpu") as session:
        for n in (1, 2, 3, 6, 7, 27):
            outputs = session.run({n_in: np.int32(n)})
            assert (outputs[n_out], outputs[steps_out]) == reference(n, bound)


def newton(ir, x, max_iterations=None):
    """The square root of x by Newton's method, until it moves by less than a part in 10^6."""

    def more(root: popxl.Tensor, change: popxl.Tensor):
        return ops.greater(ops.abs(change), popxl.constant(1e-6, popxl.float32))

    def step(root: popxl.Tensor, change: popxl.Tensor, x: popxl.Tensor):
        better = (root + x / root) * 0.5
        return better, better / root - 1.0

    start = popxl.constant(1.0, popxl.float32)
    condition = ir.create_graph(more, start, start)
    body = ir.create_graph(step, start, start, x)
    return ops.while_loop(condition, body, x, start, x, max_iterations=max_iterations)[0]


def test_shared_inputs_and_convergence():
    ir = popxl.Ir()
    with ir.main_graph:
        x_in = popxl.h2d_stream((), popxl.float32)
        out = popxl.d2h_stream((), popxl.float32)
        ops.host_store(out, newton(ir, ops.host_load(x_in)))
    with popxl.Session(ir) as session:
        for x in (0.01, 1.0, 2.0, 1e4):
            root = session.run({x_in: np.float32(x)})[out]
            np.testing.assert_allclose(root, np.sqrt(x), rtol=1e-5)


@pytest.mark.parametrize("limit", [0.0, 0.5, 3.0, 40.0, 1e9])
def test_gradient_against_torch(limit):
    """x -> tanh(x @ w) + shift while the sum of squares is below a limit."""
    rng = np.random.default_rng(3)
    x0, w0 = rng.standard_normal((2, 3)), rng.standard_normal((3, 3)) * 2
    shift0 = rng.standard_normal(3)
    most = 6

    def more(x: popxl.Tensor, count: popxl.Tensor, limit: popxl.Tensor):
        return ops.greater(limit, ops.sum(x * x) * ops.cast(count, popxl.float32))

    def step(
        x: popxl.Tensor,
        count: popxl.Tensor,
        limit: popxl.Tensor,
        w: popxl.Tensor,
        shift: popxl.Tensor,
    ):
        return ops.tanh(x @ w) + shift, count + 1

    def forward(x: popxl.Tensor, limit: popxl.Tensor, w: popxl.Tensor, shift: popxl.Tensor):
        one = popxl.constant(1, popxl.int32)
        ir = popxl.gcg().ir
        condition = ir.create_graph(more, x, one, limit)
        body = ir.create_graph(step, x, one, limit, w, shift)
        last, _ = ops.while_loop(
            condition, body, x * 1.5, one, limit, w, shift, max_iterations=most
        )
        return ops.sum(last * last)

    ir = popxl.Ir()
    with ir.main_graph:
        values = [np.asarray(v, np.float32) for v in (x0, limit, w0, shift0)]
        tensors = [popxl.variable(v) for v in values]
        graph = ir.create_graph(forward, *tensors)
        wanted = [graph.inputs[0], graph.inputs[2], graph.inputs[3]]
        gradient = autodiff(graph, grads_required=wanted)
        call = ops.call_with_info(graph, *tensors)
        seed = popxl.constant(1.0, popxl.float32)
        activations = gradient.inputs_dict(call)
        results = ops.call(gradient.graph, seed, inputs_dict=activations)
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in (*call.outputs[:1], *results)]
        for stream, tensor in zip(streams, (*call.outputs[:1], *results), strict=True):
            ops.host_store(stream, tensor)
    outputs = popxl.Session(ir)
    with outputs as session:
        given = session.run()

    x, w, shift = (
        torch.tensor(v, dtype=torch.float32, requires_grad=True) for v in (x0, w0, shift0)
    )
    state, count = x * 1.5, 0
    while count < most and float((state.detach() ** 2).sum()) * (count + 1) < limit:
        state, count = torch.tanh(state @ w) + shift, count + 1
    loss = (state * state).sum()
    loss.backward()
    for stream, value in zip(streams, (loss, x.grad, w.grad, shift.grad), strict=True):
        value = torch.zeros(stream.shape) if value is None else value
        np.testing.assert_allclose(given[stream], value.detach().numpy(), rtol=2e-4, atol=1e-5)


def test_a_variable_is_updated_in_place():
    def more(count: popxl.Tensor):
        return ops.greater(popxl.constant(5, popxl.int32), count)

    def step(count: popxl.Tensor, total: popxl.TensorByRef):
        ops.add_(total, ops.cast(count, popxl.float32))
        return count + 1

    ir = popxl.Ir()
    with ir.main_graph:
        total = popxl.variable(100.0, popxl.float32)
        zero = popxl.constant(0, popxl.int32)
        condition = ir.create_graph(more, zero)
        body = ir.create_graph(step, zero, total)
        ops.while_loop(condition, body, zero, total)
    with popxl.Session(ir) as session:
        session.run()
        session.run()
        assert session.get_tensor_data(total) == 120.0


def test_an_endless_loop_can_be_interrupted():
    def more(total: popxl.Tensor):
        return ops.greater(popxl.constant(1, popxl.int32), popxl.constant(0, popxl.int32))

    def step(total: popxl.Tensor, kept: popxl.TensorByRef):
        ops.add_(kept, total)
        return total

    ir = popxl.Ir()
    with ir.main_graph:
        one = popxl.constant(1.0, popxl.float32)
        kept = popxl.variable(0.0, popxl.float32)
        condition, body = ir.create_graph(more, one), ir.create_graph(step, one, kept)
        ops.while_loop(condition, body, one, kept)
    with popxl.Session(ir) as session:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            session.run()
        assert session.get_tensor_data(kept) > 0


@pytest.mark.parametrize("replicas", [1, 2])
def test_devices_and_replicas_agree(replicas):
    """The body runs on one virtual device, the condition on another one; replicas differ."""

    def more(x: popxl.Tensor, limit: popxl.Tensor):
        with popxl.ipu(1):
            return ops.greater(ops.ipu_copy(limit, 1, 0), ops.ipu_copy(x, 1, 0))

    def step(x: popxl.Tensor, limit: popxl.Tensor):
        with popxl.ipu(0):
            return x + x

    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.ipu(0):
        limit_in = popxl.h2d_stream((), popxl.float32)
        out = popxl.d2h_stream((), popxl.float32)
        one, limit = popxl.constant(1.0, popxl.float32), ops.host_load(limit_in)
        condition, body = ir.create_graph(more, one, limit), ir.create_graph(step, one, limit)
        ops.host_store(out, ops.while_loop(condition, body, one, limit)[0])
    limits = np.array([100, 5000][:replicas], np.float32).squeeze()
    with popxl.Session(ir) as session:
        for _ in range(20):
            result = session.run({limit_in: limits})[out]
            np.testing.assert_array_equal(result, 2 ** np.ceil(np.log2(limits)))


def test_gradient_needs_a_bound():
    def forward(x: popxl.Tensor):
        return newton(popxl.gcg().ir, x)

    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(forward, popxl.constant(2.0, popxl.float32))
        with pytest.raises(popart.popart_exception, match="needs max_iterations"):
            autodiff(graph)


def test_what_does_not_fit_is_refused():
    def one(x: popxl.Tensor):
        return x

    def two(x: popxl.Tensor, y: popxl.Tensor):
        return x, y

    ir = popxl.Ir()
    with ir.main_graph:
        x, yes = popxl.constant(1.0, popxl.float32), popxl.constant(True, popxl.bool)
        number, flag = ir.create_graph(one, x), ir.create_graph(one, yes)
        pair = ir.create_graph(two, yes, x)
        with pytest.raises(ValueError, match="wanted a condition with one output, a scalar"):
            ops.while_loop(number, number, x)
        with pytest.raises(ValueError, match="wanted a condition that takes its first inputs"):
            ops.while_loop(pair, flag, yes)
        with pytest.raises(ValueError, match="max_iterations to be None or an int"):
            ops.while_loop(flag, pair, yes, x, max_iterations=-1)
        with pytest.raises(ValueError, match="Not enough inputs"):
            ops.while_loop(flag, pair, yes)
        assert [g for g in ir._pb.graphs if "while" in g.id] == []
