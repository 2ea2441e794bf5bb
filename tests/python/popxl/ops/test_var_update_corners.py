"""Optimizer updates: every argument, mixed types and errors."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.ops import var_updates
from tests.python.popxl.ops.op_testing import check, outputs, random, run

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
