"""Layers, losses, random numbers and optimizer updates."""

import numpy as np
import pytest
import torch
from torch.nn import functional

import popart
import popxl
from popxl import ops
from popxl.ops import var_updates
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random, run


def as_numpy(reference):
    return lambda *arrays: reference(*(torch.from_numpy(a) for a in arrays)).numpy()


MATMUL_SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((5, 1, 2, 3), (2, 3, 4)),
]


@pytest.mark.parametrize("shapes", MATMUL_SHAPES)
def test_matmul(shapes):
    a, b = random(*shapes[0]), random(*shapes[1], seed=1)
    check(ops.matmul, np.matmul, a, b)
    check_gradient(ops.matmul, torch.matmul, a, b)


def test_matmul_types():
    a, b = random(2, 3, dtype=np.float16), random(3, 4, dtype=np.float16, seed=1)
    check(
        lambda x, y: ops.matmul(x, y, output_type=popxl.float32),
        lambda x, y: x.astype(np.float32) @ y.astype(np.float32),
        a,
        b,
    )
    with popxl.Ir().main_graph:
        x = popxl.variable(a)
        with pytest.raises(ValueError, match="must be float16 or float32"):
            ops.matmul(x, x, partials_type=popxl.int32)
        with pytest.raises(popart.popart_exception, match="contracting dimensions unequal"):
            ops.matmul(x, x)
        with pytest.raises(TypeError, match="Scaled matmul operands"):
            ops.matmul_pow2scaled(x, x, popxl.constant(0))


@pytest.mark.parametrize(("groups", "stride", "dilation"), [(1, 1, 1), (2, 2, 1), (1, 1, 2)])
def test_conv(groups, stride, dilation):
    t, weight = random(2, 4, 6, 7), random(6, 4 // groups, 3, 3, seed=1)

    def build(x, w):
        pair = (stride, stride)
        return ops.conv(x, w, pair, (1, 1, 1, 1), (dilation, dilation), groups)

    def reference(x, w):
        return functional.conv2d(x, w, None, stride, 1, dilation, groups)

    check(build, as_numpy(reference), t, weight)
    check_gradient(build, reference, t, weight)


def test_conv_transpose():
    t, weight = random(2, 4, 5, 5), random(4, 3, 3, 3, seed=1)
    check(
        lambda x, w: ops.conv_transpose(x, w, (2, 2), (1, 1, 1, 1)),
        as_numpy(lambda x, w: functional.conv_transpose2d(x, w, None, 2, 1)),
        t,
        weight,
    )


def test_pools():
    t = random(2, 3, 6, 6)

    def build_max(x):
        return ops.max_pool(x, (2, 2), (2, 2))

    def build_mean(x):
        return ops.average_pool(x, (3, 3), (2, 2), (1, 1, 1, 1))

    check(build_max, as_numpy(lambda x: functional.max_pool2d(x, 2)), t)
    check_gradient(build_max, lambda x: functional.max_pool2d(x, 2), t)

    def mean(x):
        return functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False)

    check(build_mean, as_numpy(mean), t)
    check_gradient(build_mean, mean, t)


@pytest.mark.parametrize("groups", [1, 2])
def test_group_norm(groups):
    t, weight, bias = random(3, 4, 5), random(4, seed=1), random(4, seed=2)

    def reference(x, w, b):
        return functional.group_norm(x, groups, w, b)

    def build(x, w, b):
        return ops.group_norm(x, w, b, groups)

    check(build, as_numpy(reference), t, weight, bias)
    check_gradient(build, reference, t, weight, bias)
    check(
        ops.layer_norm, as_numpy(lambda x, w, b: functional.group_norm(x, 1, w, b)), t, weight, bias
    )


def test_batch_norm_and_interpolate():
    t = random(2, 3, 4, 4)
    parameters = [random(3, seed=i, low=0.1) for i in range(4)]
    check(
        ops.batch_norm_inference,
        as_numpy(lambda x, s, b, m, v: functional.batch_norm(x, m, v, s, b)),
        t,
        *parameters,
    )
    check(
        lambda x: ops.interpolate(x, (1.0, 1.0, 2.0, 2.0)),
        as_numpy(lambda x: functional.interpolate(x, scale_factor=2)),
        t,
    )


LABELS = np.array([1, 0, 3, 2], np.int32)


@pytest.mark.parametrize("ignore_index", [None, 3])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss(reduction, ignore_index):
    probs = torch.softmax(torch.from_numpy(random(4, 5)), -1).numpy()
    ignored = -100 if ignore_index is None else ignore_index

    def reference(p, labels):
        return functional.nll_loss(
            p.log(), labels.long(), ignore_index=ignored, reduction=reduction
        )

    def build(p, labels):
        return ops.nll_loss(p, labels, ignore_index, reduction)

    check(build, as_numpy(reference), probs, LABELS)
    check_gradient(build, reference, probs, LABELS)


def test_nll_loss_with_softmax_grad():
    logits = random(4, 5)
    probs = torch.softmax(torch.from_numpy(logits), -1).numpy()
    loss, dx = outputs(lambda p, t: ops.nll_loss_with_softmax_grad(p, t, 8.0), probs, LABELS)
    leaf = torch.from_numpy(logits).requires_grad_()
    wanted = functional.cross_entropy(leaf, torch.from_numpy(LABELS).long())
    wanted.backward()
    np.testing.assert_allclose(loss, wanted.item(), rtol=1e-5)
    np.testing.assert_allclose(dx, 8 * leaf.grad, rtol=1e-4, atol=1e-6)
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="Not a valid reduction"):
        ops.nll_loss(popxl.variable(probs), popxl.variable(LABELS), reduction="max")


SEED = np.array([5, 7], np.uint32)


def test_seeds():
    children = outputs(lambda s: ops.split_random_seed(s, 3), SEED)
    assert [child[0] for child in children] == [5, 5, 5]
    assert len({int(child[1]) for child in children}) == 3
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="seed Tensor must be shape"):
        ops.split_random_seed(popxl.variable(np.zeros(3, np.uint32)))


def test_random_numbers():
    uniform, normal = outputs(
        lambda s: (ops.random_uniform(s, (4000,), -1, 3), ops.random_normal(s, (4000,), 2, 0.5)),
        SEED,
    )
    assert uniform.min() >= -1
    assert uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.1
    assert abs(normal.mean() - 2) < 0.05
    assert abs(normal.std() - 0.5) < 0.05


def test_dropout():
    x = np.ones((50, 40), np.float32)
    first, second = outputs(
        lambda t, s: (ops.dropout(t, s, 0.25), ops.dropout(t, s, 0.25)), x, SEED
    )
    np.testing.assert_array_equal(first, second)
    assert set(np.unique(first)) == {0, np.float32(1 / 0.75)}
    assert abs((first == 0).mean() - 0.25) < 0.05
    (rows,) = outputs(lambda t, s: ops.shaped_dropout(t, s, (50, 1), 0.5), x, SEED)
    assert ((rows == 0).all(1) | (rows == 2).all(1)).all()


T, G = random(3, 4), random(3, 4, seed=1)


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        (lambda t, x: var_updates.accumulate_(t, x), T + G),
        (lambda t, x: var_updates.accumulate_(t, x, 0.5), T + 0.5 * G),
        (lambda t, x: var_updates.accumulate_square_(t, x, 0.5), T + 0.5 * G * G),
        (lambda t, x: var_updates.accumulate_mean_(t, x, 3), 0.75 * T + 0.25 * G),
        (lambda t, x: var_updates.accumulate_moving_average_(t, x, 0.9), 0.9 * T + 0.1 * G),
        (
            lambda t, x: var_updates.accumulate_moving_average_square_(t, x, popxl.constant(0.9)),
            0.9 * T + 0.1 * G * G,
        ),
        (lambda t, x: var_updates.accumulator_scale_(t, 0.5), 0.5 * T),
        (lambda t, x: var_updates.accumulator_zero_(t), 0 * T),
        (var_updates.copy_var_update_, G),
    ],
)
def test_variable_update(update, wanted):
    results, variables = run(update, T, G)
    np.testing.assert_allclose(variables[0], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results[0], variables[0])


def test_sparse_accumulate():
    x, indices = random(3, 4, seed=1), np.array([0, 2, 0], np.int32)
    _, (t, _, _) = run(
        lambda t, x, i: var_updates.sparse_accumulate_(t, x, i, f=2.0), T, x, indices
    )
    wanted = T.copy()
    np.add.at(wanted, indices, 2 * x)
    np.testing.assert_allclose(t, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("updater", [var_updates.adam_updater, var_updates.lamb_updater])
def test_adam_updater(updater):
    m, v, w, step = T, G * G, random(3, 4, seed=2), np.array(1.0, np.float32)

    def build(m, v, w, step):
        return updater(m, v, w, step, 0.01, 0.9, 0.99, 1e-6)

    (x,), variables = run(build, m, v, w, step)
    corrected = (m / (1 - 0.9**2)) / (np.sqrt(v / (1 - 0.99**2)) + 1e-6) + 0.01 * w
    np.testing.assert_allclose(x, corrected, rtol=1e-4, atol=1e-5)
    assert variables[3] == 2
    (x,) = outputs(lambda m, v: updater(m, v, epsilon=1e-6), m, v)
    np.testing.assert_allclose(x, m / (np.sqrt(v) + 1e-6), rtol=1e-4)


def test_adamax_and_lamb_update():
    (x,) = outputs(
        lambda m, v, s: var_updates.adamax_updater(m, v, time_step=s),
        T,
        G * G,
        np.array(0.0, np.float32),
    )
    np.testing.assert_allclose(x, T / (1 - 0.9) / (G * G + 1e-7), rtol=1e-4)

    def build(t, x):
        return var_updates.adam_var_update(t, x, ops.lamb_square(t), ops.lamb_square(x), 0.1, 10.0)

    _, (t, _) = run(build, T, G)
    ratio = min(np.linalg.norm(T), 10.0) / np.linalg.norm(G)
    np.testing.assert_allclose(t, T - 0.1 * ratio * G, rtol=1e-4, atol=1e-5)


def test_updater_errors():
    with popxl.Ir().main_graph:
        m = popxl.variable(T)
        step = popxl.variable(0.0)
        with pytest.raises(ValueError, match="Bias correction requires both"):
            var_updates.adam_updater(m, m, time_step=step, beta1=0.9)
        with pytest.raises(ValueError, match="Weight decay requires weight"):
            var_updates.adam_updater(m, m, weight_decay=0.1)
        with pytest.raises(ValueError, match="AdaMax requires time_step"):
            var_updates.adamax_updater(m, m)
