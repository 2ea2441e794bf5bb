"""Updates of tables by gradients of gathers: values of PyTorch, no gradient of a table's size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popart import popart_exception
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.layers import Embedding
from popxl_addons.optimizers import AdamOptimizerStep
from tests.python.popxl.ops.op_testing import random, run

Array = Any
ROWS, WIDTH, STEPS = 500, 24, 3
RNG = np.random.default_rng(3)
TABLE = random(ROWS, WIDTH)
INDICES = RNG.integers(0, ROWS, (STEPS, 4, 8)).astype(np.int32)
INDICES[:, 0, :4] = INDICES[:, 1, :4]  # some twice in a step
INDICES[1:, 2] = INDICES[0, 2]  # some in each step
WEIGHTS = random(STEPS, 4, 8, WIDTH, seed=5)
TABLE_BYTES = TABLE.nbytes
Update = Callable[[popxl.Tensor, popxl.Tensor], None]


class Program:
    """The gradient of sum(weights * table[indices]), and an update of the table by it."""

    def __init__(
        self,
        update: Update,
        lookup: Callable[..., popxl.Tensor] = ops.gather,
        table: Array = TABLE,
        **settings: Any,
    ) -> None:
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.table = popxl.variable(table, name="table", downcast=False)
            self.streams = [
                popxl.h2d_stream(INDICES.shape[1:], popxl.int32),
                popxl.h2d_stream(WEIGHTS.shape[1:], self.table.dtype),
            ]
            indices, weights = (ops.host_load(stream) for stream in self.streams)
            forward = self.ir.create_graph(
                lambda t, i, w: ops.sum(lookup(t, i) * w), self.table, indices, weights
            )
            info = popxl.transforms.autodiff(forward, grads_required=[forward.inputs[0]])
            call = ops.call_with_info(forward, self.table, indices, weights)
            one = popxl.constant(1.0, self.table.dtype)
            (gradient,) = ops.call(info.graph, one, inputs_dict=info.inputs_dict(call))
            update(self.table, gradient)
        self.settings = settings

    def train(self) -> Array:
        with popxl.Session(self.ir, "cpu") as session:
            memory = session._pb_session.program.memory
            self.frame_bytes = int(memory.peak_frame_bytes)
            for indices, weights in zip(INDICES, WEIGHTS, strict=True):
                weights = weights.astype(self.table.dtype.as_numpy())
                session.run(dict(zip(self.streams, [indices, weights], strict=True)))
            return np.array(session.get_tensor_data(self.table))


def torch_trained(
    make_optimizer: Callable[..., torch.optim.Optimizer], table: Array = TABLE, lookups: int = 1
) -> Array:
    weight = torch.nn.Parameter(torch.from_numpy(table.copy()))
    optimizer = make_optimizer([weight])
    for indices, weights in zip(INDICES, WEIGHTS, strict=True):
        optimizer.zero_grad()
        found = torch.nn.functional.embedding(
            torch.from_numpy(indices).long(), weight, sparse=lookups == 1
        )
        (found * lookups * torch.from_numpy(weights.astype(table.dtype))).sum().backward()
        optimizer.step()
    return weight.detach().numpy()


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.5)


def _written_out(table: popxl.Tensor, gradient: popxl.Tensor) -> None:
    var_updates.copy_var_update_(table, table - gradient * popxl.constant(0.5, table.dtype))


def _added(table: popxl.Tensor, gradient: popxl.Tensor) -> None:
    step = ops.cast(gradient, popxl.float32) * popxl.constant(-0.5, popxl.float32)
    ops.add_(table, step) if table.dtype == popxl.float32 else var_updates.accumulate_(table, step)


SGD: dict[str, Update] = {
    "scaled_add": lambda t, g: void(ops.scaled_add_(t, g, b=-0.5)),
    "scaled_add by a tensor": lambda t, g: void(
        ops.scaled_add_(t, g, b=popxl.variable(np.float32(-0.5)))
    ),
    "accumulate": lambda t, g: void(var_updates.accumulate_(t, g, -0.5)),
    "accumulate scaled": lambda t, g: void(var_updates.accumulate_(t, ops.negate(g / 2.0))),
    "written out": _written_out,
    "added": _added,
}


def void(_: object) -> None:
    """For lambdas: an update is made, its alias not used."""


@pytest.mark.parametrize("how", SGD)
def test_descent_equals_torch_without_a_gradient_of_the_table(how: str) -> None:
    program = Program(SGD[how])
    np.testing.assert_allclose(program.train(), torch_trained(sgd), rtol=1e-6, atol=1e-6)
    assert program.frame_bytes < TABLE_BYTES


def test_tied_gathers_and_several_lookups() -> None:
    def twice(table: popxl.Tensor, indices: popxl.Tensor) -> popxl.Tensor:
        return ops.tied_gather(table, indices) + ops.gather(table, indices)

    program = Program(SGD["scaled_add"], twice)
    wanted = torch_trained(sgd, lookups=2)
    np.testing.assert_allclose(program.train(), wanted, rtol=1e-5, atol=1e-5)
    assert program.frame_bytes < TABLE_BYTES


@pytest.mark.parametrize("axis", [0, 1])
def test_other_axes(axis: int) -> None:
    table = np.ascontiguousarray(TABLE.T) if axis == 1 else TABLE

    def lookup(t: popxl.Tensor, indices: popxl.Tensor) -> popxl.Tensor:
        found = ops.gather(t, indices, axis=axis)
        return ops.transpose(found, (1, 2, 0)) if axis == 1 else found

    program = Program(SGD["scaled_add"], lookup, table)
    result = program.train()
    wanted = torch_trained(sgd)
    np.testing.assert_allclose(result if axis == 0 else result.T, wanted, rtol=1e-6, atol=1e-6)
    assert program.frame_bytes < TABLE_BYTES


def test_half_precision_sums_in_float32() -> None:
    table = TABLE.astype(np.float16)
    program = Program(SGD["scaled_add"], table=table)
    wanted = torch_trained(sgd, table.astype(np.float32))
    np.testing.assert_allclose(program.train(), wanted, rtol=4e-3, atol=4e-3)
    assert program.frame_bytes < table.nbytes


def test_a_gradient_that_something_else_reads_stays_whole() -> None:
    def update(table: popxl.Tensor, gradient: popxl.Tensor) -> None:
        ops.scaled_add_(table, gradient, b=-0.5)
        norm = popxl.variable(np.float32(0))
        var_updates.copy_var_update_(norm, ops.sum(gradient * gradient))

    program = Program(update)
    np.testing.assert_allclose(program.train(), torch_trained(sgd), rtol=1e-6, atol=1e-6)
    assert program.frame_bytes >= TABLE_BYTES


def test_a_table_of_few_rows_has_a_whole_gradient() -> None:
    program = Program(SGD["scaled_add"], lambda t, i: ops.gather(t[:40], i % _number(40)))
    table = TABLE.copy()
    for indices, weights in zip(INDICES, WEIGHTS, strict=True):
        np.add.at(table, indices % 40, -0.5 * weights)
    np.testing.assert_allclose(program.train(), table, rtol=1e-5, atol=1e-5)


def _number(value: int) -> popxl.Tensor:
    return popxl.constant(np.int32(value))


# Adam on rows

RATE, BETAS, EPSILON = 0.05, (0.75, 0.9), 1e-8


def sparse_adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SparseAdam(parameters, lr=RATE, betas=BETAS, eps=EPSILON)


def _state(table: popxl.Tensor) -> list[popxl.Tensor]:
    zeros = np.zeros(table.shape, np.float32)
    return [popxl.variable(zeros), popxl.variable(zeros)]


def adam(table: popxl.Tensor, gradient: popxl.Tensor, indices: popxl.Tensor | None = None) -> None:
    var_updates.sparse_adam_(
        table,
        *_state(table),
        gradient,
        indices,
        learning_rate=RATE,
        time_step=popxl.variable(np.float32(0)),
        beta1=BETAS[0],
        beta2=BETAS[1],
        epsilon=EPSILON,
    )


def test_adam_equals_torch_without_a_gradient_of_the_table() -> None:
    program = Program(adam)
    np.testing.assert_allclose(program.train(), torch_trained(sparse_adam), rtol=2e-5, atol=2e-5)
    assert program.frame_bytes < TABLE_BYTES


def test_adam_of_a_scaled_gradient() -> None:
    half = np.float32(0.5)
    program = Program(lambda t, g: adam(t, g * popxl.constant(half)))
    np.testing.assert_allclose(program.train(), torch_trained(sparse_adam), rtol=2e-5, atol=2e-5)
    assert program.frame_bytes < TABLE_BYTES


def test_adam_of_any_gradient_updates_rows_that_are_not_zero() -> None:
    def update(table: popxl.Tensor, gradient: popxl.Tensor) -> None:
        norm = popxl.variable(np.float32(0))
        var_updates.copy_var_update_(norm, ops.sum(gradient * gradient))
        adam(table, gradient)

    program = Program(update)
    np.testing.assert_allclose(program.train(), torch_trained(sparse_adam), rtol=2e-5, atol=2e-5)
    assert program.frame_bytes >= TABLE_BYTES


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.int64])
def test_adam_of_listed_rows(dtype: Any) -> None:
    """Rows that are listed are updated, also where their gradient is 0; others are not."""
    indices = np.array([[3, 0], [3, 9]]).astype(dtype)
    table, x = random(5, 4), random(2, 2, 4, seed=1)
    x[0, 1] = 0.0
    m, v = random(5, 4, seed=2), random(5, 4, seed=3, low=0.5)

    def build(t: popxl.Tensor, m: popxl.Tensor, v: popxl.Tensor, *rest: popxl.Tensor) -> Any:
        x, i, step = rest
        return var_updates.sparse_adam_(
            t, m, v, x, i, learning_rate=RATE, time_step=step, weight_decay=0.5, beta1=0.75
        )

    (given,), variables = run(build, table, m, v, x, indices, np.float32(2))
    wanted_m, wanted_v, wanted = m.copy(), v.copy(), table.copy()
    sums = {3: x[0, 0] + x[1, 0], 0: x[0, 1]}
    for row, g in sums.items():
        wanted_m[row] = 0.75 * m[row] + 0.25 * g
        wanted_v[row] = 0.999 * v[row] + 0.001 * g * g
        corrected = wanted_m[row] / (1 - 0.75**3)
        step = corrected / (np.sqrt(wanted_v[row] / (1 - 0.999**3)) + 1e-7)
        wanted[row] -= RATE * (step + 0.5 * table[row])
    for got, expected in zip(
        [given, *variables[:3]], [wanted, wanted, wanted_m, wanted_v], strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    assert variables[5] == 3.0
    untouched = [1, 2, 4]
    for got, start in zip(variables[:3], [table, m, v], strict=True):
        np.testing.assert_array_equal(got[untouched], start[untouched])


def test_indices_of_nothing_and_gradients_that_are_not_finite() -> None:
    table, zeros = random(5, 4), np.zeros((5, 4), np.float32)
    x = random(2, 4, seed=1)
    x[1] = np.nan

    def build(t: popxl.Tensor, m: popxl.Tensor, v: popxl.Tensor, *rest: popxl.Tensor) -> Any:
        return var_updates.sparse_adam_(t, m, v, *rest, learning_rate=RATE)

    far = np.array([7, -1], np.int32)
    (given,), _ = run(build, table, zeros, zeros, x, far)
    np.testing.assert_array_equal(given, table)
    (given,), _ = run(build, table, zeros, zeros, x, np.array([7, 2], np.int32))
    assert np.isnan(given[2]).all()
    np.testing.assert_array_equal(np.delete(given, 2, 0), np.delete(table, 2, 0))


def test_lazy_adam_of_addons() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        indices_stream = popxl.h2d_stream(INDICES.shape[1:], popxl.int32)
        indices = ops.host_load(indices_stream)
        factories, forward = Embedding(popxl.float32, ROWS, WIDTH).create_graph(indices)
        rows = forward.args.weight.shape[0]
        table = np.resize(TABLE, (rows, WIDTH))
        gradients = addons.autodiff(forward, grads_required=[forward.args.weight])
        variables = factories.init()
        call = forward.bind(variables).call_with_info(indices)
        seed = popxl.h2d_stream(WEIGHTS.shape[1:], popxl.float32)
        (gradient,) = gradients.call(
            ops.host_load(seed), args=gradients.grad_graph_info.inputs_dict(call)
        )
        factories, step = AdamOptimizerStep().create_graph(
            variables.weight,
            gradient.spec,
            lr=RATE,
            beta1=BETAS[0],
            beta2=BETAS[1],
            eps=EPSILON,
            weight_decay=0.0,
            first_order_dtype=popxl.float32,
            loss_scaling=2.0,
            lazy=True,
        )
        step.bind(factories.init()).call(variables.weight, gradient)
    with popxl.Session(ir, "cpu") as session:
        session.write_variable_data(variables.weight, table)
        for i, w in zip(INDICES, WEIGHTS, strict=True):
            session.run({indices_stream: i, seed: 2 * w})
        result = session.get_tensor_data(variables.weight)
        assert session._pb_session.program.memory.peak_frame_bytes < TABLE_BYTES
    wanted = torch_trained(sparse_adam, table)
    np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-5)


def test_errors() -> None:
    with popxl.Ir().main_graph:
        t, half = popxl.variable(random(5, 4)), popxl.variable(random(5, 2))
        indices = popxl.variable(np.array([1, 2], np.int32))
        with pytest.raises(popart_exception, match="wanted acc_second_order of t's shape"):
            var_updates.sparse_adam_(t, t, half, t, learning_rate=0.1)
        with pytest.raises(popart_exception, match=r"wanted X of shape \(2, 4\)"):
            var_updates.sparse_adam_(t, t, t, t, indices, learning_rate=0.1)
        with pytest.raises(popart_exception, match="one element for 'learning_rate'"):
            var_updates.sparse_adam_(t, t, t, t, learning_rate=half)
