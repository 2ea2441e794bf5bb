"""Products of few terms are computed inside the pointwise kernels that read them."""

from collections.abc import Callable

import numpy as np
import pytest

import popxl
from pando.session_info import op_times, open_session
from popxl import ops

RATE = 0.125
Build = Callable[[popxl.Tensor, popxl.Tensor, popxl.Tensor], popxl.Tensor | None]


def update(weight: popxl.Tensor, x: popxl.Tensor, dy: popxl.Tensor) -> None:
    ops.scaled_add_(weight, ops.matmul(x.transpose(), dy) * 2.0, b=-RATE)


def run(build: Build, batch: int, rows: int = 96, columns: int = 64) -> tuple[dict, list[str]]:
    """Values by name before and after one run of `build`, and the kinds of the ops that ran."""
    rng = np.random.default_rng(batch)
    values = {
        "weight": rng.standard_normal((rows, columns), dtype=np.float32),
        "x": rng.standard_normal((batch, rows), dtype=np.float32),
        "dy": rng.standard_normal((batch, columns), dtype=np.float32),
    }
    ir = popxl.Ir()
    with ir.main_graph:
        tensors = {name: popxl.variable(value, name=name) for name, value in values.items()}
        result = build(tensors["weight"], tensors["x"], tensors["dy"])
        stream = None
        if result is not None:
            stream = popxl.d2h_stream(result.shape, result.dtype, "result")
            ops.host_store(stream, result)
    session = open_session(ir, profile=True)
    with session:
        outputs = session.run()
        kinds = [row.op.split(" ")[0] for row in op_times(session)]
    for name, tensor in tensors.items():
        values["new " + name] = session.get_tensor_data(tensor)
    if stream is not None:
        values["result"] = outputs[stream]
    return values, kinds


def expected_weight(values: dict) -> np.ndarray:
    product = values["x"].T.astype(np.float64) @ values["dy"]
    return values["weight"] - RATE * 2 * product


@pytest.mark.parametrize("batch", [1, 3, 8, 16])
def test_gradient_of_few_terms_is_no_kernel_of_its_own(batch: int) -> None:
    values, kinds = run(update, batch)
    assert "MatMul" not in kinds
    np.testing.assert_allclose(values["new weight"], expected_weight(values), rtol=1e-5, atol=1e-5)


def test_deep_product_stays() -> None:
    values, kinds = run(update, 17)
    assert "MatMul" in kinds
    np.testing.assert_allclose(values["new weight"], expected_weight(values), rtol=1e-5, atol=1e-5)


def test_product_that_is_read_twice_stays() -> None:
    def build(weight: popxl.Tensor, x: popxl.Tensor, dy: popxl.Tensor) -> popxl.Tensor:
        product = ops.matmul(x.transpose(), dy)
        ops.scaled_add_(weight, product * 2.0, b=-RATE)
        return ops.sum(product)

    values, kinds = run(build, 8)
    assert "MatMul" in kinds
    np.testing.assert_allclose(values["new weight"], expected_weight(values), rtol=1e-5, atol=1e-5)
    total = np.sum(values["x"].T.astype(np.float64) @ values["dy"])
    np.testing.assert_allclose(values["result"], total, rtol=1e-4)


def test_operand_that_changes_before_the_read_is_read_in_time() -> None:
    def build(weight: popxl.Tensor, x: popxl.Tensor, dy: popxl.Tensor) -> None:
        with popxl.in_sequence():
            product = ops.matmul(x.transpose(), dy)
            ops.scaled_add_(dy, dy, b=1.0)
            ops.scaled_add_(weight, product * 2.0, b=-RATE)

    values, _ = run(build, 8)
    np.testing.assert_allclose(values["new weight"], expected_weight(values), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(values["new dy"], values["dy"] * 2)


def test_operand_that_the_reader_writes_is_read_first() -> None:
    """Square matrices: one kernel could hold the product and the change of its operand."""

    def build(weight: popxl.Tensor, x: popxl.Tensor, dy: popxl.Tensor) -> None:
        with popxl.in_sequence():
            product = ops.matmul(x.transpose(), dy)
            ops.scaled_add_(weight, product * 2.0, b=-RATE)
            ops.scaled_add_(dy, product, b=1.0)

    values, _ = run(build, 2, rows=2, columns=2)
    product = values["x"].T @ values["dy"]
    np.testing.assert_allclose(values["new weight"], expected_weight(values), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(values["new dy"], values["dy"] + product, rtol=1e-5, atol=1e-5)


def test_products_in_a_chain_of_updates() -> None:
    """Two products of one kernel, one of them twice the size of its operands."""

    def build(weight: popxl.Tensor, x: popxl.Tensor, dy: popxl.Tensor) -> popxl.Tensor:
        first = ops.matmul(x.transpose(), dy)
        second = ops.matmul((x + 1.0).transpose(), dy * 3.0)
        return first * weight + second

    values, kinds = run(build, 4)
    assert "MatMul" not in kinds
    x, dy = values["x"].astype(np.float64), values["dy"].astype(np.float64)
    expected = (x.T @ dy) * values["weight"] + (x + 1).T @ (dy * 3)
    np.testing.assert_allclose(values["result"], expected, rtol=1e-4, atol=1e-4)
