"""bfloat16 against PyTorch: computed in float32, rounded once at the end of an op."""

import ml_dtypes
import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import gradients, outputs, random

BFLOAT16 = ml_dtypes.bfloat16
F = torch.nn.functional
# Half a unit in the last place of a number near 1, and a little for another order of sums.
ROUNDING = 2.0**-8 * 1.02


def to_torch(array):
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def to_numpy(tensor):
    return tensor.detach().to(torch.float32).numpy()


def bits(values):
    return np.ascontiguousarray(values).view(np.uint16)


def every_value():
    """All bfloat16 numbers; a program may take denormals as zero."""
    codes = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)
    magnitudes = np.abs(codes.astype(np.float32))
    return codes[~((magnitudes > 0) & (magnitudes < 2.0**-126))]


def sample(*shape, seed=0, low=-2.0, high=2.0):
    return random(*shape, dtype=np.float32, seed=seed, low=low, high=high).astype(BFLOAT16)


def same(given, wanted):
    """Equal bit by bit, but for the bits of NaN."""
    wanted = wanted.detach()
    assert wanted.dtype == torch.bfloat16 and given.dtype == BFLOAT16
    wanted = wanted.view(torch.int16).numpy().view(np.uint16)
    numbers = ~np.isnan(wanted.view(BFLOAT16).astype(np.float32))
    np.testing.assert_array_equal(np.isnan(given.astype(np.float32)), ~numbers)
    np.testing.assert_array_equal(bits(given)[numbers], wanted[numbers])


def close(given, wanted, units=1.0):
    wanted = to_numpy(wanted)
    assert given.dtype == BFLOAT16
    scale = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(
        given.astype(np.float32), wanted, rtol=units * ROUNDING, atol=units * ROUNDING * scale
    )


EXACT = {
    "negate": torch.neg,
    "abs": torch.abs,
    "relu": torch.relu,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "sign": torch.sign,
}


@pytest.mark.parametrize("name", EXACT)
def test_every_value_of_exact_functions(name):
    x = every_value()
    if name == "sign":  # torch has 0 for NaN
        x = x[~np.isnan(x.astype(np.float32))]
    same(outputs(getattr(ops, name), x)[0], EXACT[name](to_torch(x)))


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "gelu", "sin"])
def test_functions_are_rounded_once(name):
    x = sample(4000, low=0.01, high=5.0)
    function = getattr(torch, name, None) or (lambda t: F.gelu(t, approximate="tanh"))
    given = outputs(getattr(ops, name), x)[0]
    wanted = function(torch.from_numpy(x.astype(np.float64))).to(torch.bfloat16)
    codes = wanted.view(torch.int16).numpy().view(np.uint16)
    away = np.abs(bits(given).astype(int) - codes.astype(int))
    # A result within an error of float32 from a tie may round the other way.
    assert away.max() <= 1
    assert (away > 0).mean() < 0.003


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum"])
def test_binary(name):
    numbers = every_value()
    rng = np.random.default_rng(5)
    a, b = rng.choice(numbers, 20000), rng.choice(numbers, 20000)
    function = getattr(torch, name)
    wanted = function(to_torch(a), to_torch(b))
    kept = torch.abs(wanted.to(torch.float32)) >= 2.0**-126
    kept |= ~torch.isfinite(wanted) | (wanted == 0)
    given = outputs(getattr(ops, name), a, b)[0]
    same(given[kept.numpy()], wanted[kept])


def test_chains_round_after_every_op():
    a, b = sample(3000, seed=1), sample(3000, seed=2)
    s, t = to_torch(a), to_torch(b)
    given = outputs(lambda x, y: (x * y + x) * y - x, a, b)[0]
    same(given, (s * t + s) * t - s)


def test_casts_round_to_nearest_even():
    patterns = np.random.default_rng(3).integers(0, 1 << 32, 50000, dtype=np.uint32)
    # Zeros, infinities, NaN; the largest numbers; ties and their neighbours.
    words = "0 80000000 7F800000 FF800000 7F800001 FFFFFFFF 7F7F7FFF 7F7F8000 3F808000 3F818000"
    words += " 3F807FFF 3F808001"
    edges = np.array([int(word, 16) for word in words.split()], np.uint32)
    x = np.concatenate([edges, patterns]).view(np.float32)
    x = x[~((np.abs(x) < 2.0**-126) & (x != 0))]
    same(outputs(lambda t: ops.cast(t, popxl.bfloat16), x)[0], to_torch(x).to(torch.bfloat16))
    back = outputs(lambda t: ops.cast(t, popxl.float32), every_value())[0]
    np.testing.assert_array_equal(back, every_value().astype(np.float32))
    halves = outputs(lambda t: ops.cast(t, popxl.float16), sample(500))[0]
    np.testing.assert_array_equal(halves, to_torch(sample(500)).to(torch.float16).numpy())
    integers = outputs(lambda t: ops.cast(t, popxl.int32), sample(500, high=9))[0]
    np.testing.assert_array_equal(integers, to_torch(sample(500, high=9)).to(torch.int32).numpy())


@pytest.mark.parametrize(
    "shapes", [((8, 64), (64, 48)), ((130, 70), (70, 33)), ((3, 1, 5), (5, 1)), ((2, 4, 6), (6, 9))]
)
def test_products_accumulate_in_float32(shapes):
    a, b = (sample(*shape, seed=i) for i, shape in enumerate(shapes))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    given = outputs(ops.matmul, a, b)[0]
    close(given, torch.from_numpy(exact))
    close(given, to_torch(a) @ to_torch(b))


def test_a_long_sum_is_not_rounded_on_the_way():
    x = np.full((1, 4096), 1.0, BFLOAT16)
    assert float(outputs(ops.matmul, x, x.T.copy())[0][0, 0]) == 4096.0
    assert float(outputs(lambda t: ops.sum(t, 1), x)[0][0]) == 4096.0
    assert float(outputs(lambda t: ops.mean(t, 1), x)[0][0]) == 1.0


LAYERS = {
    "softmax": (lambda x: ops.softmax(x, 1), lambda x: F.softmax(x, 1), ((6, 40),)),
    "layer_norm": (
        lambda x, w, b: ops.layer_norm(x, w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, (40,), w, b, 1e-5),
        ((6, 40), (40,), (40,)),
    ),
    "conv": (
        lambda x, w: ops.conv(x, w, (1, 1), (1, 1, 1, 1)),
        lambda x, w: F.conv2d(x, w, padding=1),
        ((2, 3, 8, 8), (4, 3, 3, 3)),
    ),
    "average_pool": (
        lambda x: ops.average_pool(x, (2, 2), (2, 2)),
        lambda x: F.avg_pool2d(x, 2, 2),
        ((2, 3, 8, 8),),
    ),
    "max_pool": (
        lambda x: ops.max_pool(x, (2, 2), (2, 2)),
        lambda x: F.max_pool2d(x, 2, 2),
        ((2, 3, 8, 8),),
    ),
    "matmul": (ops.matmul, torch.matmul, ((6, 40), (40, 7))),
    "gelu": (ops.geluerf, F.gelu, ((50,),)),
    "sum": (lambda x: ops.sum(x, 1), lambda x: x.sum(1), ((6, 40),)),
    "mean": (lambda x: ops.mean(x, 0), lambda x: x.mean(0), ((6, 40),)),
    "add": (ops.add, torch.add, ((6, 40), (40,))),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_their_gradients(name):
    build, reference, shapes = LAYERS[name]
    arrays = [sample(*shape, seed=10 + i) for i, shape in enumerate(shapes)]
    tensors = [to_torch(a).requires_grad_() for a in arrays]
    wanted = reference(*tensors)
    close(outputs(build, *arrays)[0], wanted)
    given, weights = gradients(build, *arrays)
    wanted.backward(to_torch(weights).reshape(wanted.shape))
    for gradient, tensor in zip(given, tensors, strict=True):
        close(gradient, tensor.grad, units=2.0)


def torch_layer(module):
    def reference(x, *weights):
        layer = module(x.shape[2], weights[1].shape[1], bias=False)
        names = [name for name, _ in layer.named_parameters()]
        values = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(layer, values, (x,))[0]

    return reference


def torch_ctc_loss(x):
    """Without exp(x), which torch adds to the gradient."""
    targets = torch.tensor([[1, 2], [3, 3]])
    loss = F.ctc_loss(x, targets, torch.tensor([5, 5]), torch.tensor([2, 2]), reduction="none")
    added = (x.detach().exp() * x).sum((0, 2))
    return loss - added + added.detach()


def torch_scattered_products(x):
    products = torch.ones(3, 5).scatter_reduce(0, INDICES.long(), x, "prod")
    return products * torch.zeros(3, 5).scatter(0, INDICES.long(), 1.0)


INDICES = torch.tensor([[0, 0, 2, 2, 2], [2, 0, 2, 0, 2], [0, 2, 2, 0, 0], [2, 2, 0, 0, 2]])
SYSTEM = np.tril(np.eye(6, dtype=np.float32) * 2 + random(6, 6) / 6).astype(BFLOAT16)
# Their references are computed in float32: PyTorch has most of them in that format only.
IN_FLOAT32 = {
    "scaled_dot_product_attention": (
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [sample(2, 4, 70, 16, seed=1), sample(2, 4, 70, 16, seed=2), sample(2, 4, 70, 24, seed=3)],
    ),
    "lstm": (
        lambda t, *w: ops.lstm(t, [w])[0],
        torch_layer(torch.nn.LSTM),
        [sample(5, 3, 7), sample(16, 7, seed=1) / 4, sample(16, 4, seed=2) / 4],
    ),
    "gru": (
        lambda t, *w: ops.gru(t, [w])[0],
        torch_layer(torch.nn.GRU),
        [sample(5, 3, 7), sample(12, 7, seed=1) / 4, sample(12, 4, seed=2) / 4],
    ),
    "ctc_loss": (
        lambda p: ops.ctc_loss(
            p,
            *[popxl.constant(v, popxl.int32) for v in ([[1, 2], [3, 3]], [5, 5], [2, 2])],
            reduction="none",
        ),
        torch_ctc_loss,
        [sample(5, 2, 4, high=-1.0)],
    ),
    "triangular_solve": (
        ops.triangular_solve,
        lambda t, b: torch.linalg.solve_triangular(t, b, upper=False),
        [SYSTEM, sample(6, 3)],
    ),
    "cholesky": (ops.cholesky, lambda t: torch.linalg.cholesky((t + t.mT) / 2), [SYSTEM]),
    "cumprod": (
        lambda t: ops.cumprod(t, 1),
        lambda x: torch.cumprod(x, 1),
        [sample(4, 9, low=0.5, high=1.5)],
    ),
    "sort": (
        lambda t: ops.sort(t, 1)[0],
        lambda x: torch.sort(x, dim=1, stable=True)[0],
        [sample(3, 200)],
    ),
    "scatter_reduce": (
        lambda t: ops.scatter_reduce(
            t, popxl.constant(INDICES.numpy(), popxl.int32), "prod", axis_size=3
        ),
        torch_scattered_products,
        [sample(4, 5, low=0.5, high=1.5)],
    ),
    "pad": (
        lambda t: ops.pad(t, [(0, 0), (2, 1)], "reflect"),
        lambda x: F.pad(x, (2, 1), mode="reflect"),
        [sample(4, 9)],
    ),
    "unfold": (
        lambda t: ops.unfold(t, (3, 2)),
        lambda x: F.unfold(x, (3, 2)),
        [sample(2, 3, 6, 7)],
    ),
    "log1p": (ops.log1p, torch.log1p, [sample(50, low=-0.5)]),
    "expm1": (ops.expm1, torch.expm1, [sample(50)]),
    "atan": (ops.atan, torch.atan, [sample(50)]),
    "erf": (ops.erf, torch.erf, [sample(50)]),
    "erfc": (ops.erfc, torch.erfc, [sample(50)]),
}


@pytest.mark.parametrize("name", IN_FLOAT32)
def test_ops_that_torch_computes_in_float32(name):
    build, reference, arrays = IN_FLOAT32[name]
    tensors = [to_torch(a).to(torch.float32).requires_grad_() for a in arrays]
    wanted = reference(*tensors)
    close(outputs(build, *arrays)[0], wanted)
    given, weights = gradients(build, *arrays)
    wanted.backward(to_torch(weights).to(torch.float32).reshape(wanted.shape))
    # Gradients of several ops round after each.
    for gradient, tensor in zip(given, tensors, strict=True):
        close(gradient, tensor.grad, units=4.0)


def test_rows_are_gathered_and_their_gradients_added():
    x = sample(5, 6)
    indices = np.array([4, 0, 4, 4, 1], np.int32)

    def build(t):
        return ops.gather(t, popxl.constant(indices), 0)

    tensor = to_torch(x).requires_grad_()
    wanted = tensor[torch.from_numpy(indices).long()]
    same(outputs(build, x)[0], wanted)
    given, weights = gradients(build, x)
    wanted.backward(to_torch(weights))
    close(given[0], tensor.grad)


def test_draws_are_those_of_float32_rounded():
    seed = np.array([3, 5], np.uint32)
    for draw in (ops.random_normal, ops.random_uniform):
        wide = outputs(lambda s, draw=draw: draw(s, (4000,), dtype=popxl.float32), seed)[0]
        narrow = outputs(lambda s, draw=draw: draw(s, (4000,), dtype=popxl.bfloat16), seed)[0]
        wanted = wide.astype(BFLOAT16)
        inside = wanted.astype(np.float32) < 1.0
        chosen = inside if draw is ops.random_uniform else np.ones(4000, bool)
        np.testing.assert_array_equal(bits(narrow)[chosen], bits(wanted)[chosen])
        if draw is ops.random_uniform:
            assert narrow.astype(np.float32).max() < 1.0


def test_a_float32_scalar_scales_it():
    x = sample(30)
    scale = np.array(1e-3, np.float32)
    given = outputs(lambda t, s: t * s, x, scale)[0]
    same(given, (to_torch(x).to(torch.float32) * 1e-3).to(torch.bfloat16))


def test_it_does_not_mix_with_other_dtypes():
    with popxl.Ir().main_graph:
        x = popxl.variable(sample(3))
        for other in (np.float16, np.float32):
            with pytest.raises(popart.popart_exception, match="bfloat16"):
                ops.add(x, popxl.variable(np.ones(3, other)))


def test_adam_moments():
    m, v = sample(50, seed=1), random(50, seed=2, low=0.1, high=1.0)
    given = outputs(
        lambda m, v: ops.var_updates.adam_updater(m, v, time_step=None, epsilon=1e-3), m, v
    )[0]
    wanted = to_torch(m).to(torch.float32) / (torch.from_numpy(v).sqrt() + 1e-3)
    close(given, wanted.to(torch.bfloat16))


def test_replicas_add_in_float32_and_round_once():
    x = np.stack([sample(40, seed=i) for i in range(4)])
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        grouping = ir.replica_grouping(group_size=1)
        v = popxl.variable(x, replica_grouping=grouping)
        total = ops.collectives.replicated_all_reduce(v, "add")
        stream = popxl.d2h_stream(total.shape, total.dtype)
        ops.host_store(stream, total)
    with popxl.Session(ir, "cpu") as session:
        given = session.run()[stream]
    wanted = x.astype(np.float32).sum(0, dtype=np.float32).astype(BFLOAT16)
    for replica in range(4):
        np.testing.assert_array_equal(bits(given[replica]), bits(wanted))


def test_training_follows_torch():
    """A small network, trained in bfloat16 for 20 steps."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(32, 12)).astype(BFLOAT16), rng.normal(size=(32, 3)).astype(BFLOAT16)
    first, second = sample(12, 16, seed=5, low=-0.3, high=0.3), sample(16, 3, seed=6)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        weights = [popxl.variable(first), popxl.variable(second)]
        data, target = popxl.constant(x), popxl.constant(y)
        graph = ir.create_empty_graph("loss")
        with graph:
            inputs = [popxl.graph_input(t.shape, t.dtype) for t in (*weights, data, target)]
            error = ops.tanh(inputs[2] @ inputs[0]) @ inputs[1] - inputs[3]
            popxl.graph_output(ops.mean(error * error))
        info = popxl.transforms.autodiff(graph, grads_required=inputs[:2])
        call = ops.call_with_info(graph, *weights, data, target)
        seed = popxl.constant(1.0, popxl.bfloat16)
        parts = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
        rate = popxl.constant(-0.125, popxl.bfloat16)
        for weight, gradient in zip(weights, parts, strict=True):
            ops.add_(weight, gradient * rate)
        stream = popxl.d2h_stream((), popxl.bfloat16)
        ops.host_store(stream, call.outputs[0])
    tensors = [to_torch(w).requires_grad_() for w in (first, second)]
    given, wanted = [], []
    with popxl.Session(ir, "cpu") as session:
        for _ in range(20):
            given.append(float(session.run()[stream]))
            error = torch.tanh(to_torch(x) @ tensors[0]) @ tensors[1] - to_torch(y)
            loss = (error * error).mean()
            loss.backward()
            wanted.append(loss.item())
            with torch.no_grad():
                for tensor in tensors:
                    tensor += tensor.grad * -0.125
                    tensor.grad = None
    np.testing.assert_allclose(given, wanted, rtol=0.03)
    assert given[-1] < 0.7 * given[0]
