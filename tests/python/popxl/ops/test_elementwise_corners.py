"""Ties, bounds, special values, mixed types and in-place forms of the elementwise ops."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, gradients, outputs, random, run

X = random(3, 4)
HALF = random(3, 4, dtype=np.float16)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.5, 2.5], np.float32)


def gradient_of(build, *arrays):
    """The gradients for the output gradient that `gradients` gives, divided by it."""
    given, weights = gradients(build, *arrays)
    return [g / weights for g in given]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_special_values(dtype):
    x = SPECIAL.astype(dtype)
    with np.errstate(all="ignore"):
        for name in ("abs", "negate", "sign", "floor", "ceil", "isnan", "isinf", "isfinite"):
            check(getattr(ops, name), getattr(np, name.replace("negate", "negative")), x)
        for name in ("exp", "log", "sqrt", "tanh", "sin", "cos"):
            check(getattr(ops, name), getattr(np, name), x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_clip_keeps_nan_and_has_no_gradient_on_its_bounds(dtype):
    check(lambda t: ops.clip(t, -1, 1), lambda x: np.clip(x, -1, 1), SPECIAL.astype(dtype))
    x = np.array([-2, -1, 0, 1, 2], dtype)
    (gradient,) = gradient_of(lambda t: ops.clip(t, -1, 1), x)
    np.testing.assert_array_equal(gradient, [0, 0, 1, 0, 0])
    check(ops.clip, lambda a: a, x)
    check(lambda t: ops.clip(t, min=0), lambda a: np.maximum(a, 0), x)


def test_clip_of_float16_at_its_largest_value():
    x = np.array([np.inf, -np.inf, 1], np.float16)
    check(ops.clip, lambda a: np.array([65504, -65504, 1], np.float16), x)


@pytest.mark.parametrize("name", ["sign", "ceil", "floor"])
def test_steps_have_zero_gradients(name):
    given, _ = gradients(getattr(ops, name), X)
    np.testing.assert_array_equal(given[0], np.zeros_like(X))


def test_gradients_at_ties():
    x = np.array([-1.0, 0.0, 2.0], np.float32)
    np.testing.assert_array_equal(gradient_of(ops.abs, x)[0], [-1, 0, 1])
    np.testing.assert_array_equal(gradient_of(ops.relu, x)[0], [0, 0, 1])
    # Every input that equals the maximum gets the whole gradient.
    given = gradient_of(ops.maximum, x, np.array([-1.0, 1.0, 1.0], np.float32))
    np.testing.assert_array_equal(given, [[1, 0, 1], [1, 1, 0]])


def test_maximum_of_any_number():
    a, b, c = (random(3, 4, seed=i) for i in range(3))
    check(ops.maximum, lambda x: x, a)
    check(ops.maximum, lambda x, y, z: np.maximum(np.maximum(x, y), z), a, b, c)
    check_gradient(ops.maximum, lambda x, y, z: torch.maximum(torch.maximum(x, y), z), a, b, c)


UNARY = {
    "abs": torch.abs,
    "negate": torch.neg,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "geluerf": torch.nn.functional.gelu,
    "swish": torch.nn.functional.silu,
    "identity": lambda x: x * 1,
    "log2": torch.log2,
}


@pytest.mark.parametrize("name", UNARY)
def test_float16_gradient(name):
    x = random(3, 4, dtype=np.float16, low=0.3)
    check_gradient(getattr(ops, name), UNARY[name], x)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
def test_float16_binary_with_broadcast(name):
    a = random(3, 4, dtype=np.float16, low=0.5)
    b = random(4, dtype=np.float16, low=0.5, seed=1)
    reference = getattr(torch, name)
    check(getattr(ops, name), lambda x, y: reference(*map(torch.from_numpy, (x, y))).numpy(), a, b)
    check_gradient(getattr(ops, name), reference, a, b)


def test_softmax_of_float16_and_large_values():
    x = np.array([[1000, 1001, -1000], [0, 0, 0]], np.float32)
    check(lambda t: ops.softmax(t, 1), lambda a: torch.softmax(torch.from_numpy(a), 1).numpy(), x)
    check(
        lambda t: ops.softmax(t, -1),
        lambda a: torch.softmax(torch.from_numpy(a), -1).numpy(),
        HALF,
    )
    with popxl.Ir().main_graph:
        for axis in (2, -3):
            with pytest.raises(popart.popart_exception):
                ops.softmax(popxl.variable(x), axis)


@pytest.mark.parametrize("e", [2.0, 0.5, 3])
def test_pow_of_host_values(e):
    x = random(3, 4, low=0.2)
    if isinstance(e, int):
        with pytest.raises(popart.popart_exception):
            outputs(lambda t: ops.pow(t, e), x)
    else:
        check(lambda t: ops.pow(t, e), lambda a: np.power(a, np.float32(e)), x)


def test_pow_gradients_at_zero():
    x = np.array([0.0, 0.0, 0.0, 2.0], np.float32)
    e = np.array([0.0, 1.0, 2.0, 0.0], np.float32)
    base, exponent = gradient_of(ops.pow, x, e)
    np.testing.assert_allclose(base, [0, 1, 0, 0])
    np.testing.assert_allclose(exponent, [0, 0, 0, np.log(2)], rtol=1e-5)


def test_fmod_gradient():
    a, b = random(3, 4), random(4, seed=1, low=0.5)
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(ops.fmod, popxl.variable(a), popxl.variable(b))
        lhs, rhs = graph.inputs
        info = popxl.transforms.autodiff(graph, grads_required=[lhs])
        assert len(info.outputs) == 1
        with pytest.raises(popart.popart_exception, match="Unable to provide required gradient"):
            popxl.transforms.autodiff(graph, grads_required=[rhs])
    check(ops.fmod, np.fmod, a, b)


@pytest.mark.parametrize("name", ["equal", "greater", "logical_and", "logical_or"])
def test_comparisons_are_not_differentiable(name):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)

        def forward(a, b):
            chosen = getattr(ops, name)(a, b)
            return ops.cast(chosen, popxl.float32)

        graph = ir.create_graph(forward, x, x)
        with pytest.raises(popart.popart_exception):
            popxl.transforms.autodiff(graph)


@pytest.mark.parametrize("name", ["detach", "detach_"])
def test_detach_blocks_the_gradient(name):
    detach = getattr(ops, name)
    given = gradient_of(lambda t: ops.mul(t, detach(ops.negate(t))), X)
    np.testing.assert_allclose(given[0], -X, rtol=1e-6)
    check(detach, lambda x: x, X)


def test_detach_in_place_is_an_alias():
    def build(x):
        ops.add_(ops.detach_(x), popxl.constant(1.0))

    _, (x,) = run(build, X)
    np.testing.assert_allclose(x, X + 1, rtol=1e-6)


def test_increment_mod_of_negative_sums():
    x = np.array([-5, -1, 0, 7], np.float32)
    check(lambda t: ops.increment_mod(t, 1.5, 3), lambda a: np.fmod(a + 1.5, 3), x)
    _, (half,) = run(lambda t: ops.increment_mod_(t, 1, 4), x.astype(np.float16))
    np.testing.assert_array_equal(half, np.fmod(x + 1, 4))


SCALES = {
    "floats": (2.0, 0.5),
    "tensors": ("tensor", "tensor"),
    "tensor b": (1.0, "tensor"),
    "tensor a": ("tensor", 0.5),
    "tensor b, float a": (2.0, "tensor"),
}


@pytest.mark.parametrize("types", [(np.float32, np.float32), (np.float16, np.float32)])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("scales", SCALES)
def test_scaled_add(scales, in_place, types):
    a, b = SCALES[scales]
    x, y = random(3, 4, dtype=types[0]), random(3, 4, dtype=types[1], seed=1)

    def build(X, Y, a_tensor, b_tensor):
        first = a_tensor if a == "tensor" else a
        second = b_tensor if b == "tensor" else b
        return (ops.scaled_add_ if in_place else ops.scaled_add)(X, Y, a=first, b=second)

    results, variables = run(build, x, y, np.array(3.0, np.float32), np.array(0.25, np.float32))
    wanted = (3.0 if a == "tensor" else a) * x.astype(np.float32)
    wanted = (wanted + (0.25 if b == "tensor" else b) * y).astype(types[0])
    tolerance = 2e-3 if types[0] is np.float16 else 1e-6
    np.testing.assert_allclose(results[0], wanted, rtol=tolerance, atol=tolerance)
    assert results[0].dtype == types[0]
    np.testing.assert_array_equal(variables[0], results[0] if in_place else x)


def test_scaled_add_inputs_and_errors():
    with popxl.Ir().main_graph:
        x, scale = popxl.variable(X, name="x"), popxl.variable(2.0, name="s")
        assert ops.scaled_add_(x, x, scale, scale).name == "scaled_add__x"
        op = popxl.gcg()._pb_graph.getOps()[-1]
        assert op.inTensor(2).id == op.inTensor(3).id == "s"
        with pytest.raises(popart.popart_exception):
            ops.scaled_add(x, popxl.variable(random(4)))


def test_mul_keeps_float16_with_one_float32_element():
    for shape in ((), (1,), (1, 1)):
        scale = np.full(shape, 3, np.float32)
        check(ops.mul, lambda a, b: (a * b.reshape(())).astype(np.float16), HALF, scale)
        check(ops.mul, lambda b, a: (a * b.reshape(())).astype(np.float16), scale, HALF)
    given, weights = gradients(ops.mul, HALF, np.array(3.0, np.float32))
    assert [g.dtype for g in given] == [np.float16, np.float32]
    np.testing.assert_allclose(given[0], 3 * weights, rtol=1e-3)
    np.testing.assert_allclose(given[1], (weights.astype(np.float32) * HALF).sum(), rtol=1e-2)
    for name in ("add", "sub", "div", "pow", "maximum", "fmod"):
        with pytest.raises(popart.popart_exception):
            outputs(getattr(ops, name), HALF, np.array(3.0, np.float32))


def test_add_in_place_keeps_the_shape():
    for lhs, rhs in ((random(4), X), (X, HALF)):
        with pytest.raises(popart.popart_exception):
            outputs(ops.add_, lhs, rhs)


def test_logic_casts_numbers():
    with popxl.Ir().main_graph as graph:
        x, flag = popxl.variable(X), popxl.variable(np.array([True, False, True, True]))
        ops.logical_and(x, flag)
        ops.where(x, x, x)
        assert [op.opType() for op in graph._pb_graph.getOps()] == ["Cast", "And", "Cast", "Where"]
    numbers = np.array([0.0, np.nan, 2.0], np.float32)
    check(ops.logical_or, np.logical_or, numbers, np.array([0, 0, 1], np.int32))


def test_where_broadcasts_three_ways():
    condition, a, b = np.array([[True], [False], [True]]), random(1, 4), random(2, 1, 1, seed=1)
    check(ops.where, np.where, condition, a, b)
    check_gradient(ops.where, torch.where, condition, a, b)
    with pytest.raises(popart.popart_exception):
        outputs(ops.where, condition, a, b.astype(np.float16))


def test_log2_and_isfinite_are_compositions():
    with popxl.Ir().main_graph as graph:
        x = popxl.variable(X)
        assert ops.log2(x).name == "div_out"
        assert len(graph.constants) == 1
        assert ops.isfinite(x).name == "isfinite_out"
        names = [op.opType() for op in graph._pb_graph.getOps()]
        assert names == ["Log", "Log", "Div", "IsNaN", "IsInf", "Or", "Not", "Identity"]


@pytest.mark.parametrize("name", ["exp", "relu", "gelu", "geluerf", "swish"])
def test_in_place_float16(name):
    results, (variable,) = run(getattr(ops, f"{name}_"), HALF)
    wanted = UNARY[name](torch.from_numpy(HALF)).numpy()
    np.testing.assert_allclose(results[0], wanted, rtol=4e-3, atol=4e-3)
    np.testing.assert_array_equal(variable, results[0])


@pytest.mark.parametrize("name", ["exp_", "relu_", "increment_mod_", "scaled_add_", "add_"])
def test_in_place_ops_are_not_differentiable(name):
    ir = popxl.Ir()
    with ir.main_graph:

        def forward(a):
            extra = {"increment_mod_": (1, 3), "scaled_add_": (a,), "add_": (a,)}
            return getattr(ops, name)(a, *extra.get(name, ()))

        graph = ir.create_graph(forward, popxl.variable(X))
        with pytest.raises(popart.popart_exception, match="contains a modifying op"):
            popxl.transforms.autodiff(graph)


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_tensors_without_elements(shape):
    x = np.zeros(shape, np.float32)
    for op in (ops.add, ops.mul, ops.maximum):
        check(op, np.add, x, x)
    check(ops.exp, np.exp, x)
    check(lambda t: ops.sum(t), lambda a: a.sum(), x)


def test_wrong_arguments():
    with popxl.Ir().main_graph:
        x = popxl.variable(X)
        for call in (
            lambda: ops.add(x, 1.0),
            lambda: ops.exp(X),
            lambda: ops.where(True, x, x),
            lambda: ops.maximum(x, X),
        ):
            with pytest.raises(TypeError, match="is not a Tensor"):
                call()
        with pytest.raises((TypeError, popart.popart_exception)):
            ops.maximum()
        with popxl.io_tiles():
            other = ops.exp(x)
        with pytest.raises(ValueError, match="different tile sets"):
            ops.add(ops.exp(x), other)
