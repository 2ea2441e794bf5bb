"""Views, gathers, scatters and dynamic slices in their corners."""

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


# --- views ---------------------------------------------------------------------------------------


VIEWS = {
    "reshape_": (lambda t: ops.reshape_(t, (4, -1)), lambda x: x.reshape(4, -1)),
    "flatten_": (ops.flatten_, lambda x: x.reshape(-1)),
    "transpose_": (lambda t: ops.transpose_(t, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "slice_": (
        lambda t: ops.slice_(t, [1, -1], [3, 0], [1, -1], [1, 2]),
        lambda x: x[:, 1:3, -1:0:-1],
    ),
    "detach_": (ops.detach_, lambda x: x),
}


@pytest.mark.parametrize("name", VIEWS)
def test_writes_through_a_view_reach_the_original(name):
    view, reference = VIEWS[name]

    def build(t):
        part = view(t)
        ops.scaled_add_(part, popxl.constant(np.ones(part.shape, np.float32)), 2.0, 1.0)
        return part

    (given,), (whole,) = run(build, X)
    wanted = X.copy()
    part = reference(wanted)
    part *= 2
    part += 1
    if name == "reshape_":
        wanted = (2 * X + 1).reshape(X.shape)
        part = wanted.reshape(4, -1)
    np.testing.assert_allclose(given, part, rtol=1e-6)
    np.testing.assert_allclose(whole, wanted, rtol=1e-6)


def test_writes_through_concat_reach_the_parts():
    def build(a, b):
        both = ops.concat_([a, b], 1)
        ops.add_(both, popxl.constant(1.0))
        return both

    y = random(2, 2, 4, seed=1)
    (given,), variables = run(build, X, y)
    np.testing.assert_allclose(given, np.concatenate([X, y], 1) + 1, rtol=1e-6)
    np.testing.assert_allclose(variables[0], X + 1, rtol=1e-6)
    np.testing.assert_allclose(variables[1], y + 1, rtol=1e-6)


def test_concat_in_place_shows_later_writes_to_its_parts():
    def build(a, b):
        first = ops.concat_([a, b], 1)
        second = ops.concat_([ops.flatten_(first), ops.flatten_(b)])
        ops.relu_(ops.slice_(a, 0, 1))
        ops.add_(ops.slice_(second, 0, 4), popxl.constant(1.0))
        return first, second

    y = random(2, 2, 4, seed=1)
    (first, second), (a, b) = run(build, X, y)
    wanted = X.copy()
    wanted[0] = np.maximum(wanted[0], 0)
    wanted[0, 0] += 1
    np.testing.assert_allclose(a, wanted, rtol=1e-6)
    np.testing.assert_array_equal(b, y)
    np.testing.assert_allclose(first, np.concatenate([wanted, y], 1), rtol=1e-6)
    np.testing.assert_allclose(second, np.append(first.reshape(-1), y), rtol=1e-6)


def test_concat_in_place_of_inputs_by_reference():
    def build(a, b):
        ir = popxl.gcg().ir
        graph = ir.create_empty_graph()
        with graph, popxl.in_sequence():
            inputs = [popxl.graph_input(t.shape, t.dtype, by_ref=True) for t in (a, b)]
            ops.scaled_add_(both := ops.concat_(inputs, 1), both, 1.0, 1.0)
        ops.call(graph, a, b)

    y = random(2, 2, 4, seed=1)
    _, variables = run(build, X, y)
    np.testing.assert_allclose(variables[0], 2 * X)
    np.testing.assert_allclose(variables[1], 2 * y)


@pytest.mark.parametrize("name", ["reshape", "flatten", "transpose", "slice", "concat", "identity"])
def test_copies_leave_the_original(name):
    def build(t):
        copy = {
            "slice": lambda: ops.slice(t, 1, 2, axis=1),
            "reshape": lambda: ops.reshape(t, (-1,)),
            "concat": lambda: ops.concat([t]),
        }.get(name, lambda: getattr(ops, name)(t))()
        ops.add_(copy, popxl.constant(1.0))

    _, (x,) = run(build, X)
    np.testing.assert_array_equal(x, X)


def test_gradients_through_in_place_views():
    def build(a, b):
        return ops.concat_(
            [ops.transpose_(ops.reshape_(a, (3, 8))), ops.flatten_(b).reshape((8, 1))], 1
        )

    def reference(a, b):
        return torch.cat([a.reshape(3, 8).T, b.reshape(8, 1)], 1)

    # Only concat_ has a gradient of its own.
    y = random(8, seed=1)
    check(build, lambda a, b: reference(*map(torch.from_numpy, (a, b))).numpy(), X, y)
    check_gradient(
        lambda a, b: ops.concat_([a, b], 0), lambda a, b: torch.cat([a, b], 0), X, random(1, 3, 4)
    )


SLICES = [
    ((1, 2), {}),
    ((0, None, -1), {}),
    ((None, None, -1), {}),
    (([1, 0], [3, 2], [1, 1], [1, 2]), {}),
    (([None, -2], [None, None], None, [0, 2]), {}),
    (([-1, 3], [None, 0], [-1, -1], [1, 2]), {}),
    (([0, -100], [100, 100]), {}),
    ((), {"stop": -1, "axis": -1}),
]


@pytest.mark.parametrize(("positional", "named"), SLICES)
def test_slice(positional, named):
    names = ("start", "stop", "step", "axis")
    given = {**dict(zip(names, positional, strict=False)), **named}
    columns = {n: v if isinstance(v, list) else [v] for n, v in given.items() if v is not None}
    length = len(next(iter(columns.values())))
    key = [slice(None)] * 3
    for i in range(length):
        axis = columns.get("axis", range(length))[i]
        key[axis] = slice(*(columns.get(n, [None] * length)[i] for n in names[:3]))
    check(lambda t: ops.slice(t, *positional, **named), lambda x: x[tuple(key)], X)
    flipped = [a for a in range(3) if key[a].step == -1]
    forward = tuple(_forward(k, size) for k, size in zip(key, X.shape, strict=True))
    check_gradient(
        lambda t: ops.slice(t, *positional, **named), lambda t: t.flip(flipped)[forward], X
    )


def _forward(key, size):
    """The slice of a flipped axis that selects what a reversed slice of the axis selects."""
    if key.step != -1:
        return key
    chosen = [size - 1 - i for i in range(size)[key]]
    return slice(chosen[0], chosen[-1] + 1)


def test_slice_errors():
    with popxl.Ir().main_graph as graph:
        t = popxl.variable(X)
        assert ops.slice(t) is t
        assert ops.slice_(t, axis=1) is t
        assert not graph._pb_graph.getOps()
        for arguments in (
            ([0, 0], [1]),
            (0, 1, 2),
            (0, 1, -2),
            (0, 1, 0),
            ([0, 0], [1, 1], None, [1, 1]),
            (0, 1, None, 3),
        ):
            with pytest.raises(ValueError):
                ops.slice(t, *arguments)


def test_split_errors_and_names():
    with popxl.Ir().main_graph:
        t = popxl.variable(X, name="x")
        parts = ops.split(t, [1, 2], 1)
        assert isinstance(parts, list)
        assert [p.name for p in parts] == ["x_split_0", "x_split_1"]
        for splits in (2, 0, -1):
            with pytest.raises(ValueError):
                ops.split(t, splits, 1)
        for sizes in ([1, 1], [4], [5, -2]):
            with pytest.raises(popart.popart_exception):
                ops.split(t, sizes, 1)
        with pytest.raises((ValueError, popart.popart_exception)):
            ops.split(t, 2, 3)


def test_concat_errors():
    with popxl.Ir().main_graph:
        t = popxl.variable(X)
        for other in (random(2, 3), random(2, 4, 4)):
            with pytest.raises(popart.popart_exception):
                ops.concat([t, popxl.variable(other)])
        with pytest.raises(popart.popart_exception):
            ops.concat([t, t], 3)
        with pytest.raises((ValueError, popart.popart_exception)):
            ops.concat([])
        for name in ("concat", "concat_"):
            with pytest.raises(TypeError, match="All inputs to a concat operation must have"):
                getattr(ops, name)([t, popxl.variable(X.astype(np.int32))])
            assert getattr(ops, name)(iter([t, t])).shape == (4, 3, 4)


def test_subsample():
    for strides in (2, [1, 2], [2, 3, 3], [1, 1, 5]):
        steps = [strides] if isinstance(strides, int) else list(strides)
        key = tuple(slice(None, None, s) for s in steps)
        check(lambda t, s=strides: ops.subsample(t, s), lambda x, k=key: x[k], X)
        check_gradient(lambda t, s=strides: ops.subsample(t, s), lambda x, k=key: x[k], X)
    with popxl.Ir().main_graph:
        t = popxl.variable(X)
        with pytest.raises(ValueError):
            ops.subsample(t, [1, 1, 1, 1])
        for strides in (0, [1, 0], -1):
            with pytest.raises(popart.popart_exception):
                ops.subsample(t, strides)


def test_squeeze_of_listed_axes():
    x = random(1, 3, 1, 2)
    check(lambda t: ops.squeeze(t, [0]), lambda a: a.squeeze(0), x)
    check(lambda t: ops.squeeze(t, (-2, 0)), np.squeeze, x)
    check_gradient(ops.squeeze, torch.squeeze, x)
    with popxl.Ir().main_graph:
        t = popxl.variable(x)
        for axes in ([1], [0, 0], [4], [-5], [0, -4]):
            with pytest.raises(ValueError):
                ops.squeeze(t, axes)


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
        with pytest.raises(popart.popart_exception):
            ops.gather(t, t)


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
        for arguments in ((t, i, popxl.variable(values[:2])), (t, v, v), (t, i, v, 2)):
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
            ops.scatter_reduce(t, i, "prod", axis_size=2)
        with pytest.raises(ValueError):
            ops.scatter_reduce(t, i, "sum")
        for indices in (i32(0, 1), np.zeros((4, 2), np.int32), np.zeros(4, np.float32)):
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
            (values, classes, values),
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
        with pytest.raises(popart.popart_exception):
            ops.dynamic_slice(t, popxl.variable(random(1)), [1], [1], True)
        for update in (random(2, 2, 4), random(2, 1, 4, dtype=np.float16)):
            with pytest.raises(popart.popart_exception):
                ops.dynamic_update(t, i, popxl.variable(update), [1], [1], True)
