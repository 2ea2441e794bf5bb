"""Gathers, scatters, one-hot and dynamic slices in their corners."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from popxl.ops.scatter_reduce import grouped_scatter_reduce
from tests.python.popxl.ops.op_testing import (
    check,
    check_gradient,
    gradients,
    outputs,
    random,
    run,
)

X = random(2, 3, 4)


def i32(*values):
    return np.array(values, np.int32)


# --- gather --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gather", "tied_gather", "groupedgather"])
def test_gather_zeroes_out_of_range(name):
    op = getattr(ops, name)
    indices = i32(0, 3, -1, 2, 2, 2**31 - 1)

    def reference(x, i):
        inside = (i >= 0) & (i < 3)
        return np.where(inside[:, None], np.take(x, np.where(inside, i, 0), 1), 0).astype(x.dtype)

    check(lambda t, i: op(t, i, 1, zero_OOR=True), reference, X, indices)
    # Without it the values are unspecified, but nothing breaks.
    (given,) = outputs(lambda t, i: op(t, i, 1), X, indices)
    np.testing.assert_array_equal(given[:, [0, 3]], X[:, [0, 2]])
    (gradient,), weights = gradients(lambda t, i: op(t, i, 1, zero_OOR=True), X, indices)
    wanted = np.zeros_like(X)
    np.add.at(wanted, (slice(None), [0, 2, 2, 2]), weights[:, [0, 3, 4, 4]] * 0)
    wanted[:, 0] = weights[:, 0]
    wanted[:, 2] = weights[:, 3] + weights[:, 4]
    np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6)


def test_gather_shapes_and_float16_gradient():
    x = random(5, 3, dtype=np.float16)
    indices = np.random.default_rng(0).integers(0, 5, (2, 4)).astype(np.int32)
    check(ops.gather, lambda a, i: a[i], x, indices)
    check_gradient(ops.gather, lambda t, i: t[i.long()], x, indices)
    check(ops.gather, lambda a, i: a[i], x, np.array(2, np.int32))
    with popxl.Ir().main_graph:
        t, i = popxl.variable(x), popxl.variable(indices)
        assert ops.tied_gather(t, i).name == "tiedgather_out"
        for axis in (2, -3):
            with pytest.raises(popart.popart_exception):
                ops.gather(t, i, axis)


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_grouped_gather(axis):
    x = random(2, 4, 5)
    indices = np.random.default_rng(0).integers(0, 4, (2, 3)).astype(np.int32)

    def reference(a, i):
        return torch.stack([torch.index_select(a[b], axis % 3 - 1, i[b]) for b in range(2)])

    check(
        lambda t, i: ops.groupedgather(t, i, axis, 2),
        lambda a, i: reference(*map(torch.from_numpy, (a, i))).numpy(),
        x,
        indices,
    )
    check_gradient(lambda t, i: ops.groupedgather(t, i, axis, 2), reference, x, indices)
    with popxl.Ir().main_graph, pytest.raises(popart.popart_exception):
        ops.groupedgather(popxl.variable(x), popxl.variable(indices), 0, 2)


# --- scatter -------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter(axis):
    x, values = random(3, 4), random(3, 4, seed=1)
    order = np.argsort(np.random.default_rng(0).random((3, 4)), axis % 2).astype(np.int32)

    def reference(t, i, v):
        return t.scatter(axis, i.long(), v)

    check(
        lambda t, i, v: ops.scatter(t, i, v, axis),
        lambda *a: reference(*map(torch.from_numpy, a)).numpy(),
        x,
        order,
        values,
    )
    check_gradient(lambda t, i, v: ops.scatter(t, i, v, axis), reference, x, order, values)
    with popxl.Ir().main_graph:
        t, i, v = map(popxl.variable, (x, order, values))
        for arguments in ((t, i, popxl.variable(values[:2])), (t, i, v, 2)):
            with pytest.raises(popart.popart_exception):
                ops.scatter(*arguments)


REDUCE = {"sum": "sum", "max": "amax", "min": "amin"}


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("reduction", REDUCE)
def test_scatter_reduce(reduction, whole, axis):
    data, d = random(4, 5), axis % 2
    size = 3
    shape = [4, 5]
    shape[d] = size
    initial = random(*shape, seed=1)
    generator = np.random.default_rng(0)
    count = data.shape[d]
    indices = generator.integers(0, size, (4, 5) if whole else count).astype(np.int32)

    def full(i):
        index = torch.as_tensor(i).long()
        if not whole:
            index = index.reshape((-1, 1) if d == 0 else (1, -1)).expand(4, 5)
        return index

    def reference(t, i, v):
        return v.scatter_reduce(d, full(i), t, REDUCE[reduction])

    def build(t, i, v):
        return ops.scatter_reduce(t, i, reduction, v, axis)

    check(build, lambda *a: reference(*map(torch.from_numpy, a)).numpy(), data, indices, initial)
    check_gradient(build, reference, data, indices, initial)

    def without(t, i):
        empty = torch.zeros(shape)
        return empty.scatter_reduce(d, full(i), t, REDUCE[reduction], include_self=False)

    check(
        lambda t, i: ops.scatter_reduce(t, i, reduction, axis=axis, axis_size=size),
        lambda *a: without(*map(torch.from_numpy, a)).numpy(),
        data,
        indices,
    )
    check_gradient(
        lambda t, i: ops.scatter_reduce(t, i, reduction, axis=axis, axis_size=size),
        without,
        data,
        indices,
    )


def test_scatter_reduce_none_overwrites():
    data, initial, indices = random(2, 3), random(4, 3, seed=1), i32(2, 0)

    def reference(t, i, v):
        return v.index_copy(0, i.long(), t)

    def build(t, i, v):
        return ops.scatter_reduce(t, i, "none", v)

    check(build, lambda *a: reference(*map(torch.from_numpy, a)).numpy(), data, indices, initial)
    check_gradient(build, reference, data, indices, initial)


def test_scatter_reduce_index_forms():
    data = random(4, 3)
    column = i32(0, 1, 1, 0).reshape(4, 1)
    wanted = np.zeros((2, 3), np.float32)
    np.add.at(wanted, column[:, 0], data)
    check(
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=2), lambda *_: wanted, data, column
    )
    # Without broadcast the index may be smaller than the data, element by element.
    small = np.array([[0, 1], [1, 0]], np.int32)
    reference = torch.zeros(2, 3).scatter_add(
        0, torch.from_numpy(small).long(), torch.from_numpy(data)
    )
    check(
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=2, enable_index_broadcast=False),
        lambda *_: reference.numpy(),
        data,
        small,
    )


def test_grouped_scatter_reduce():
    data, indices = random(2, 4, 3), np.array([[0, 1, 1, 0], [2, 2, 0, 1]], np.int32)
    wanted = np.zeros((2, 3, 3), np.float32)
    for b in range(2):
        np.add.at(wanted[b], indices[b], data[b])
    check(
        lambda t, i: grouped_scatter_reduce(t, i, "sum", axis=1, axis_size=3, group_size=2),
        lambda *_: wanted,
        data,
        indices,
    )


def test_scatter_reduce_errors():
    with popxl.Ir().main_graph:
        t, i = popxl.variable(random(4, 3)), popxl.variable(i32(0, 1, 1, 0))
        with pytest.raises(ValueError, match="Not a valid scatter reduction"):
            ops.scatter_reduce(t, i, "mul", axis_size=2)
        with pytest.raises(ValueError):
            ops.scatter_reduce(t, i, "sum")
        for indices in (i32(0, 1), np.zeros((4, 2), np.int32)):
            with pytest.raises(popart.popart_exception):
                ops.scatter_reduce(t, popxl.variable(indices), "sum", axis_size=2)
        with pytest.raises(popart.popart_exception):
            ops.scatter_reduce(t, i, "sum", popxl.variable(random(2, 2)))


# --- onehot --------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_onehot(axis, dtype):
    classes = np.array([[0, 2, -1], [4, 1, 2]], np.int32)
    values = np.array([3, 7], dtype)

    def reference(t, v):
        on = np.moveaxis(t[..., None] == np.arange(4), -1, axis)
        return np.where(on, v[1], v[0])

    check(lambda t, v: ops.onehot(t, popxl.constant(4), v, axis), reference, classes, values)
    if dtype is np.float32:
        given, weights = gradients(
            lambda t, v: ops.onehot(t, popxl.constant(4), v, axis), classes, values
        )
        on = reference(classes, np.array([0, 1]))
        wanted = [(weights * (1 - on)).sum(), (weights * on).sum()]
        np.testing.assert_allclose(given[0], wanted, rtol=1e-5)


def test_onehot_errors():
    with popxl.Ir().main_graph as graph:
        t, values = popxl.variable(i32(0, 1)), popxl.variable(random(2))
        classes = popxl.constant(3)
        ops.onehot(t, classes, values, 0)
        assert graph._pb_graph.getOps()[-1].inTensorCount() == 2
        for axis in (-2, 2):
            with pytest.raises(popart.popart_exception):
                ops.onehot(t, classes, values, axis)
        for arguments in (
            (t, popxl.variable(3), values),
            (t, popxl.constant([3, 3]), values),
            (t, classes, popxl.variable(random(3))),
        ):
            with pytest.raises(popart.popart_exception):
                ops.onehot(*arguments, -1)


# --- dynamic slices ------------------------------------------------------------------------------


@pytest.mark.parametrize("index_type", [np.uint32, np.int32])
@pytest.mark.parametrize("no_overlap", [True, False])
def test_dynamic_slice_of_several_axes(no_overlap, index_type):
    index, update = np.array([1, 2], index_type), random(2, 2, 2, seed=1)

    def cut(t, i):
        return ops.dynamic_slice(t, i, [1, 2], [2, 2], no_overlap)

    def put(t, i, u):
        return ops.dynamic_update(t, i, u, [1, 2], [2, 2], no_overlap)

    check(cut, lambda x, _: x[:, 1:3, 2:4], X, index)

    def torch_put(t, _, u):
        result = t.clone()
        result[:, 1:3, 2:4] = u
        return result

    def numpy_put(*arrays):
        return torch_put(*(torch.from_numpy(a.astype(np.float32)) for a in arrays)).numpy()

    check(put, numpy_put, X, index, update)
    given, weights = gradients(cut, X, index)
    wanted = np.zeros_like(X)
    wanted[:, 1:3, 2:4] = weights
    np.testing.assert_array_equal(given[0], wanted)
    given, weights = gradients(put, X, index, update)
    np.testing.assert_array_equal(given[1], weights[:, 1:3, 2:4])
    weights = weights.copy()
    weights[:, 1:3, 2:4] = 0
    np.testing.assert_array_equal(given[0], weights)


def test_dynamic_update_in_place_is_an_alias():
    def build(t, i, u):
        alias = ops.dynamic_update_(t, i, u, [0], [1], True)
        ops.add_(t, popxl.constant(1.0))
        return alias

    update = random(1, 3, 4, seed=1)
    (given,), variables = run(build, X, i32(1), update)
    np.testing.assert_allclose(given, np.concatenate([X[:1], update]) + 1, rtol=1e-6)
    np.testing.assert_array_equal(variables[0], given)


@pytest.mark.parametrize("start", [-5, 3, 100])
def test_dynamic_slice_beyond_the_end_is_safe(start):
    outputs(lambda t, i: ops.dynamic_slice(t, i, [2], [3], True), X, i32(start))
    run(
        lambda t, i, u: ops.dynamic_update_(t, i, u, [2], [3], True),
        X,
        i32(start),
        random(2, 3, 3),
    )


def test_dynamic_errors():
    with popxl.Ir().main_graph:
        t, i = popxl.variable(X), popxl.variable(i32(0))
        assert ops.dynamic_slice(t, i, [1], [1], True).name == "dynamic_slice_out"
        for axes, sizes in (([1, 2], [1, 1]), ([1], [4]), ([3], [1]), ([1], [1, 1])):
            with pytest.raises(popart.popart_exception):
                ops.dynamic_slice(t, i, axes, sizes, True)
