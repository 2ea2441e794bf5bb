"""Runs one op, forward and backward, so that a test of it is one line."""

import numpy as np
import torch

import popxl
from popxl import ops

_TOLERANCE = {np.dtype(np.float16): 4e-3, np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-13}


def as_list(value):
    if value is None:
        return []
    return list(value) if isinstance(value, (tuple, list)) else [value]


def random(*shape, dtype=np.float32, seed=0, low=-2.0, high=2.0):
    values = np.random.default_rng(seed).uniform(low, high, shape)
    return values.astype(dtype)


def run(build, *arrays):
    """The outputs of build(*variables) as arrays, and the variables afterwards."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        variables = [
            popxl.variable(array, name=f"v{i}", downcast=False) for i, array in enumerate(arrays)
        ]
        streams = []
        for tensor in as_list(build(*variables)):
            stream = popxl.d2h_stream(tensor.shape, tensor.dtype)
            ops.host_store(stream, tensor)
            streams.append(stream)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
        outputs = [np.array(results[stream]) for stream in streams]
    return outputs, [np.array(session.get_tensor_data(v)) for v in variables]


def outputs(build, *arrays):
    return run(build, *arrays)[0]


def check(build, reference, *arrays):
    """Compares shapes, dtypes and values with those of reference(*arrays)."""
    wanted = [np.asarray(w) for w in as_list(reference(*arrays))]
    given = outputs(build, *arrays)
    assert len(given) == len(wanted)
    for g, w in zip(given, wanted, strict=True):
        assert g.shape == w.shape
        assert g.dtype == w.dtype
        tolerance = _TOLERANCE.get(w.dtype, 0)
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


def gradients(build, *arrays):
    """Gradients of the sum of (output 0 * fixed weights) for the float arrays, and the weights."""
    ir = popxl.Ir()
    with ir.main_graph:
        variables = [popxl.variable(array) for array in arrays]
        graph = ir.create_empty_graph("forward")
        with graph:
            inputs = [popxl.graph_input(v.shape, v.dtype) for v in variables]
            result = as_list(build(*inputs))[0]
            popxl.graph_output(result)
        required = [t for t in inputs if t.dtype.is_floating_point]
        info = popxl.transforms.autodiff(graph, grads_required=required)
        call = ops.call_with_info(graph, *variables)
        weights = random(*result.shape, dtype=result.dtype.as_numpy(), seed=99)
        seed = popxl.variable(weights)
        streams = []
        for gradient in ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call)):
            stream = popxl.d2h_stream(gradient.shape, gradient.dtype)
            ops.host_store(stream, gradient)
            streams.append(stream)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    return [np.array(results[stream]) for stream in streams], weights


def check_gradient(build, reference, *arrays):
    """Compares gradients with those of reference(*torch tensors)."""
    given, weights = gradients(build, *arrays)
    tensors = [torch.from_numpy(np.array(array)) for array in arrays]
    leaves = [t.requires_grad_() for t in tensors if t.is_floating_point()]
    reference(*tensors).backward(torch.from_numpy(weights))
    assert len(given) == len(leaves)
    for g, leaf in zip(given, leaves, strict=True):
        tolerance = 10 * _TOLERANCE[g.dtype]
        np.testing.assert_allclose(g, leaf.grad.numpy(), rtol=tolerance, atol=tolerance)
