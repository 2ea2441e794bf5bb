"""Programs on several virtual devices against the same programs on one."""

import numpy as np
import pytest

import popxl
from pando.session_info import open_session
from popxl import ops

SIZE, BATCH, STAGES = 12, 5, 3
RNG = np.random.default_rng(5)
WEIGHTS = RNG.normal(0, 0.4, (STAGES, SIZE, SIZE)).astype(np.float32)


def run(build, data, *, devices, replicas=1, transfers=1):
    """The outputs of `build(device_of, x)` and of the variables that it returns.

    `device_of(stage)` is the device of a stage; with one device all stages are on it.
    """
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = transfers
    with ir.main_graph:
        source = popxl.h2d_stream((BATCH, SIZE), popxl.float32)
        results, variables = build(lambda stage: stage % devices, source)
    with open_session(ir, devices * replicas) as session:
        outputs = [session.run({source: data}) for _ in range(2)][-1]
    return [outputs[r] for r in results], [session.get_tensor_data(v) for v in variables]


def moved(x, device, source=None):
    source = x.ipu if source is None else source
    return x if source == device else ops.ipu_copy(x, device, source)


def store(x):
    stream = popxl.d2h_stream(x.shape, x.dtype)
    with popxl.ipu(x.ipu):
        ops.host_store(stream, x)
    return stream


def build_forward(device_of, source):
    """Every micro-batch through all stages, written one after the other."""
    results = popxl.d2h_stream((BATCH, SIZE), popxl.float32)
    weights = []
    for stage in range(STAGES):
        with popxl.ipu(device_of(stage)):
            weights.append(popxl.variable(WEIGHTS[stage]))
    for _ in range(4):
        with popxl.ipu(device_of(0)):
            x = ops.host_load(source)
        for stage, weight in enumerate(weights):
            with popxl.ipu(device_of(stage)):
                x = ops.tanh(moved(x, device_of(stage)) @ weight)
        with popxl.ipu(x.ipu):
            ops.host_store(results, x)
    return [results], weights


def build_update(device_of, source):
    """Each stage also changes its weight in place after its product."""
    weights = []
    with popxl.in_sequence():
        with popxl.ipu(device_of(0)):
            x = ops.host_load(source)
        for stage in range(STAGES):
            with popxl.ipu(device_of(stage)):
                weights.append(popxl.variable(WEIGHTS[stage]))
                x = moved(x, device_of(stage))
                y = ops.tanh(x @ weights[-1])
                gradient = ops.matmul(ops.transpose(x), y)
                ops.var_updates.accumulate_(weights[-1], gradient * 0.01)
                x = y
        result = store(x)
    return [result], weights


def build_loop(device_of, source):
    """A loop whose body is spread over the devices, with calls of one graph on each."""
    ir = popxl.gcg().ir
    graphs = []
    for stage in range(STAGES):
        with popxl.ipu(device_of(stage)):
            layer = ir.create_graph(
                lambda x, w: ops.tanh(ops.relu(x @ w) - ops.gelu(x) * x) + x,
                popxl.TensorSpec((BATCH, SIZE), popxl.float32),
                popxl.TensorSpec((SIZE, SIZE), popxl.float32),
            )
            graphs.append(layer)
    weights = [popxl.variable(w) for w in WEIGHTS]

    def body(x, *inner):
        last = device_of(0)
        for stage, graph in enumerate(graphs):
            with popxl.ipu(device_of(stage)):
                (x,) = ops.call(graph, moved(x, device_of(stage), last), inner[stage])
                last = device_of(stage)
        with popxl.ipu(device_of(0)):
            return moved(x, device_of(0), last)

    with popxl.ipu(device_of(0)):
        x = ops.host_load(source)
        spec = popxl.TensorSpec((BATCH, SIZE), popxl.float32)
        inner_specs = [popxl.TensorSpec((SIZE, SIZE), popxl.float32)] * STAGES
        loop = ir.create_graph(body, spec, *inner_specs)
        (y,) = ops.repeat(loop, 5, x, *weights)
        return [store(y)], weights


def build_branch(device_of, source):
    """Branches on different devices, and one on two."""
    ir = popxl.gcg().ir
    spec = popxl.TensorSpec((BATCH, SIZE), popxl.float32)

    def twice(x):
        with popxl.ipu(device_of(1)):
            y = moved(x, device_of(1), device_of(0)) * 2.0
        with popxl.ipu(device_of(0)):
            return moved(y, device_of(0), device_of(1)) + 1.0

    with popxl.ipu(device_of(0)):
        x = ops.host_load(source)
        positive = ops.greater(ops.sum(x), popxl.constant(0.0, popxl.float32))
        on_two, on_one = ir.create_graph(twice, spec), ir.create_graph(lambda x: x * -3.0, spec)
        (first,) = ops.conditional(positive, on_two, on_one, then_inputs=[x], else_inputs=[x])
        (second,) = ops.conditional(positive, on_one, on_two, then_inputs=[x], else_inputs=[x])
        results = [store(first), store(second)]
    return results, []


@pytest.mark.parametrize("devices", [2, 3])
@pytest.mark.parametrize(
    ("build", "transfers"),
    [(build_forward, 4), (build_update, 1), (build_loop, 1), (build_branch, 1)],
)
def test_equals_one_device(build, transfers, devices):
    shape = (transfers, BATCH, SIZE) if transfers > 1 else (BATCH, SIZE)
    data = RNG.normal(size=shape).astype(np.float32)
    for sign in (1, -1):
        wanted = run(build, sign * data, devices=1, transfers=transfers)
        given = run(build, sign * data, devices=devices, transfers=transfers)
        for one, several in zip(wanted, given, strict=True):
            assert len(one) == len(several)
            for a, b in zip(one, several, strict=True):
                np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6)


def test_on_two_replicas():
    data = RNG.normal(size=(4, 2, BATCH, SIZE)).astype(np.float32)
    ((given,), _) = run(build_forward, data, devices=2, replicas=2, transfers=4)
    for replica in range(2):
        ((wanted,), _) = run(build_forward, data[:, replica], devices=1, transfers=4)
        np.testing.assert_allclose(given[:, replica], wanted, rtol=2e-5, atol=2e-6)


def test_all_reduce_of_the_replicas_on_the_second_device():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        source = popxl.h2d_stream((3,), popxl.float32)
        x = ops.host_load(source)
        with popxl.ipu(1):
            y = ops.collectives.replicated_all_reduce(ops.ipu_copy(x, 1) * 2.0, "add")
        mean = ops.collectives.replicated_all_reduce(x, "mean")
        results = [store(y), store(mean)]
    data = np.array([[1, 2, 3], [5, 6, 7]], np.float32)
    with popxl.Session(ir) as session:
        outputs = session.run({source: data})
    np.testing.assert_array_equal(outputs[results[0]], [[12, 16, 20]] * 2)
    np.testing.assert_array_equal(outputs[results[1]], [[3, 4, 5]] * 2)


def test_gradient_of_a_graph_on_two_devices():
    def build(device_of, source):
        spec = popxl.TensorSpec((BATCH, SIZE), popxl.float32)
        weight = popxl.TensorSpec((SIZE, SIZE), popxl.float32)

        def network(x, a, b):
            with popxl.ipu(device_of(0)):
                h = ops.tanh(x @ a)
            with popxl.ipu(device_of(1)):
                return ops.sum(ops.tanh(h @ b))

        forward = popxl.gcg().ir.create_graph(network, spec, weight, weight)
        gradient = popxl.transforms.autodiff(forward)
        a, b = popxl.variable(WEIGHTS[0]), popxl.variable(WEIGHTS[1])
        site = ops.call_with_info(forward, ops.host_load(source), a, b)
        seed = popxl.constant(1.0, popxl.float32)
        gradients = ops.call(gradient.graph, seed, inputs_dict=gradient.inputs_dict(site))
        return [store(g) for g in gradients], []

    data = RNG.normal(size=(BATCH, SIZE)).astype(np.float32)
    (wanted, _), (given, _) = (run(build, data, devices=d) for d in (1, 2))
    assert len(wanted) == 3
    for a, b in zip(wanted, given, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6)


def test_gradients_are_summed_up_on_the_device_that_made_them():
    spec = popxl.TensorSpec((SIZE, SIZE), popxl.float32)

    def network(x, w):
        return ops.tanh(x @ w) @ w

    ir = popxl.Ir()
    with ir.main_graph, popxl.ipu(1):
        gradient = popxl.transforms.autodiff(ir.create_graph(network, spec, spec))
    places = {(op.kind, op.context.device) for op in gradient.graph._pb.ops}
    assert ("Sum", 1) in places and {device for _, device in places} == {1}
    lines = {op.context.line for op in gradient.graph._pb.ops}
    assert lines == {network.__code__.co_firstlineno + 1}
