"""Elementwise ops against NumPy and torch."""

import numpy as np
import pytest
import torch

import popart
import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random, run

X = random(3, 4)
POSITIVE = random(3, 4, low=0.1, high=3.0)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -1.0], np.float32)

UNARY = {
    "abs": (np.abs, torch.abs, X),
    "negate": (np.negative, torch.neg, X),
    "sign": (np.sign, torch.sign, X),
    "ceil": (np.ceil, torch.ceil, X),
    "floor": (np.floor, torch.floor, X),
    "exp": (np.exp, torch.exp, X),
    "log": (np.log, torch.log, POSITIVE),
    "log2": (np.log2, torch.log2, POSITIVE),
    "sqrt": (np.sqrt, torch.sqrt, POSITIVE),
    "sin": (np.sin, torch.sin, X),
    "cos": (np.cos, torch.cos, X),
    "tanh": (np.tanh, torch.tanh, X),
    "relu": (lambda x: np.maximum(x, 0), torch.relu, X),
}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    reference, torch_reference, x = UNARY[name]
    check(getattr(ops, name), reference, x.astype(dtype))
    check_gradient(getattr(ops, name), torch_reference, x)


ACTIVATIONS = {
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "geluerf": torch.nn.functional.gelu,
    "swish": torch.nn.functional.silu,
    "relu": torch.relu,
    "exp": torch.exp,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_and_its_in_place_form(name):
    reference = ACTIVATIONS[name]
    check(getattr(ops, name), lambda x: reference(torch.from_numpy(x)).numpy(), X)
    check_gradient(getattr(ops, name), reference, X)
    results, (variable,) = run(getattr(ops, f"{name}_"), X)
    np.testing.assert_allclose(
        results[0], reference(torch.from_numpy(X)).numpy(), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(variable, results[0])


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_softmax(axis):
    x = random(2, 3, 4)

    def reference(t):
        rows = t.reshape(*t.shape[: axis % 3], -1)
        return torch.softmax(rows, -1).reshape(t.shape)

    check(lambda t: ops.softmax(t, axis), lambda a: reference(torch.from_numpy(a)).numpy(), x)
    check_gradient(lambda t: ops.softmax(t, axis), reference, x)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_classes_of_numbers(name):
    check(getattr(ops, name), getattr(np, name), SPECIAL)


def test_clip():
    check(lambda t: ops.clip(t, -1, 1), lambda x: np.clip(x, -1, 1), X)
    check_gradient(lambda t: ops.clip(t, -1, 1), lambda x: torch.clip(x, -1, 1), X)
    assert ops.clamp is ops.clip
    assert ops.rename is ops.identity


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_increment_mod(dtype):
    x = np.arange(5).astype(dtype)
    check(lambda t: ops.increment_mod(t, 2, 3), lambda a: np.fmod(a + 2, 3).astype(dtype), x)
    _, (variable,) = run(lambda t: ops.increment_mod_(t, 2, 3), x)
    np.testing.assert_array_equal(variable, np.fmod(x + 2, 3))


BINARY = {
    "add": (np.add, torch.add),
    "sub": (np.subtract, torch.sub),
    "mul": (np.multiply, torch.mul),
    "div": (np.divide, torch.div),
    "pow": (np.power, torch.pow),
    "maximum": (np.maximum, torch.maximum),
}
SHAPES = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (2, 1, 4)), ((), (2, 3))]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, shapes):
    a = random(*shapes[0], low=0.2)
    b = random(*shapes[1], seed=1, low=0.2)
    check(getattr(ops, name), BINARY[name][0], a, b)
    check_gradient(getattr(ops, name), BINARY[name][1], a, b)


def test_remainder_and_integer_division():
    a, b = np.array([-7, 7, -7, 7], np.int32), np.array([3, 3, -3, -3], np.int32)
    check(ops.fmod, np.fmod, a, b)
    check(ops.div, lambda x, y: np.trunc(x / y).astype(np.int32), a, b)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("equal", np.equal),
        ("greater", np.greater),
        ("logical_and", np.logical_and),
        ("logical_or", np.logical_or),
    ],
)
def test_comparisons_and_logic(name, reference):
    a, b = np.array([0, 1, 2, 0], np.int32), np.array([0, 1, 0, 3], np.int32)
    check(getattr(ops, name), reference, a, b)


def test_logical_not_and_where():
    condition = np.array([True, False, True])
    check(ops.logical_not, np.logical_not, np.array([0.0, 2.0], np.float32))
    check(ops.where, np.where, condition, random(2, 3), random(1, 3, seed=1))
    check_gradient(ops.where, torch.where, condition, random(2, 3), random(1, 3, seed=1))


def test_mixed_precision_product():
    half, scale = X.astype(np.float16), np.array(3.0, np.float32)
    check(ops.mul, lambda a, b: (a * b).astype(np.float16), half, scale)
    with pytest.raises(popart.popart_exception, match="incompatible types"):
        outputs(ops.mul, half, X)


def test_scaled_add():
    y = random(3, 4, seed=1)
    check(lambda a, b: ops.scaled_add(a, b, 2.0, 3.0), lambda a, b: 2 * a + 3 * b, X, y)
    scales = [np.array(2.0, np.float32), np.array(3.0, np.float32)]
    _, variables = run(ops.scaled_add_, X, y, *scales)
    np.testing.assert_allclose(variables[0], 2 * X + 3 * y, rtol=1e-5, atol=1e-6)


def test_add_in_place_broadcasts():
    _, variables = run(ops.add_, X, random(4, seed=1))
    np.testing.assert_allclose(variables[0], X + random(4, seed=1), rtol=1e-6)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.float32, popxl.float16),
        (np.float32, popxl.int32),
        (np.int32, popxl.bool),
        (np.float16, popxl.float32),
    ],
)
def test_cast(source, target):
    x = (3 * X).astype(source)
    check(lambda t: ops.cast(t, target), lambda a: a.astype(target.as_numpy()), x)


def test_errors():
    with popxl.Ir().main_graph:
        t = popxl.variable(X, name="x")
        with pytest.raises(TypeError, match="The input `rhs` is not a Tensor"):
            ops.add(t, 1)
        graph = popxl.gcg().ir.create_empty_graph("other")
        with graph, pytest.raises(ValueError, match="`t` is not in the current Graph"):
            ops.exp(t)
        with popxl.ipu(0):
            a = ops.exp(t)
        with popxl.ipu(1):
            b = ops.exp(ops.ipu_copy(a, 1))
        with pytest.raises(ValueError, match="located on different IPUs: 0 != 1"):
            ops.add(a, b)
        with pytest.raises(TypeError, match="pow2scale_cast_to_fp8"):
            ops.cast(t, popxl.float8_143)
        with pytest.raises(popart.popart_exception, match="not aligned"):
            ops.add(t, popxl.variable(random(5)))
    with pytest.raises(RuntimeError, match="no graph has been selected"):
        ops.add(t, t)


def test_names():
    with popxl.Ir().main_graph:
        x = popxl.variable(X, name="x")
        assert ops.add(x, x).name == "add_out"
        assert ops.cast(x, popxl.float16).name == "x_float16"
        assert ops.transpose(x).name == "x_T"
        assert ops.identity(x).name == "identity_x"
        assert ops.identity(x, "y").name == "y"
        assert [t.name for t in ops.split(x, 3)] == [f"x_split_{i}" for i in range(3)]
        with popxl.name_scope("a"):
            assert ops.exp(x).name == "a/exp_out"
        op_names = [op.context.name for op in popxl.gcg()._pb.ops]
        assert op_names[0] == "add"
        assert op_names[-1] == "a/exp"
