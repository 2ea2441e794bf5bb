"""Every element type that an op takes, against NumPy."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, outputs, run

SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
INTEGERS = SIGNED + UNSIGNED
FLOATS = [np.float16, np.float32, np.float64]
NUMBERS = INTEGERS + FLOATS
FLOAT8 = [popxl.float8_143, popxl.float8_152]


def values(dtype, *shape, seed=0, low=None, high=10):
    if low is None:
        low = 0 if np.dtype(dtype).kind == "u" else -high
    numbers = np.random.default_rng(seed).uniform(low, high, shape)
    return numbers.astype(dtype)


def in_dtype(reference):
    """The reference with results in the dtype of the first argument."""
    return lambda x, *rest: np.asarray(reference(x, *rest)).astype(x.dtype)


def divide(x, y):
    with np.errstate(all="ignore"):
        quotient = x / y if x.dtype.kind == "f" else np.trunc(x.astype(np.float64) / y)
    return quotient.astype(x.dtype)


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": divide,
    "fmod": np.fmod,
    "maximum": np.maximum,
    "equal": np.equal,
    "greater": np.greater,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    a, b = values(dtype, 3, 4, seed=1), values(dtype, 3, 4, seed=2)
    if name in ("div", "fmod"):
        b[b == 0] = 1
    check(getattr(ops, name), BINARY[name], a, b)


UNARY = {
    "abs": np.abs,
    "sign": np.sign,
    "identity": lambda x: x,
    "detach": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "logical_not": np.logical_not,
    "negate": np.negative,
}


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    check(getattr(ops, name), UNARY[name], values(dtype, 3, 4))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_pow(dtype):
    x, e = values(dtype, 3, 4, low=0, high=4), values(dtype, 3, 4, low=0, high=3, seed=1)
    check(ops.pow, in_dtype(np.power), x, e)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_selection(dtype):
    a, b = values(dtype, 3, 4), values(dtype, 3, 4, seed=1)
    check(ops.where, np.where, a > 3, a, b)
    check(lambda t: ops.clip(t, 1, 5), in_dtype(lambda x: np.clip(x, 1, 5)), a)
    check(lambda x, y: ops.scaled_add(x, y, 2.0, 1.0), in_dtype(lambda x, y: 2 * x + y), a, b)
    _, (result, _) = run(ops.add_, a, b)
    np.testing.assert_array_equal(result, a + b)


REDUCTIONS = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "l1": lambda x, axis: np.abs(x).sum(axis),
    "sumsquare": lambda x, axis: (x * x).sum(axis),
    "median": lambda x, axis: np.sort(x, axis).take((x.shape[axis] - 1) // 2, axis),
}


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name, dtype):
    x = values(dtype, 3, 4, high=4)
    # Wrapped sums of narrow integers and long sums of float16 are cast from a wider type.
    wide = np.float64 if dtype in FLOATS else np.int64
    reference = REDUCTIONS[name]
    check(
        lambda t: getattr(ops, name)(t, 1),
        lambda a: np.asarray(reference(a.astype(wide), 1)).astype(dtype),
        x,
    )


@pytest.mark.parametrize("dtype", NUMBERS)
def test_ordering(dtype):
    x = values(dtype, 3, 4)
    for name in ("argmax", "argmin"):
        check(
            lambda t, name=name: getattr(ops, name)(t, 1),
            lambda a, name=name: getattr(np, name)(a, 1).astype(np.int32),
            x,
        )

    def top(a):
        order = np.argsort(-a.astype(np.float64), 1, kind="stable")[:, :2]
        return np.take_along_axis(a, order, 1), order.astype(np.int32)

    check(lambda t: ops.topk(t, 2, 1, True, True), top, x)
    check(lambda t: ops.cumsum(t, 1), in_dtype(lambda a: np.cumsum(a, 1)), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul(dtype):
    a, b = values(dtype, 3, 4, high=2), values(dtype, 4, 2, seed=1, high=2)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    (result,) = outputs(ops.matmul, a, b)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, wanted, rtol=4 * np.finfo(dtype).eps, atol=1e-2)


MOVES = {
    "reshape": (lambda t: ops.reshape(t, (4, 3)), lambda x: x.reshape(4, 3)),
    "transpose": (ops.transpose, np.transpose),
    "slice": (lambda t: ops.slice(t, 2, 0, -1), lambda x: x[2:0:-1]),
    "subsample": (lambda t: ops.subsample(t, [2]), lambda x: x[::2]),
    "split": (lambda t: ops.split(t, 2, 1), lambda x: np.split(x, 2, 1)),
    "concat": (lambda t: ops.concat([t, t], 1), lambda x: np.concatenate([x, x], 1)),
    "identity": (ops.identity, lambda x: x),
}


@pytest.mark.parametrize("dtype", [*NUMBERS, np.bool_, *FLOAT8])
@pytest.mark.parametrize("name", MOVES)
def test_move(name, dtype):
    build, reference = MOVES[name]
    if dtype in FLOAT8:
        codes = values(np.uint8, 3, 4, high=255)
        (given, *_) = outputs(build, codes.view(dtype.as_numpy()))
        wanted = reference(codes)
        wanted = wanted[0] if isinstance(wanted, list) else wanted
        np.testing.assert_array_equal(np.ascontiguousarray(given).view(np.uint8), wanted)
    else:
        check(build, reference, values(dtype, 3, 4))


@pytest.mark.parametrize("dtype", [*NUMBERS, np.bool_])
def test_indexing(dtype):
    x, update = values(dtype, 3, 4), values(dtype, 2, 4, seed=1)
    check(
        lambda t, i: ops.gather(t, i, 1),
        lambda a, i: a[:, i],
        x,
        np.array([3, 0, 3], np.int32),
    )
    start = np.array([1], np.int32)
    check(lambda t, i: ops.dynamic_slice(t, i, [0], [2], True), lambda a, _: a[1:], x, start)

    def written(a, _, u):
        return np.concatenate([a[:1], u])

    check(
        lambda t, i, u: ops.dynamic_update(t, i, u, [0], [2], True),
        written,
        x,
        start,
        update,
    )
    if dtype is np.bool_:
        return
    rows = np.array([2, 0, 1], np.int32)[:, None].repeat(4, 1)

    def scattered(a, i, v):
        result = a.copy()
        np.put_along_axis(result, i, v, 0)
        return result

    check(ops.scatter, scattered, x, rows, values(dtype, 3, 4, seed=2))

    def added(a, i):
        result = np.zeros((3, 4), dtype)
        np.add.at(result, i, a)
        return result

    check(
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=3),
        added,
        x,
        np.array([0, 2, 0], np.int32),
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_as_indices(dtype):
    x, i = values(np.float32, 3, 4), np.array([2, 0], dtype)
    check(ops.gather, lambda a, b: a[b.astype(int)], x, i)
    check(
        lambda t, v: ops.onehot(t, popxl.constant(3), v, -1),
        lambda t, v: np.where(t[:, None] == np.arange(3), v[1], v[0]),
        i,
        np.array([-1.0, 2.0], np.float32),
    )
    probabilities = np.full((2, 3), 0.25, np.float32)
    check(
        lambda p, t: ops.nll_loss(p, t, reduction="none"),
        lambda p, t: np.full(2, np.log(4), np.float32),
        probabilities,
        i,
    )


@pytest.mark.parametrize("target", [*NUMBERS, np.bool_])
@pytest.mark.parametrize("source", [*NUMBERS, np.bool_])
def test_cast(source, target):
    # Unsigned targets of negative floats differ between machines in NumPy.
    low = -9 if np.dtype(target).kind != "u" and np.dtype(source).kind != "u" else 0
    x = values(source, 3, 4, low=low)
    check(
        lambda t: ops.cast(t, popxl.dtype.as_dtype(np.dtype(target))),
        lambda a: a.astype(target),
        x,
    )


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if np.dtype(d).itemsize < 8])
def test_increment_mod(dtype):
    x = values(dtype, 3, 4)
    check(
        lambda t: ops.increment_mod(t, 2, 3),
        lambda a: np.fmod(a + dtype(2), dtype(3)).astype(dtype),
        x,
    )


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64])
def test_increment_mod_refuses(dtype):
    with pytest.raises(popart.popart_exception, match="wanted int8, int16"):
        outputs(lambda t: ops.increment_mod(t, 2, 3), values(dtype, 3))


@pytest.mark.parametrize("dtype", [*NUMBERS, np.bool_])
def test_init(dtype):
    (zeros,) = outputs(lambda t: ops.init((2, 3), popxl.dtype.as_dtype(np.dtype(dtype))), X)
    assert zeros.dtype == dtype
    assert not zeros.any()


X = np.zeros(1, np.float32)


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_is_refused(name):
    with popxl.Ir().main_graph, pytest.raises(Exception, match="complex"):
        ops.init((2,), getattr(popxl, name))
