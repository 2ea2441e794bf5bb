"""The operators and small methods of tensors against NumPy."""

import operator
from collections.abc import Iterable

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.errors import UndefinedValue
from tests.python.popxl.ops.op_testing import outputs, random, run

X, Y = random(2, 3), random(2, 3, seed=1)
BINARY = {
    "__add__": ("Add", operator.add),
    "__sub__": ("Sub", operator.sub),
    "__mul__": ("Mul", operator.mul),
    "__truediv__": ("Div", operator.truediv),
    "__mod__": ("Fmod", operator.mod),
}
LOGICAL = {"__and__": ("And", operator.and_), "__or__": ("Or", operator.or_)}


def reference(function):
    return np.fmod if function is operator.mod else function


def created(build, *arrays):
    """The kinds of the ops of build(*variables), the constants, and the result."""
    ir = popxl.Ir()
    with ir.main_graph as main:
        variables = [popxl.variable(array, downcast=False) for array in arrays]
        result = build(*variables)
    return [op.opType() for op in main._pb_graph.getOps()], main.constants, result


@pytest.mark.parametrize("name", BINARY)
def test_arithmetic(name):
    kind, function = BINARY[name]
    wanted = reference(function)
    (given,) = outputs(function, X, Y)
    np.testing.assert_allclose(given, wanted(X, Y), rtol=1e-5)
    row = Y[:1, :1]
    np.testing.assert_allclose(outputs(function, X, row)[0], wanted(X, row), rtol=1e-5)
    assert created(function, X, Y)[0] == [kind]


@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_with_host_values(name):
    """Either side may be a number or an array; it becomes one constant of the tensor's dtype."""
    kind, function = BINARY[name]
    wanted = reference(function)
    for host in (2.5, Y, Y.astype(np.float64), Y[0].tolist()):
        array = np.asarray(host, np.float32)
        forward = outputs(lambda t, h=host: function(t, h), X)[0]
        np.testing.assert_allclose(forward, wanted(X, array), rtol=1e-5)
        reflected = outputs(lambda t, h=host: function(h, t), X)[0]
        np.testing.assert_allclose(reflected, wanted(array, X), rtol=1e-5)
    kinds, (constant,), result = created(lambda t: function(3, t), X.astype(np.float16))
    assert (kinds, constant.dtype, result.dtype) == ([kind], popxl.float16, popxl.float16)


def test_literals_are_cast_to_the_dtype_of_the_tensor():
    (given,) = outputs(lambda t: t + 0.5, np.arange(3, dtype=np.int32))
    np.testing.assert_array_equal(given, [0, 1, 2])
    with popxl.Ir().main_graph:
        half, single = popxl.variable(X.astype(np.float16)), popxl.variable(X)
        for function in (operator.add, operator.sub, operator.truediv):
            with pytest.raises(popart.popart_exception):
                function(half, single)


def test_matmul():
    kinds, _, result = created(operator.matmul, X, Y.T.copy())
    assert (kinds, result.shape) == (["MatMul"], (2, 2))
    (given,) = outputs(operator.matmul, X, Y.T.copy())
    np.testing.assert_allclose(given, X @ Y.T, rtol=1e-5)
    (right,) = outputs(lambda t: t @ Y.T, X)
    (left,) = outputs(lambda t: Y.T @ t, X)
    np.testing.assert_allclose(right, X @ Y.T, rtol=1e-5)
    np.testing.assert_allclose(left, Y.T @ X, rtol=1e-5)


def test_negation():
    assert created(operator.neg, X)[0] == ["Neg"]
    np.testing.assert_array_equal(outputs(operator.neg, X)[0], -X)


@pytest.mark.parametrize("name", LOGICAL)
def test_logic(name):
    kind, function = LOGICAL[name]
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert created(function, a, b)[0] == [kind]
    np.testing.assert_array_equal(outputs(function, a, b)[0], function(a, b))
    np.testing.assert_array_equal(outputs(lambda t: function(t, b), a)[0], function(a, b))
    np.testing.assert_array_equal(outputs(lambda t: function(b, t), a)[0], function(a, b))


def test_invert():
    a = np.array([True, False])
    assert created(operator.invert, a)[0] == ["Not"]
    np.testing.assert_array_equal(outputs(operator.invert, a)[0], ~a)


def test_power():
    """Numbers become constants of the dtype that they have by themselves."""
    base = np.abs(X) + 0.5
    np.testing.assert_allclose(outputs(operator.pow, base, Y)[0], base**Y, rtol=1e-5)
    np.testing.assert_allclose(outputs(lambda t: t**2.0, X)[0], X**2, rtol=1e-5)
    np.testing.assert_allclose(outputs(lambda t: 2.0**t, X)[0], 2.0**X, rtol=1e-5)
    kinds, (exponent,), _ = created(lambda t: t**2, np.arange(3, dtype=np.int32))
    assert (kinds, exponent.dtype) == (["Pow"], popxl.int32)
    kinds, (number,), _ = created(lambda t: 3.0**t, X)
    assert (kinds, number.dtype) == (["Pow"], popxl.float32)
    np.testing.assert_array_equal(
        outputs(lambda t: 3**t, np.arange(3, dtype=np.int32))[0], [1, 3, 9]
    )


def test_augmented_assignment():
    """`+=` writes the tensor and keeps the object; the others make a new tensor."""

    def build(t, u):
        before = t
        t += u
        assert t is before
        t += 1
        assert t is before
        product = t
        product *= 2
        assert product is not t
        return product

    assert created(build, X, Y)[0] == ["AddLhsInplace", "AddLhsInplace", "Mul"]
    (product,), (changed, other) = run(build, X, Y)
    np.testing.assert_allclose(changed, X + Y + 1, rtol=1e-5)
    np.testing.assert_allclose(product, 2 * (X + Y + 1), rtol=1e-5)
    np.testing.assert_array_equal(other, Y)


def test_equality_and_hash():
    ir, other = popxl.Ir(), popxl.Ir()
    with ir.main_graph:
        a, b = popxl.variable(X, name="a"), popxl.variable(X, name="b")
    with other.main_graph:
        same_name = popxl.variable(X, name="a")
    assert (a == ir.main_graph.get_tensor("a")) is True
    assert (a == b) is False
    assert (a != b) is True
    assert (a == same_name) is False
    assert (a == 1) is False
    assert hash(a) == hash(ir.main_graph.get_tensor("a"))
    assert {a: 1, b: 2, same_name: 3}[a] == 1
    for compare in (operator.lt, operator.gt):
        with pytest.raises(TypeError):
            compare(a, b)


def test_length_truth_and_iteration():
    with popxl.Ir().main_graph:
        matrix, scalar = popxl.variable(X), popxl.variable(1.0)
        assert len(matrix) == 2
        assert matrix
        for use in (len, bool):
            with pytest.raises(ValueError, match="scalar"):
                use(scalar)
        with pytest.raises(TypeError):
            list(matrix)
        with pytest.raises(TypeError):
            1 in matrix  # noqa: B015
        with pytest.raises(TypeError):
            matrix[0] = 1
        assert not isinstance(matrix, Iterable)


def test_reversed_axes():
    x = random(2, 3, 4)
    np.testing.assert_array_equal(outputs(lambda t: t.T, x)[0], x.T)
    assert created(lambda t: t.T_, x)[0] == ["TransposeInplace"]

    def build(t):
        turned = t.T_
        assert turned.shape == (4, 3, 2)
        turned += 1
        return turned

    (given,), (whole,) = run(build, x)
    np.testing.assert_array_equal(given, x.T + 1)
    np.testing.assert_array_equal(whole, x + 1)


def test_detach_cuts_the_gradient():
    assert created(lambda t: t.detach(), X)[0] == ["Detach"]
    np.testing.assert_array_equal(outputs(lambda t: t.detach(), X)[0], X)
    ir = popxl.Ir()
    graph = ir.create_graph(lambda t: t.detach(), popxl.TensorSpec(X.shape, popxl.float32))
    with pytest.raises(popart.popart_exception, match="Unable to provide required gradient"):
        popxl.transforms.autodiff(graph)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (3, 2), (4, 2), (5, 2), (1, 1)])
def test_diag(shape):
    x = random(*shape)
    (given,) = outputs(lambda t: t.diag(), x)
    np.testing.assert_array_equal(given, x.flatten()[:: shape[1] + 1])
    if shape[0] <= shape[1] + 1:
        np.testing.assert_array_equal(given, np.diag(x))


def test_diag_of_other_ranks():
    with popxl.Ir().main_graph:
        for wrong in (np.ones(3), np.ones((2, 2, 2))):
            with pytest.raises(ValueError, match="rank 2"):
                popxl.variable(wrong).diag()


def test_copy_to_ipu():
    ir = popxl.Ir()
    with ir.main_graph as main:
        v, c = popxl.variable(X, name="v"), popxl.constant(X, name="c")
        for tensor in (v, c):
            with pytest.raises(TypeError):
                tensor.copy_to_ipu(1)
        moved = v.copy_to_ipu(1, 0)
        assert (moved.name, moved.ipu) == ("v_c1", 1)
        assert c.copy_to_ipu(2, 0).ipu == 2
        back = moved.copy_to_ipu(0)
        stream = popxl.d2h_stream(X.shape, popxl.float32)
        ops.host_store(stream, back + 1)
    copies = [op for op in main._pb_graph.getOps() if op.opType() == "IpuCopy"]
    assert [(op.getSourceIpu(), op.getDestIpu()) for op in copies] == [(0, 1), (0, 2), (1, 0)]
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[stream], X + 1)


def test_copy_to_ipu_of_an_unplaced_tensor():
    ir = popxl.Ir()
    graph = ir.create_empty_graph()
    with graph:
        unused = popxl.graph_input((2,), popxl.float32)
        for place in ("ipu", "tile_set"):
            with pytest.raises(UndefinedValue):
                getattr(unused, place)
        with pytest.raises(ValueError, match=r"Could not infer the ipu.*specify `source`"):
            unused.copy_to_ipu(1)
        assert unused.copy_to_ipu(1, 0).ipu == 1


def test_ensure_tensor():
    with popxl.Ir().main_graph as main:
        t = popxl.variable(X.astype(np.float16))
        assert t._ensure_tensor(t) is t
        made = t._ensure_tensor(3)
        assert (made.dtype, made.shape) == (popxl.float16, ())
        assert main.constants == (made,)
        assert t._ensure_tensor([1, 2], popxl.int32).dtype == popxl.int32
        with pytest.raises(ValueError, match="0 elements"):
            t._ensure_tensor(np.ones((0, 2)))
        assert t._ensure_tensor(np.ones((0, 2)), raise_on_empty=False).nelms == 0
