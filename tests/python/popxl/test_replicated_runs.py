"""Programs of several replicas: training, failures, interrupts."""

import signal
import threading

import numpy as np
import pytest

import popart
import popxl
from pando.settings import use_session_settings
from popxl import ops
from popxl.ops import collectives
from tests.python.popxl.replica_testing import load, store

# Training.


def training_program(replicas, batch, steps):
    """A two-layer network with a mean loss; gradients are averaged over the replicas."""
    rng = np.random.default_rng(5)
    weights = [
        rng.standard_normal(shape).astype(np.float32) * 0.3 for shape in ((8, 16), (16,), (16, 4))
    ]
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = steps
    with ir.main_graph:
        variables = [popxl.variable(w, name=f"w{i}") for i, w in enumerate(weights)]
        images = popxl.h2d_stream((batch, 8), popxl.float32)
        labels = popxl.h2d_stream((batch,), popxl.int32)
        losses = popxl.d2h_stream((), popxl.float32)

        def network(x, y, w0, b0, w1):
            hidden = ops.relu(x @ w0 + b0)
            return ops.nll_loss(ops.softmax(hidden @ w1, 1), y)

        def step(*ws):
            with popxl.in_sequence():
                x, y = ops.host_load(images), ops.host_load(labels)
                specs = [x.spec, y.spec, *(w.spec for w in ws)]
                graph = ir.create_graph(network, *(popxl.TensorSpec(**s) for s in specs))
                info = popxl.transforms.autodiff(graph, grads_required=graph.inputs[2:])
                call = ops.call_with_info(graph, x, y, *ws)
                gradients = ops.call(
                    info.graph,
                    popxl.constant(1.0, popxl.float32),
                    inputs_dict=info.inputs_dict(call),
                )
                ops.host_store(losses, call.outputs[0])
                for w, gradient in zip(ws, gradients, strict=True):
                    mean = collectives.replicated_all_reduce(gradient, "mean")
                    ops.scaled_add_(w, mean, b=-0.5)

        graph = ir.create_empty_graph("step")
        with graph:
            inputs = [popxl.graph_input(v.shape, v.dtype, by_ref=True) for v in variables]
            step(*inputs)
        ops.repeat(graph, steps, *variables)
    return ir, variables, images, labels, losses


def train(replicas, x, y):
    steps, batch = x.shape[0], x.shape[1] // replicas
    ir, variables, images, labels, losses = training_program(replicas, batch, steps)
    if replicas > 1:
        x = x.reshape(steps, replicas, batch, 8)
        y = y.reshape(steps, replicas, batch)
    with popxl.Session(ir) as session:
        loss = session.run({images: x, labels: y})[losses]
    return [session.get_tensor_data(v).copy() for v in variables], loss


def batches(steps=20, batch=12):
    rng = np.random.default_rng(6)
    x = rng.standard_normal((steps, batch, 8)).astype(np.float32)
    return x, np.argmax(x[..., :4], -1).astype(np.int32)


@pytest.mark.parametrize("replicas", [2, 4])
def test_data_parallel_training_equals_one_replica(replicas):
    x, y = batches()
    single, loss = train(1, x, y)
    parallel, losses = train(replicas, x, y)
    np.testing.assert_allclose(losses.mean(1), loss, rtol=1e-5)
    assert loss[-1] < 0.6 * loss[0]
    for a, b in zip(single, parallel, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("replicas", [2, 4])
def test_training_gives_the_same_bits_every_time(replicas):
    x, y = batches()
    first = train(replicas, x, y)
    for _ in range(3):
        again = train(replicas, x, y)
        np.testing.assert_array_equal(again[1], first[1])
        for a, b in zip(again[0], first[0], strict=True):
            np.testing.assert_array_equal(a, b)


# Failures.


def failing_program(replicas=2):
    """Every replica loads the remote entry it is given, then all reduce."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32, entries=3)
        stream, entry = load((), popxl.int32)
        total = collectives.replicated_all_reduce(ops.remote_load(buffer, entry))
        output = store(total)
    return ir, stream, output


@pytest.mark.parametrize("replica", [0, 1, 3])
def test_a_failure_in_one_replica_stops_all(replica):
    ir, stream, output = failing_program(4)
    entries = np.zeros(4, np.int32)
    with popxl.Session(ir) as session:
        for _ in range(3):
            entries[replica] = 7
            with pytest.raises(
                popart.popart_runtime_error,
                match=rf"^replica {replica}: remote buffer 1 has 3 entries.*entry 7",
            ):
                session.run({stream: entries})
            entries[replica] = 0
            np.testing.assert_array_equal(session.run({stream: entries})[output], np.zeros((4, 2)))


def diverging_program(different_collective):
    """Replicas with a true flag reduce in the one branch; the others do something else."""
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        stream, flag = load((), popxl.bool)
        x = popxl.constant(np.ones(2, np.float32))

        def one(t: popxl.Tensor):
            return collectives.replicated_all_reduce(t)

        def other(t: popxl.Tensor):
            return collectives.replicated_all_reduce(t, "max") if different_collective else t * 2

        branches = [ir.create_graph(branch, x) for branch in (one, other)]
        output = store(ops.conditional(flag, *branches, [x], [x])[0])
    return ir, stream, output


def test_replicas_in_different_collectives():
    ir, stream, output = diverging_program(True)
    with popxl.Session(ir) as session:
        with pytest.raises(
            popart.popart_runtime_error,
            match=r"replica \d is in ReplicatedAllReduce .*_runs.py.* but replica \d is in",
        ):
            session.run({stream: np.array([True, False])})
        result = session.run({stream: np.array([True, True])})[output]
        np.testing.assert_array_equal(result, np.full((2, 2), 2))


def test_a_replica_that_ends_before_the_others():
    ir, stream, output = diverging_program(False)
    with popxl.Session(ir) as session:
        with pytest.raises(
            popart.popart_runtime_error, match=r"replica 1 waits for replica 0 .* has ended"
        ):
            session.run({stream: np.array([False, True])})
        result = session.run({stream: np.array([False, False])})[output]
        np.testing.assert_array_equal(result, np.full((2, 2), 2))


def slow_program(collective_first):
    """Replica 1 computes for a long time (billions of iterations); replica 0 does not."""
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        stream, flag = load((), popxl.bool)
        x = popxl.constant(np.ones(2, np.float32))

        def increment(t: popxl.Tensor):
            return t + 1

        step = ir.create_graph(increment, x)

        def forever(t: popxl.Tensor):
            return ops.repeat(step, 2_000_000_000, t)[0]

        slow, fast = ir.create_graph(forever, x), ir.create_graph(increment, x)
        result = ops.conditional(flag, slow, fast, [x], [x])[0]
        if collective_first:
            result = collectives.replicated_all_reduce(result)
        output = store(result)
    return ir, stream, output


def test_a_replica_that_does_not_arrive_in_time():
    ir, stream, _ = slow_program(True)
    with use_session_settings(collective_timeout_seconds=0.05):
        session = popxl.Session(ir)
    with (
        session,
        pytest.raises(
            popart.popart_runtime_error,
            match=r"^replica 0 waited 0.05 seconds for replica 1 in ReplicatedAllReduce",
        ),
    ):
        session.run({stream: np.array([False, True])})


@pytest.mark.parametrize("collective", [True, False])
@pytest.mark.parametrize("slow", [0, 1])
def test_interrupt_stops_all(collective, slow):
    ir, stream, _ = slow_program(collective)
    flags = np.zeros(2, bool)
    flags[slow] = True
    with popxl.Session(ir) as session:
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.run({stream: flags})
        timer.join()
