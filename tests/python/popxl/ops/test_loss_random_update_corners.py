"""Losses, random numbers and optimizer updates: every argument, mixed types and errors."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from popxl.ops import var_updates
from popxl.ops.random_seed import create_random_seed
from tests.python.popxl.ops.op_testing import check, gradients, outputs, random, run

LABELS = np.array([1, 0, 3, 2, 3, 9], np.int32)  # the last one is out of range
REDUCTIONS = ["mean", "sum", "none"]
EPSILON = {np.float32: 1e-7, np.float16: 6.104e-5}
GRADIENT_EPSILON = {np.float32: 1e-10, np.float16: 6.104e-5}


def probabilities(dtype=np.float32, *shape):
    logits = torch.from_numpy(random(*(shape or (6, 5))))
    return torch.softmax(logits, -1).numpy().astype(dtype)


def chosen(probs, labels):
    """The probability of each label; 0 for one that is out of range."""
    inside = (labels >= 0) & (labels < probs.shape[-1])
    safe = np.where(inside, labels, 0)[..., None]
    return np.where(inside, np.take_along_axis(probs.astype(np.float64), safe, -1)[..., 0], 0)


def reduced(losses, kept, reduction):
    losses = np.where(kept, losses, 0)
    if reduction == "none":
        return losses
    return losses.sum() / (max(kept.sum(), 1) if reduction == "mean" else 1)


def scale_of(kept, reduction):
    return 1 / max(kept.sum(), 1) if reduction == "mean" else 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("log_prob", [False, True])
@pytest.mark.parametrize("ignore_index", [None, 3, -1])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss(reduction, ignore_index, log_prob, dtype):
    probs = probabilities(dtype)
    probs[2] = [1, 0, 0, 0, 0]  # a label of probability 0
    if log_prob:
        probs = np.log(np.maximum(probs, 1e-3)).astype(dtype)
    kept = np.ones(6, bool) if ignore_index is None else ignore_index != LABELS
    p = chosen(probs, LABELS)
    losses = -p if log_prob else -np.log(np.maximum(p, EPSILON[dtype]))

    def build(x, labels):
        return ops.nll_loss(x, labels, ignore_index, reduction, log_prob)

    tolerance = 2e-3 if dtype is np.float16 else 1e-5
    (given,) = outputs(build, probs, LABELS)
    assert given.dtype == dtype
    np.testing.assert_allclose(given, reduced(losses, kept, reduction), rtol=tolerance)

    if dtype is np.float16:
        return
    (gradient,), weights = gradients(build, probs, LABELS)
    one_hot = LABELS[:, None] == np.arange(5)
    slope = 1 if log_prob else 1 / np.maximum(p, GRADIENT_EPSILON[dtype])[:, None]
    wanted = -1.0 * one_hot * slope * kept[:, None] * scale_of(kept, reduction)
    wanted = wanted * (weights[:, None] if reduction == "none" else weights)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("types", [(np.float32, np.float32), (np.float16, np.float32)])
@pytest.mark.parametrize("ignore_index", [None, 3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss_with_softmax_grad(reduction, ignore_index, types):
    probs = probabilities(types[0])
    kept = np.ones(6, bool) if ignore_index is None else ignore_index != LABELS
    losses = -np.log(chosen(probs, LABELS) + 1e-7)
    shapes = [(), (6,)] if reduction == "none" else [()]
    for shape in shapes:
        loss_grad = random(*shape, dtype=types[1], low=1, high=8)
        loss, dx = outputs(
            lambda p, t, g: ops.nll_loss_with_softmax_grad(p, t, g, ignore_index, reduction),
            probs,
            LABELS,
            loss_grad,
        )
        assert loss.dtype == dx.dtype == types[0]
        tolerance = 4e-3 if types[0] is np.float16 else 1e-5
        np.testing.assert_allclose(loss, reduced(losses, kept, reduction), rtol=tolerance)
        one_hot = LABELS[:, None] == np.arange(5)
        wanted = (probs - one_hot) * (loss_grad[:, None] if shape else loss_grad)
        wanted = wanted * kept[:, None] * scale_of(kept, reduction)
        np.testing.assert_allclose(dx, wanted, rtol=tolerance, atol=tolerance)


def test_losses_of_more_dimensions_and_all_ignored():
    probs, labels = probabilities(np.float32, 2, 3, 5), np.array([[1, 2, 0], [4, 3, 1]], np.uint16)
    check(
        lambda p, t: ops.nll_loss(p, t),
        lambda p, t: np.float32(-np.log(chosen(p, t)).mean()),
        probs,
        labels,
    )
    same = np.full(6, 2, np.int32)
    for build in (
        lambda p, t: ops.nll_loss(p, t, 2),
        lambda p, t: ops.nll_loss_with_softmax_grad(p, t, ignore_index=2),
    ):
        for result in outputs(build, probabilities(), same):
            np.testing.assert_array_equal(result, 0)


def test_loss_names_and_errors():
    with popxl.Ir().main_graph as graph:
        p, labels = popxl.variable(probabilities()), popxl.variable(LABELS)
        assert ops.nll_loss(p, labels).name == "loss"
        loss, dx = ops.nll_loss_with_softmax_grad(p, labels, 3)
        assert dx.name == "dx"
        assert loss.name.startswith("loss")
        assert [c.dtype for c in graph.constants] == [popxl.float32]
        kinds = [op.opType() for op in graph._pb_graph.getOps()]
        assert kinds == ["Nll", "NlllWithSoftmaxGradDirect"]
        for wrong in (LABELS[:4], LABELS.astype(np.float32), LABELS.reshape(6, 1)):
            with pytest.raises(popart.popart_exception):
                ops.nll_loss(p, popxl.variable(wrong))
        for op in (ops.nll_loss, ops.nll_loss_with_softmax_grad):
            with pytest.raises(ValueError, match="Must choose from: mean, sum, none"):
                op(p, labels, reduction="max")


# --- random numbers ------------------------------------------------------------------------------

SEED = np.array([5, 7], np.uint32)
OTHER = np.array([5, 8], np.uint32)


def test_split_random_seed():
    two = outputs(lambda s: ops.split_random_seed(s), SEED)
    five = outputs(lambda s: ops.split_random_seed(s, 5), SEED)
    # A child depends on its number, not on how many there are.
    np.testing.assert_array_equal(two, five[:2])
    assert len({tuple(child) for child in five}) == 5
    assert {child[0] for child in five} == {5}
    (third,) = outputs(lambda s: create_random_seed(s, 2), SEED)
    np.testing.assert_array_equal(third, five[2])
    (other,) = outputs(lambda s: create_random_seed(s, 2), OTHER)
    assert tuple(other) != tuple(third)
    with popxl.Ir().main_graph as graph:
        seed = popxl.variable(SEED)
        children = ops.split_random_seed(seed, 3)
        assert isinstance(children, tuple)
        assert children[0].name == "modified_seed"
        assert [c.dtype for c in graph.constants] == [popxl.uint32] * 3
        assert [op.opType() for op in graph._pb_graph.getOps()] == ["ModifyRandomSeed"] * 3
        for wrong in (SEED.astype(np.int32), SEED.reshape(1, 2), SEED[:1]):
            bad = popxl.variable(wrong)
            for call in (
                lambda bad=bad: ops.split_random_seed(bad),
                lambda bad=bad: ops.random_uniform(bad, (2,)),
                lambda bad=bad: ops.dropout(popxl.variable(1.0), bad, 0.5),
            ):
                with pytest.raises(ValueError, match="seed Tensor must be shape"):
                    call()


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16, None])
def test_distributions(dtype):
    def build(seed):
        return (
            ops.random_uniform(seed, (100, 100), -1.0, 3.0, dtype),
            ops.random_normal(seed, (100, 100), 2.0, 0.5, dtype),
        )

    uniform, normal = outputs(build, SEED)
    wanted = (dtype or popxl.float32).as_numpy()
    assert uniform.dtype == normal.dtype == wanted
    assert uniform.min() >= -1
    assert uniform.max() < 3 or (wanted == np.float16 and uniform.max() <= 3)
    counts, _ = np.histogram(uniform.astype(np.float64), 10, (-1, 3))
    assert abs(counts - 1000).max() < 150
    centred = (normal.astype(np.float64) - 2) / 0.5
    assert abs(centred.mean()) < 0.05
    assert abs(centred.std() - 1) < 0.05
    assert abs((np.abs(centred) < 1).mean() - 0.6827) < 0.02
    again = outputs(build, SEED)
    np.testing.assert_array_equal(again[0], uniform)
    np.testing.assert_array_equal(again[1], normal)
    assert (outputs(build, OTHER)[0] != uniform).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
def test_dropout(p, dtype):
    x = np.ones((80, 50), dtype)
    (given,) = outputs(lambda t, s: ops.dropout(t, s, p), x, SEED)
    assert len(np.unique(given)) == (1 if p == 0 else 2)
    np.testing.assert_allclose(given[given != 0], 1 / (1 - p), rtol=1e-3)
    assert abs((given == 0).mean() - p) < 0.03
    # The mask depends on the seed alone, and the gradient has the same one.
    y = random(80, 50, dtype=dtype, low=1)
    (scaled,) = outputs(lambda t, s: ops.dropout(t, s, p), y, SEED)
    np.testing.assert_array_equal(scaled == 0, given == 0)
    ir = popxl.Ir()
    with ir.main_graph:
        t, seed = popxl.variable(x), popxl.variable(SEED)
        graph = ir.create_graph(ops.dropout, t, seed, p)
        info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
        kinds = [op.opType() for op in info.graph._pb_graph.getOps()]
        assert "Dropout" in kinds
        call = ops.call_with_info(graph, t, seed)
        (g,) = ops.call(info.graph, popxl.variable(y), inputs_dict=info.inputs_dict(call))
        stream = popxl.d2h_stream(g.shape, g.dtype)
        ops.host_store(stream, g)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[stream], scaled)


@pytest.mark.parametrize("shape", [(50, 1), (1, 40), (40,), (50, 40)])
def test_shaped_dropout(shape):
    x = random(50, 40, low=1)
    (given,) = outputs(lambda t, s: ops.shaped_dropout(t, s, shape, 0.25), x, SEED)
    mask = np.isclose(given, x / 0.75, rtol=1e-5)
    assert (mask | (given == 0)).all()
    full = np.broadcast_to(mask[: shape[0] if len(shape) > 1 else 1, : shape[-1]], x.shape)
    np.testing.assert_array_equal(mask, full)
    assert 0 < mask.mean() < 1
    ir = popxl.Ir()
    with ir.main_graph:
        t, seed = popxl.variable(x), popxl.variable(SEED)
        graph = ir.create_graph(ops.shaped_dropout, t, seed, shape, 0.25)
        info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
        call = ops.call_with_info(graph, t, seed)
        (g,) = ops.call(info.graph, t, inputs_dict=info.inputs_dict(call))
        stream = popxl.d2h_stream(g.shape, g.dtype)
        ops.host_store(stream, g)
        with pytest.raises(popart.popart_exception):
            ops.shaped_dropout(t, seed, (7, 40), 0.5)
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[stream], given)


def test_dropout_ratio_out_of_range():
    with popxl.Ir().main_graph:
        t, seed = popxl.variable(random(3)), popxl.variable(SEED)
        for p in (1.0, -0.1, float("nan")):
            with pytest.raises(ValueError, match="wanted 0 <="):
                ops.dropout(t, seed, p)
            with pytest.raises(ValueError, match="wanted 0 <="):
                ops.shaped_dropout(t, seed, (3,), p)


# --- updates -------------------------------------------------------------------------------------

T, G = random(3, 4), random(3, 4, seed=1)
TYPES = [(np.float32, np.float32), (np.float16, np.float32), (np.float32, np.float16)]
UPDATES = {
    "accumulate_": lambda t, x, f: t + f * x,
    "accumulate_square_": lambda t, x, f: t + f * x * x,
    "accumulate_moving_average_": lambda t, x, f: f * t + (1 - f) * x,
    "accumulate_moving_average_square_": lambda t, x, f: f * t + (1 - f) * x * x,
}
OUT_NAMES = {
    "accumulate_": "accumulate__v0",
    "accumulate_square_": "accumulate_square__v0",
    "accumulate_moving_average_": "accumulate_moving_avg__v0",
    "accumulate_moving_average_square_": "accumulate_moving_avg_square__v0",
}


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("is_tensor", [False, True])
@pytest.mark.parametrize("name", UPDATES)
def test_accumulate(name, is_tensor, types):
    t, x = T.astype(types[0]), G.astype(types[1])

    def build(a, b, f):
        result = getattr(var_updates, name)(a, b, f if is_tensor else 0.75)
        assert result.name == OUT_NAMES[name]
        return result

    (given,), variables = run(build, t, x, np.array(0.75, np.float32))
    wanted = UPDATES[name](t.astype(np.float64), x.astype(np.float64), 0.75)
    tolerance = 4e-3 if np.float16 in types else 1e-5
    np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)
    assert given.dtype == types[0]
    np.testing.assert_array_equal(variables[0], given)


def test_accumulate_rounding_examples():
    (half,) = outputs(
        lambda t, x: var_updates.accumulate_moving_average_(t, x, 0.9),
        np.zeros(1, np.float16),
        np.full(1, 0.1, np.float32),
    )
    assert half[0] == np.float16(0.009995)
    (square,) = outputs(
        lambda t, x: var_updates.accumulate_moving_average_square_(t, x, 0.999),
        np.zeros(1, np.float32),
        np.full(1, 0.1, np.float32),
    )
    assert square[0] == np.float32(9.9998715e-06)


@pytest.mark.parametrize("types", TYPES)
def test_accumulate_mean(types):
    values = [random(3, 4, dtype=types[1], seed=i) for i in range(3)]

    def build(t, *xs):
        for step, x in enumerate(xs):
            assert var_updates.accumulate_mean_(t, x, step).name.startswith("accumulate_mean__v0")
        return t

    (given,) = outputs(build, np.zeros((3, 4), types[0]), *values)
    tolerance = 4e-3 if np.float16 in types else 1e-5
    np.testing.assert_allclose(given, np.mean(values, 0), rtol=tolerance, atol=tolerance)
    (given,) = outputs(
        lambda t, x, s: var_updates.accumulate_mean_(t, x, s), T, G, np.array(3.0, np.float32)
    )
    np.testing.assert_allclose(given, 0.75 * T + 0.25 * G, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["accumulate_", "accumulate_square_"])
def test_accumulate_refuses_the_constant_zero(name):
    with pytest.raises(popart.popart_internal_exception):
        outputs(lambda t, x: getattr(var_updates, name)(t, x, 0.0), T, G)


def test_accumulate_errors():
    with popxl.Ir().main_graph:
        t, other = popxl.variable(T), popxl.variable(random(4))
        for update in (
            lambda: var_updates.accumulate_(t, other),
            lambda: var_updates.accumulate_(t, t, popxl.variable(random(2))),
            lambda: var_updates.copy_var_update_(t, other),
            lambda: var_updates.copy_var_update_(t, popxl.variable(T.astype(np.float16))),
            lambda: var_updates.adam_updater(t, other),
        ):
            with pytest.raises(popart.popart_exception):
                update()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_accumulator_scale(dtype):
    t = np.array([[np.nan, 1], [np.inf, -2]], dtype)
    for clear in (
        var_updates.accumulator_zero_,
        lambda v: var_updates.accumulator_scale_(v, 0.0),
    ):
        _, (v,) = run(clear, t)
        np.testing.assert_array_equal(v, np.zeros_like(t))
    _, (v, _) = run(
        lambda v, f: var_updates.accumulator_scale_(v, f),
        T.astype(dtype),
        np.array(0.5, np.float32),
    )
    np.testing.assert_allclose(v, (0.5 * T.astype(dtype)).astype(dtype), rtol=1e-3)
    if dtype is np.float32:
        row = random(4, seed=3)
        _, (v, _) = run(var_updates.accumulator_scale_, T, row)
        np.testing.assert_allclose(v, T * row, rtol=1e-6)
    with popxl.Ir().main_graph:
        name = var_updates.accumulator_zero_(popxl.variable(T, name="a")).name
        assert name == "accumulator_scale__a"
        assert var_updates.copy_var_update_(*[popxl.variable(T, name="b")] * 2).name == "updated__b"


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("factor", [None, 2.0, "tensor"])
def test_sparse_accumulate(factor, axis, types):
    t = random(5, 6, dtype=types[0])
    indices = np.array([4, 0, 4, 2], np.int32)
    x = random(*((4, 6) if axis == 0 else (5, 4)), dtype=types[1], seed=1)

    def build(a, b, i, f):
        return var_updates.sparse_accumulate_(
            a, b, i, axis, f if factor == "tensor" else factor, W=a
        )

    (given,), variables = run(build, t, x, indices, np.array(3.0, np.float32))
    wanted = t.astype(np.float64)
    scale = {None: 1.0, "tensor": 3.0}.get(factor, factor)
    target = wanted if axis == 0 else wanted.T
    np.add.at(target, indices, scale * (x if axis == 0 else x.T).astype(np.float64))
    tolerance = 1e-2 if np.float16 in types else 1e-5
    np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(variables[0], given)


UPDATERS = [var_updates.adam_updater, var_updates.lamb_updater]


@pytest.mark.parametrize("types", [(np.float32, np.float32), (np.float16, np.float32)])
@pytest.mark.parametrize("decay", [None, 0.0, 0.01, "tensor"])
@pytest.mark.parametrize("are_tensors", [False, True])
@pytest.mark.parametrize("updater", UPDATERS)
def test_adam_updater(updater, are_tensors, decay, types):
    m, v, w = T.astype(types[0]), (G * G).astype(types[1]), random(3, 4, seed=2)
    step = np.array(2.0, np.float32)
    factors = [np.array(f, np.float32) for f in (0.02, 0.9, 0.99, 1e-6)]

    def build(m, v, w, t, d, b1, b2, e):
        chosen_decay = d if decay == "tensor" else decay
        betas = (b1, b2, e) if are_tensors else (0.9, 0.99, 1e-6)
        return updater(m, v, w, t, chosen_decay, *betas)

    (given,), variables = run(build, m, v, w, step, *factors)
    assert variables[3] == 3
    corrected = m.astype(np.float64) / (1 - 0.9**3)
    wanted = corrected / (np.sqrt(v.astype(np.float64) / (1 - 0.99**3)) + 1e-6)
    scale = {None: 0.0, "tensor": 0.02}.get(decay, decay)
    wanted = wanted + scale * w
    # The result has the dtype of the weight where that takes part, else of the first moment.
    assert given.dtype == (np.float32 if scale else types[0])
    tolerance = 4e-3 if types[0] is np.float16 else 1e-4
    np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)


def test_adam_updater_inputs():
    with popxl.Ir().main_graph as graph:
        m, v, w = (popxl.variable(T, name=name) for name in "mvw")
        t = popxl.variable(0.0, name="t")
        assert var_updates.adam_updater(m, v, w, t, None, 0.9, 0.99).name == "Updater"
        var_updates.adam_updater(m, v, w, t, 0.1, 0.9, 0.99)
        var_updates.adam_updater(m, v, w)
        ids = [
            [x.id for x in op.getInputTensors()]
            for op in graph._pb_graph.getOps()
            if op.opType() == "AdamUpdater"
        ]
        assert ids == [["m", "v", "t"], ["w", "m", "v", "t"], ["m", "v"]]


@pytest.mark.parametrize("decay", [None, 0.1])
@pytest.mark.parametrize("are_tensors", [False, True])
def test_adamax_updater(are_tensors, decay):
    v, w = np.abs(G) + 0.1, random(3, 4, seed=2)

    def build(m, v, w, t, b1, e):
        factors = (b1, e) if are_tensors else (0.8, 1e-3)
        return var_updates.adamax_updater(m, v, w, t, decay, *factors)

    numbers = [np.array(f, np.float32) for f in (1.0, 0.8, 1e-3)]
    (given,), variables = run(build, T, v, w, *numbers)
    assert variables[3] == 2
    wanted = T / (1 - 0.8**2) / (v + 1e-3) + (decay or 0) * w
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("types", [(np.float32, np.float32), (np.float16, np.float32)])
@pytest.mark.parametrize("limit", [None, 1.5, 100.0, "tensor"])
def test_adam_var_update(limit, types):
    t, x = T.astype(types[0]), G.astype(types[1])

    def build(a, b, rate, m):
        r1, r2 = ops.lamb_square(a), ops.lamb_square(b)
        assert r1.name == "lamb_square_out"
        assert r1.dtype == popxl.float32
        norm = m if limit == "tensor" else limit
        if limit == "tensor":
            return var_updates.adam_var_update(a, b, r1, r2, rate, norm)
        return var_updates.adam_var_update(a, b, r1, r2, 0.1, norm)

    numbers = [np.array(0.1, np.float32), np.array(0.5, np.float32)]
    (given,), variables = run(build, t, x, *numbers)
    cap = {None: np.inf, "tensor": 0.5}.get(limit, limit)
    norms = [np.linalg.norm(a.astype(np.float64)) for a in (t, x)]
    wanted = t - 0.1 * min(norms[0], cap) / norms[1] * x.astype(np.float64)
    tolerance = 4e-3 if types[0] is np.float16 else 1e-4
    np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(variables[0], given)


def test_adam_var_update_of_zero_norms():
    zero = np.zeros((3, 4), np.float32)
    for t, x in ((zero, G), (T, zero)):
        (given,) = outputs(
            lambda a, b: var_updates.adam_var_update(
                a, b, ops.lamb_square(a), ops.lamb_square(b), 0.1, 10.0
            ),
            t,
            x,
        )
        np.testing.assert_allclose(given, t - 0.1 * x, rtol=1e-6, atol=1e-7)
    (given,) = outputs(
        lambda a, b, m: var_updates.adam_var_update(
            a, b, ops.lamb_square(a), ops.lamb_square(b), 0.1, m
        ),
        T,
        G,
        np.array(0.0, np.float32),
    )
    np.testing.assert_allclose(given, T - 0.1 * G, rtol=1e-6, atol=1e-7)
    with pytest.raises(popart.popart_internal_exception):
        outputs(
            lambda a, b: var_updates.adam_var_update(
                a, b, ops.lamb_square(a), ops.lamb_square(b), 0.1, 0.0
            ),
            T,
            G,
        )


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_lamb_square(dtype):
    x = np.full((40, 50), 60, dtype)  # the sum is beyond float16
    check(ops.lamb_square, lambda a: np.float32(np.square(a.astype(np.float64)).sum()), x)
