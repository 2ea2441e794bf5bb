"""Runs a function of tensors on several replicas, each with its own data."""

import numpy as np

import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import as_list

# (replicas, stride, group size)
GROUPINGS = [(2, 1, 2), (2, 1, 1), (4, 1, 4), (4, 1, 2), (4, 2, 2), (4, 1, 1)]


def members(replicas, stride, size):
    """The replicas of the group of each replica, in order."""

    def group(r):
        return r % stride + stride * (r // (stride * size))

    return [[q for q in range(replicas) if group(q) == group(r)] for r in range(replicas)]


def replicated_values(*shape, dtype=np.float32, seed=0):
    """Integers in [-4, 4], or in [0, 8] where they must not be negative."""
    dtype = np.dtype(dtype)
    low, high = (0, 9) if dtype.kind == "u" else (-4, 5)
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def load(shape, dtype):
    stream = popxl.h2d_stream(shape, dtype)
    return stream, ops.host_load(stream)


def store(t):
    stream = popxl.d2h_stream(t.shape, t.dtype)
    ops.host_store(stream, t)
    return stream


def run_replicas(build, *arrays):
    """The outputs of build(*tensors): entry r of each array (and result) is replica r's."""
    ir = popxl.Ir(replication=len(arrays[0]))
    with ir.main_graph, popxl.in_sequence():
        loads = [load(a.shape[1:], popxl.dtype.as_dtype(a.dtype)) for a in arrays]
        streams = [store(t) for t in as_list(build(ir, *(t for _, t in loads)))]
    with popxl.Session(ir, "cpu") as session:
        results = session.run({stream: a for (stream, _), a in zip(loads, arrays, strict=True)})
    outputs = [results[stream] for stream in streams]
    return outputs[0] if len(outputs) == 1 else outputs
