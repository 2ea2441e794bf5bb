"""A small program for the tests of checkpoints, with every kind of state."""

import numpy as np

import popxl
from pando import checkpoint
from pando.settings import use_session_settings
from popxl import ops
from popxl.ops import collectives

ELEMENTS = 1500


def program(replicas=2, elements=ELEMENTS):
    """A weight on every replica, momentum sharded over them in a remote buffer, a counter of their
    own in a slot that belongs to no variable, and noise from a seed that the program steps."""
    rng = np.random.default_rng(7)
    start = rng.standard_normal(elements).astype(np.float32)
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((elements,), popxl.float32)
        x = ops.host_load(stream)
        w = popxl.variable(start, name="w")
        seed = popxl.variable(np.array([3, 5], np.uint32), name="seed")
        momenta = popxl.replica_sharded_buffer((elements,), popxl.float32)
        popxl.remote_replica_sharded_variable(np.zeros(elements, np.float32), momenta, 0)
        counts = popxl.remote_buffer((2,), popxl.float32, 3)
        gradient = collectives.replicated_all_reduce(ops.sub(w, x), "mean")
        gradient = gradient + ops.random_normal(seed, (elements,), dtype=popxl.float32) * 0.1
        seed += popxl.constant(np.array([1, 0], np.uint32))
        momentum = ops.remote_load(momenta, 0) * 0.9
        momentum = momentum + collectives.replica_sharded_slice(gradient)
        ops.remote_store(momenta, 0, momentum)
        count = ops.remote_load(counts, 2) + x[:2]
        ops.remote_store(counts, 2, count)
        ops.scaled_add_(w, collectives.replicated_all_gather(momentum), b=-0.05)
        output = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(output, count)
    return ir, w, stream, output


def session_of(ir, tier="ram", folder=""):
    with use_session_settings(num_threads=1, remote_tier=tier, remote_folder=folder):
        return popxl.Session(ir)


def train(session, stream, output, rng, steps):
    """Steps with data from `rng`; the last output."""
    result = None
    for _ in range(steps):
        data = rng.standard_normal((2, ELEMENTS)).astype(np.float32)
        result = session.run({stream: data})[output]
    return result


def fresh(tier="ram", folder=""):
    """A session of the program and what to train it with."""
    ir, w, stream, output = program()
    return session_of(ir, tier, str(folder)), w, stream, output


def straight_run():
    """Weights, the last output and the next random number of seven steps without a stop."""
    session, w, stream, output = fresh()
    rng = np.random.default_rng(1)
    with session:
        counts = train(session, stream, output, rng, 7)
        return session.get_tensor_data(w).copy(), counts, rng.standard_normal()


def names(folder):
    """The names of the checkpoints in a folder."""
    return [path.name for path in checkpoint.checkpoints(folder)]
