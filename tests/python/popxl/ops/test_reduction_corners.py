"""Reductions and ordering: axes, ties, special values, gradients in corners and errors."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, gradients, outputs, random

X = random(2, 3, 4)
KINDS = {
    "sum": "Sum",
    "mean": "Mean",
    "max": "Max",
    "min": "Min",
    "prod": "Prod",
    "l1": "L1",
    "l2": "L2",
    "sumsquare": "SumSquare",
    "logsum": "LogSum",
    "logsumexp": "LogSumExp",
    "median": "Median",
}
NAMES = list(KINDS)


def lower_median(x, axis, keepdims):
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis) % x.ndim)
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = x.transpose(*kept, *axes).reshape(*[x.shape[a] for a in kept], -1)
    values = np.sort(rows, -1)[..., (rows.shape[-1] - 1) // 2]
    shape = [1 if a in axes else n for a, n in enumerate(x.shape)]
    return values.reshape(shape) if keepdims else values


REFERENCES = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "l1": lambda x, axis, keepdims: np.abs(x).sum(axis, keepdims=keepdims),
    "l2": lambda x, axis, keepdims: np.sqrt((x * x).sum(axis, keepdims=keepdims)),
    "sumsquare": lambda x, axis, keepdims: (x * x).sum(axis, keepdims=keepdims),
    "logsum": lambda x, axis, keepdims: np.log(x.sum(axis, keepdims=keepdims)),
    "logsumexp": lambda x, axis, keepdims: np.log(np.exp(x).sum(axis, keepdims=keepdims)),
}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), [1, -1], (2, 0, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_axes(name, axis, keepdims, dtype):
    x = random(2, 3, 4, dtype=dtype, low=0.2, high=1.5)
    axes = tuple(axis) if isinstance(axis, list) else axis

    def reference(a):
        wide = a.astype(np.float64)
        if name == "median":
            return lower_median(wide, axes, keepdims).astype(dtype)
        return np.asarray(REFERENCES[name](wide, axis=axes, keepdims=keepdims)).astype(dtype)

    check(lambda t: getattr(ops, name)(t, axis, keepdims), reference, x)


@pytest.mark.parametrize("name", NAMES)
def test_no_axes_and_scalars(name):
    x = random(2, 3, low=0.2)
    elementwise = {
        "l1": np.abs,
        "l2": np.abs,
        "sumsquare": np.square,
        "logsum": np.log,
    }.get(name, lambda a: a)
    check(lambda t: getattr(ops, name)(t, []), elementwise, x)
    check(getattr(ops, name), elementwise, x[0, 0].reshape(()))


@pytest.mark.parametrize("name", NAMES)
def test_names_and_errors(name):
    with popxl.Ir().main_graph as graph:
        t, function = popxl.variable(X), getattr(ops, name)
        assert function(t, 1).name == f"{name}_out"
        assert graph._pb_graph.getOps()[-1].opType() == f"Reduce{KINDS[name]}"
        for axis in (3, -4, (0, 5)):
            with pytest.raises(popart.popart_exception):
                function(t, axis)
        with pytest.raises(TypeError):
            function(X)


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_all_get_the_gradient(name):
    x = np.array([[1, 2, 2, 1], [1, 1, 1, 1]], np.float32)
    given, weights = gradients(lambda t: getattr(ops, name)(t, 1), x)
    extreme = getattr(np, name)(x, 1, keepdims=True)
    np.testing.assert_array_equal(given[0], (x == extreme) * weights[:, None])


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_prod_gradient_with_zeros(zeros):
    x = random(3, 4, low=0.5)
    x[1, :zeros] = 0
    check_gradient(lambda t: ops.prod(t, 1), lambda t: torch.prod(t, 1), x)


def test_gradients_over_several_axes_and_float16():
    for dtype in (np.float32, np.float16):
        x = random(2, 3, 4, dtype=dtype, low=0.3, high=1.2)
        check_gradient(lambda t: ops.mean(t, (0, 2)), lambda t: t.mean((0, 2)), x)
        check_gradient(lambda t: ops.l2(t, (0, 2)), lambda t: t.square().sum((0, 2)).sqrt(), x)
        check_gradient(lambda t: ops.logsumexp(t, (1, 2)), lambda t: t.logsumexp((1, 2)), x)
        check_gradient(lambda t: ops.l1(t, None, True), lambda t: t.abs().sum((0, 1, 2), True), x)
        check_gradient(lambda t: ops.sumsquare(t), lambda t: t.square().sum(), x)
        check_gradient(lambda t: ops.logsum(t, 1), lambda t: t.sum(1).log(), x)


def test_l2_gradient_of_zeros_is_nan():
    given, _ = gradients(lambda t: ops.l2(t, 1), np.zeros((2, 3), np.float32))
    assert np.isnan(given[0]).all()


def test_logsumexp_of_large_values():
    x = np.array([[1000, 1001, 999], [-1000, -1000, -1000]], np.float32)
    check(
        lambda t: ops.logsumexp(t, 1), lambda a: torch.logsumexp(torch.from_numpy(a), 1).numpy(), x
    )


def test_median_takes_the_lower_middle():
    for size in (1, 2, 5, 6):
        x = random(3, size)
        check(lambda t: ops.median(t, 1), lambda a: lower_median(a, 1, False), x)
        check_gradient(lambda t: ops.median(t, 1), lambda t: t.median(1).values, x)
    with popxl.Ir().main_graph as graph:
        ops.median(popxl.variable(X), (0, 1))
        op = graph._pb_graph.getOps()[-1]
        assert op.outTensor(1).id == "median_indices_out"
        assert op.outInfo(1).data_type_lcase() == "int32"


# --- ordering ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_extremes(name):
    x = np.random.default_rng(0).integers(0, 3, (3, 4, 5)).astype(np.float32)
    for dim in (0, 1, 2, -1, -3):
        for keepdim in (False, True):
            check(
                lambda t, d=dim, k=keepdim: getattr(ops, name)(t, d, k),
                lambda a, d=dim, k=keepdim: getattr(np, name)(a, d, keepdims=k).astype(np.int32),
                x,
            )
    check(getattr(ops, name), lambda a: getattr(np, name)(a, 0).astype(np.int32), x)
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.variable(x)
        for dim in (3, -4):
            with pytest.raises(popart.popart_exception):
                getattr(ops, name)(t, dim)
        with pytest.raises(popart.popart_exception):
            getattr(ops, name)(popxl.variable(1.0))
        with pytest.raises(TypeError):
            getattr(ops, name)(t, None)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_topk(axis, largest, dtype):
    x = np.random.default_rng(1).integers(-9, 9, (4, 5, 3)).astype(dtype)
    for k in (1, 2, x.shape[axis]):

        def top(a, k=k):
            order = np.argsort(-a if largest else a, axis, kind="stable")
            order = np.take(order, np.arange(k), axis)
            return np.take_along_axis(a, order, axis), order.astype(np.int32)

        check(lambda t, k=k: ops.topk(t, k, axis, largest, True), top, x)
        values, indices = outputs(lambda t, k=k: ops.topk(t, k, axis, largest, False), x)
        np.testing.assert_array_equal(np.sort(values, axis), np.sort(top(x)[0], axis))
        np.testing.assert_array_equal(np.take_along_axis(x, indices, axis), values)


def test_topk_gradient_and_errors():
    for largest in (True, False):
        check_gradient(
            lambda t, largest=largest: ops.topk(t, 2, 1, largest, True),
            lambda t, largest=largest: torch.topk(t, 2, 1, largest).values,
            X,
        )
    with popxl.Ir().main_graph:
        t = popxl.variable(X)
        values, indices = ops.topk(t, 1, 0, True, True, available_memory_proportion=0.5)
        assert (values.name, indices.name) == ("topk_out_value", "topk_out_indices")
        for k, axis in ((5, 2), (0, 0), (-1, 0), (1, -1), (1, 3)):
            with pytest.raises(popart.popart_exception):
                ops.topk(t, k, axis, True, True)
        with pytest.raises(TypeError):
            ops.topk(t, 1, 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_cumsum(dtype):
    for dim in (0, 1, 2, -1, -3):
        x = random(2, 3, 4, dtype=dtype)
        check(
            lambda t, d=dim: ops.cumsum(t, d),
            lambda a, d=dim: np.cumsum(a.astype(np.float32), d).astype(dtype),
            x,
        )
        check_gradient(lambda t, d=dim: ops.cumsum(t, d), lambda t, d=dim: torch.cumsum(t, d), x)


def test_cumsum_constant_and_error():
    with popxl.Ir().main_graph as graph:
        t = popxl.variable(X)
        assert ops.cumsum(t, 1).name == "cumsum_out"
        (constant,) = graph.constants
        assert (constant.name, constant.dtype) == ("dim", popxl.int64)
    for dim in (3, -4):
        with pytest.raises(popart.popart_exception):
            outputs(lambda t, d=dim: ops.cumsum(t, d), X)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("absolute", [True, False])
def test_histogram(dtype, absolute):
    levels = [-1.0, 0.5, 1.5]
    x = np.array([-2, -1, -0.75, 0, 0.5, 1, 1.5, 7, np.inf, -np.inf], dtype)
    (counts,) = outputs(lambda t: ops.histogram(t, levels, absolute), x.reshape(2, 5))
    values = np.abs(x) if absolute else x
    wanted = np.bincount(np.searchsorted(levels, values, side="right"), minlength=4)
    assert counts.dtype == np.uint32
    np.testing.assert_array_equal(counts, wanted)


def test_histogram_errors():
    with popxl.Ir().main_graph:
        t = popxl.variable(X)
        for levels in ([1.0, 1.0], [2.0, 1.0]):
            with pytest.raises(ValueError):
                ops.histogram(t, levels, False)
        assert ops.histogram(t, [0.0], True).shape == (2,)
