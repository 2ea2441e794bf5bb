"""Ops that move elements, against NumPy and torch."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random, run

X = random(2, 3, 4)
INDICES = np.array([[0, 2], [1, 2]], np.int32)


@pytest.mark.parametrize(
    ("op", "numpy_op", "torch_op"),
    [
        (lambda t: ops.reshape(t, (4, -1)), lambda x: x.reshape(4, -1), lambda x: x.reshape(4, -1)),
        (ops.flatten, np.ravel, torch.flatten),
        (ops.transpose, np.transpose, lambda x: x.permute(2, 1, 0)),
        (
            lambda t: ops.transpose(t, (1, 0, -1)),
            lambda x: x.transpose(1, 0, 2),
            lambda x: x.permute(1, 0, 2),
        ),
        (
            lambda t: ops.slice(t, [1, None], [None, -1], axis=[1, 2]),
            lambda x: x[:, 1:, :-1],
            lambda x: x[:, 1:, :-1],
        ),
        (lambda t: ops.slice(t, step=-1, axis=2), lambda x: x[..., ::-1], lambda x: x.flip(2)),
        (lambda t: ops.subsample(t, [1, 2]), lambda x: x[:, ::2], lambda x: x[:, ::2]),
        (lambda t: ops.split(t, [1, 2], 1)[1], lambda x: x[:, 1:], lambda x: x[:, 1:]),
        (lambda t: ops.cumsum(t, -1), lambda x: x.cumsum(-1), lambda x: x.cumsum(-1)),
    ],
)
def test_one_input(op, numpy_op, torch_op):
    check(op, numpy_op, X)
    check_gradient(op, torch_op, X)


def test_squeeze():
    x = random(1, 3, 1)
    check(ops.squeeze, np.squeeze, x)
    check(lambda t: ops.squeeze(t, [-1]), lambda a: a.squeeze(-1), x)


def test_concat_and_split():
    y = random(2, 1, 4, seed=1)
    check(lambda a, b: ops.concat([a, b], -2), lambda a, b: np.concatenate([a, b], 1), X, y)
    check_gradient(lambda a, b: ops.concat((a, b), 1), lambda a, b: torch.cat([a, b], 1), X, y)
    check(lambda t: ops.split(t, 2, -1), lambda a: np.split(a, 2, -1), X)


def test_views_write_through():
    def build(x):
        ops.add_(ops.slice_(x, 1, 2, axis=1), popxl.constant(1.0))
        ops.relu_(ops.transpose_(x))
        ops.add_(ops.flatten_(x), popxl.constant(2.0))

    _, (x,) = run(build, X)
    wanted = X.copy()
    wanted[:, 1] += 1
    np.testing.assert_allclose(x, np.maximum(wanted, 0) + 2, rtol=1e-6)


def test_slice_of_everything_is_the_tensor():
    with popxl.Ir().main_graph:
        x = popxl.variable(X)
        assert ops.slice(x) is x
        strides = [2]
        ops.subsample(x, strides)
        assert strides == [2, 1, 1]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis):
    indices = INDICES % X.shape[axis]

    def torch_gather(t, i):
        return torch.index_select(t, axis, i.flatten()).reshape(
            *t.shape[: axis % 3], *i.shape, *t.shape[axis % 3 + 1 :]
        )

    for op in (ops.gather, ops.tied_gather):
        check(lambda t, i, op=op: op(t, i, axis), lambda x, i: np.take(x, i, axis), X, indices)
        check_gradient(lambda t, i, op=op: op(t, i, axis), torch_gather, X, indices)


def test_gather_out_of_range_and_groups():
    indices = np.array([0, 9, -1], np.int32)
    (y,) = outputs(lambda t, i: ops.gather(t, i, 1, zero_OOR=True), X, indices)
    np.testing.assert_array_equal(y, np.stack([X[:, 0], 0 * X[:, 0], 0 * X[:, 0]], 1))
    groups = np.array([[0, 2], [1, 1]], np.int32)
    (y,) = outputs(lambda t, i: ops.groupedgather(t, i, 1, 2), X, groups)
    np.testing.assert_array_equal(y, np.stack([X[0][groups[0]], X[1][groups[1]]]))


def test_scatter():
    t, values = random(3, 4), random(2, 4, seed=1)
    indices = np.array([[0, 1, 2, 0], [1, 2, 0, 2]], np.int32)
    values_, indices_ = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.int32)
    values_[:2], indices_[:2], indices_[2] = values, indices, [2, 0, 1, 1]

    def reference(t, i, v):
        return t.scatter(0, i.long(), v)

    check(
        ops.scatter,
        lambda *a: reference(*map(torch.from_numpy, a)).numpy(),
        t,
        indices_,
        values_,
    )
    check_gradient(ops.scatter, reference, t, indices_, values_)


@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
def test_scatter_reduce(reduction):
    data, initial = random(4, 3), random(2, 3, seed=1)
    indices = np.array([0, 1, 1, 0], np.int32)
    torch_name = {"sum": "sum", "max": "amax", "min": "amin"}[reduction]

    def reference(d, i, initial_values):
        index = i.long()[:, None].expand(-1, 3)
        return initial_values.scatter_reduce(0, index, d, torch_name)

    def build(d, i, v):
        return ops.scatter_reduce(d, i, reduction, v)

    check(build, lambda *a: reference(*map(torch.from_numpy, a)).numpy(), data, indices, initial)
    check_gradient(build, reference, data, indices, initial)
    (y,) = outputs(lambda d, i: ops.scatter_reduce(d, i, reduction, axis_size=5), data, indices)
    assert y.shape == (5, 3)
    np.testing.assert_array_equal(y[2:], 0)


def test_onehot():
    classes, values = np.array([0, 2, 5], np.int32), np.array([-1.0, 2.0], np.float32)

    def build(t, v):
        return ops.onehot(t, popxl.constant(3), v, -1)

    def reference(t, v):
        on = t[:, None] == torch.arange(3)
        return torch.where(on, v[1], v[0])

    check(build, lambda *a: reference(*map(torch.from_numpy, a)).numpy(), classes, values)
    check_gradient(build, reference, classes, values)


def test_dynamic_slice_and_update():
    index, update = np.array([1], np.uint32), random(2, 2, 4, seed=1)

    def cut(t, i):
        return ops.dynamic_slice(t, i, [1], [2], True)

    check(cut, lambda x, i: x[:, 1:3], X, index)
    (y,) = outputs(lambda t, i, u: ops.dynamic_update(t, i, u, [1], [2], True), X, index, update)
    wanted = X.copy()
    wanted[:, 1:3] = update
    np.testing.assert_array_equal(y, wanted)
    _, (x, _, _) = run(
        lambda t, i, u: ops.dynamic_update_(t, i, u, [1], [2], True), X, index, update
    )
    np.testing.assert_array_equal(x, wanted)


REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.amax,
    "min": torch.amin,
    "l1": lambda x, d, keepdim: x.abs().sum(d, keepdim),
    "l2": lambda x, d, keepdim: (x * x).sum(d, keepdim).sqrt(),
    "sumsquare": lambda x, d, keepdim: (x * x).sum(d, keepdim),
    "logsum": lambda x, d, keepdim: x.sum(d, keepdim).log(),
    "logsumexp": torch.logsumexp,
    "prod": lambda x, d, keepdim: x.log().sum(d, keepdim).exp(),
}


@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (1, True), ((-1, 0), False)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name, axis, keepdims):
    x = random(2, 3, 4, low=0.2)
    axes = (0, 1, 2) if axis is None else axis

    def reference(t):
        return REDUCTIONS[name](t, axes, keepdim=keepdims)

    def build(t):
        return getattr(ops, name)(t, axis, keepdims)

    check(build, lambda a: reference(torch.from_numpy(a)).numpy(), x)
    check_gradient(build, reference, x)


def test_median():
    check(lambda t: ops.median(t, 2), lambda x: np.sort(x, 2)[:, :, 1], X)
    check_gradient(lambda t: ops.median(t, 2), lambda x: x.median(2).values, X)


def test_ordering():
    check(ops.argmax, lambda x: x.argmax(0).astype(np.int32), X)
    check(lambda t: ops.argmin(t, -1, True), lambda x: x.argmin(-1)[..., None].astype(np.int32), X)

    def top(x):
        order = np.argsort(-x, 2)[:, :, :2]
        return np.take_along_axis(x, order, 2), order.astype(np.int32)

    check(lambda t: ops.topk(t, 2, 2, True, True), top, X)
    check_gradient(lambda t: ops.topk(t, 2, 2, True, True), lambda x: torch.topk(x, 2, 2).values, X)
    levels = [-1.0, 0.0, 1.0]
    (counts,) = outputs(lambda t: ops.histogram(t, levels, False), X)
    edges = [-np.inf, *levels, np.inf]
    np.testing.assert_array_equal(counts, np.histogram(X, edges)[0])


def test_errors():
    with popxl.Ir().main_graph:
        x = popxl.variable(X)
        with pytest.raises(ValueError, match="Invalid shape value in reshape"):
            ops.reshape(x, (0, -1))
        with pytest.raises(ValueError):
            ops.reshape(x, (-1, -1))
        for shape in ((5, 5), (5, -1)):
            with pytest.raises(popart.popart_exception):
                ops.reshape(x, shape)
        with pytest.raises(ValueError):
            ops.squeeze(x, [0])
        with pytest.raises(ValueError):
            ops.transpose(x, (0, 1, 3))
        with pytest.raises(popart.popart_exception):
            ops.transpose(x, (0, 1))
        with pytest.raises(TypeError, match="must have the same type"):
            ops.concat([x, popxl.variable(X.astype(np.float16))])
        with pytest.raises(ValueError):
            ops.split(x, 5)
        with pytest.raises(ValueError):
            ops.slice(x, [1, 2], [3])
        with pytest.raises(popart.popart_exception):
            ops.sum(x, 3)
        with pytest.raises(TypeError):
            ops.argmax(x, None)
        with pytest.raises(ValueError):
            ops.histogram(x, [1.0, 0.0], False)
        with pytest.raises(ValueError):
            ops.scatter_reduce(x, x, "mean", axis_size=2)
        with pytest.raises(ValueError):
            ops.scatter_reduce(x, x, "sum")
        with pytest.raises(popart.popart_exception, match="does not have data"):
            ops.onehot(popxl.variable(1), popxl.variable(2), x, -1)
