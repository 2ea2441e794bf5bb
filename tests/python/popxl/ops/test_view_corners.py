"""Views, slices, splits and joins in their corners."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import (
    check,
    check_gradient,
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
