"""Results that are made where a copy would put them."""

import numpy as np

import popxl
from popxl import ops

SHAPE = (6, 33)
RNG = np.random.default_rng(7)
X = RNG.standard_normal(SHAPE).astype(np.float32)
Y = RNG.standard_normal(SHAPE).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def copy(target, source):
    return ops.var_updates.copy_var_update_(target, source)


def store(tensor):
    stream = popxl.d2h_stream(tensor.shape, tensor.dtype)
    ops.host_store(stream, tensor)
    return stream


def copies(session):
    """The copies that the program still has."""
    text = session._pb_session.program.disassembly()
    return [line for line in text.splitlines() if "CopyVarUpdate" in line]


def run(build):
    """`build(x, y)` makes the program; returned too: the streams or the variable that it gives."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x, y = popxl.variable(X, name="x"), popxl.variable(Y, name="y")
        made = build(x, y) or []
    with popxl.Session(ir, "cpu") as session:
        results = session.run({})
        left = copies(session)
    x, y = session.get_tensor_data(x), session.get_tensor_data(y)
    if isinstance(made, list):
        return x, y, [results[stream] for stream in made], left
    return x, y, session.get_tensor_data(made), left


def test_a_result_is_made_in_its_variable():
    def build(x, y):
        copy(y, ops.softmax(x, axis=-1))

    x, y, _, left = run(build)
    assert left == []
    np.testing.assert_allclose(y, softmax(X), rtol=1e-5)
    np.testing.assert_array_equal(x, X)


def test_a_result_that_is_changed_before_the_copy_is_copied():
    # A run that stops between the two must leave the variable as it was.
    def build(x, y):
        result = ops.softmax(x, axis=-1)
        product = popxl.variable(np.zeros((6, 6), np.float32))
        copy(product, ops.matmul(result, ops.transpose(x)))
        row = popxl.constant(np.full((1, 33), 5, np.float32))
        at = popxl.constant(np.array([2], np.uint32))
        ops.dynamic_update_(result, at, row, axes=[0], sizes=[1], no_overlap=True)
        copy(y, result)
        return product

    _, y, product, left = run(build)
    assert len(left) == 1  # the product is made in its variable
    wanted = softmax(X)
    np.testing.assert_allclose(product, wanted @ X.T, rtol=1e-4, atol=1e-5)
    wanted[2] = 5
    np.testing.assert_allclose(y, wanted, rtol=1e-5)


# The order of ops that do not conflict is the compiler's: these programs depend on it.


def test_a_variable_that_makes_the_result_is_copied_to():
    def build(x, y):
        copy(y, ops.matmul(y, popxl.constant(np.diag(np.arange(33)).astype(np.float32))))

    _, y, _, left = run(build)
    np.testing.assert_allclose(y, Y * np.arange(33), rtol=1e-5)
    assert len(left) == 1


def test_a_variable_that_is_read_in_between_is_copied_to():
    def build(x, y):
        result = ops.softmax(x, axis=-1)
        total = ops.sum(result + y, axis=0)
        copy(y, result)
        return [store(total)]

    _, y, (total,), left = run(build)
    np.testing.assert_allclose(y, softmax(X), rtol=1e-5)
    np.testing.assert_allclose(total, (softmax(X) + Y).sum(0), rtol=1e-4, atol=1e-5)
    assert len(left) == 1


def test_a_result_that_is_read_after_the_copy_is_copied():
    def build(x, y):
        result = ops.softmax(x, axis=-1)
        copy(y, result)
        squares = ops.matmul(result, ops.transpose(y))
        ops.scaled_add_(y, x, b=1.0)
        return [store(squares), store(ops.matmul(result, ops.transpose(y)))]

    _, y, (squares, others), left = run(build)
    soft = softmax(X)
    np.testing.assert_allclose(y, soft + X, rtol=1e-5)
    np.testing.assert_allclose(squares, soft @ soft.T, rtol=1e-4)
    np.testing.assert_allclose(others, soft @ (soft + X).T, rtol=1e-4, atol=1e-5)
    assert len(left) == 1


def test_what_one_result_is_copied_to_twice():
    def build(x, y):
        result = ops.softmax(y, axis=-1)
        copy(y, result)
        copy(x, result)

    x, y, _, left = run(build)
    np.testing.assert_allclose(x, softmax(Y), rtol=1e-5)
    np.testing.assert_array_equal(x, y)
    assert len(left) == 1


def test_a_view_of_a_result_is_copied():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(X)
        y = popxl.variable(np.zeros(SHAPE[::-1], np.float32))
        copy(y, ops.transpose(ops.softmax(x, axis=-1)))
    with popxl.Session(ir, "cpu") as session:
        session.run({})
    np.testing.assert_allclose(session.get_tensor_data(y), softmax(X).T, rtol=1e-5)


def test_results_of_calls_and_loops_are_copied():
    def step(y: popxl.TensorByRef, x: popxl.Tensor) -> None:
        copy(y, ops.softmax(y + x, axis=-1))

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x, y = popxl.variable(X), popxl.variable(Y)
        graph = ir.create_graph(step, y, x)
        ops.repeat(graph, 3, y, x)
        copy(x, ops.call(ir.create_graph(lambda v: ops.softmax(v, axis=-1), x), x)[0])
    with popxl.Session(ir, "cpu") as session:
        session.run({})
    wanted = Y
    for _ in range(3):
        wanted = softmax(wanted + X)
    np.testing.assert_allclose(session.get_tensor_data(y), wanted, rtol=1e-4)
    np.testing.assert_allclose(session.get_tensor_data(x), softmax(X), rtol=1e-5)


def test_every_run_begins_with_what_the_last_one_left():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x, y = popxl.variable(X), popxl.variable(Y)
        copy(y, ops.softmax(x, axis=-1))
        copy(x, ops.matmul(y, popxl.variable(2 * np.eye(33, dtype=np.float32))))
    wanted = X
    with popxl.Session(ir, "cpu") as session:
        for _ in range(4):
            session.run({})
            wanted = 2 * softmax(wanted)
        assert copies(session) == []
    np.testing.assert_allclose(session.get_tensor_data(x), wanted, rtol=1e-4)


def test_what_a_loop_begins_with_is_made_where_the_loop_takes_it():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(X)
        graph = ir.create_graph(lambda t: ops.softmax(t, axis=-1), x)
        stream = store(ops.repeat(graph, 2, ops.softmax(x, axis=-1))[0])
    with popxl.Session(ir, "cpu") as session:
        text = session._pb_session.program.disassembly()
        result = session.run({})[stream]
    assert "Copy" not in text.partition("function main")[2]
    np.testing.assert_allclose(result, softmax(softmax(softmax(X))), rtol=1e-5)
