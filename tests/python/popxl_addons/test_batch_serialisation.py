"""Batch serialised graphs against the same steps in NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.transforms.batch_serialisation import (
    batch_serialise_non_overlapped,
    batch_serialise_overlapped,
)

MODES = ["compute", "io", "io_overlapped"]
STEPS, ROWS, BATCH, SIZE = 4, 2, 3, 5
RNG = np.random.default_rng(5)
X = RNG.normal(size=(STEPS, BATCH, SIZE)).astype(np.float32)
WEIGHT = RNG.normal(0, 0.5, (SIZE, SIZE)).astype(np.float32)
SPEC = popxl.TensorSpec((BATCH, SIZE), popxl.float32)


class Layer(addons.Module):
    """gelu(x w): the gradient needs x, w and what comes between."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        weight = self.add_variable_input("weight", lambda: WEIGHT, popxl.float32)
        return ops.gelu(x @ weight)


def new_ir() -> popxl.Ir:
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().numIOTiles = 32
    ir.num_host_transfers = STEPS
    return ir


def torch_layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x @ weight, approximate="tanh")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_every_step_loads_computes_and_stores(mode: str, steps: int) -> None:
    ir = new_ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream(SPEC.shape, SPEC.dtype, "x")
        results = popxl.d2h_stream(SPEC.shape, SPEC.dtype, "y")
        factories, graph = Layer().create_graph(SPEC)
        buffer = addons.batch_serial_buffer(graph.graph.outputs[0], steps)
        y = graph.graph.outputs[0]
        serial = addons.batch_serialise(
            graph,
            steps,
            load_handles={graph.graph.inputs[0]: source},
            store_streams={y: results},
            store_buffers={y: addons.RemoteHandle(buffer)},
            io_mode=mode,
        )
        variables = factories.init()
        assert serial.graph.bind(variables).call(0) == ()
        stored = [addons.host_store(ops.remote_load(buffer, step)) for step in range(steps)]
    assert list(serial.stored_buffers) == [y]
    assert serial.graph.args.keys() == ["weight"]
    assert [t.name for t in serial.graph.graph.inputs] == ["batch_serial_loop_index", "weight"]
    assert serial.graph.graph.name.startswith("Layer__repeat_graph_subgraph(")
    assert serial.remap_tensors(graph.args).weight == serial.graph.args.weight
    assert buffer.entries == steps
    with popxl.Session(ir, "cpu") as session:
        outputs = session.run({source: X[:steps] if steps > 1 else X[0]})
    wanted = torch_layer(torch.tensor(X[:steps]), torch.tensor(WEIGHT)).numpy()
    got = outputs[results].reshape(wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    for step, (_, stream) in enumerate(zip(range(steps), stored, strict=True)):
        value = outputs[stream][0] if steps > 1 else outputs[stream]
        np.testing.assert_array_equal(value, got[step])


def run_rows(
    offset: Any, rows: list[int], mode: str = "compute", entries: int = ROWS * STEPS
) -> tuple[np.ndarray, popxl.RemoteBuffer]:
    """Entries of a buffer in which entry e holds e, doubled by one call per row."""
    ir = new_ir()
    ir.num_host_transfers = 1
    spec = popxl.TensorSpec((2,), popxl.float32)
    with ir.main_graph, popxl.in_sequence():
        graph = addons.GraphWithNamedArgs(ir.create_graph(_double, spec))
        source = popxl.remote_buffer((2,), popxl.float32, 1)
        target = popxl.remote_buffer((2,), popxl.float32, 1)
        serial = addons.batch_serialise(
            graph,
            STEPS,
            load_handles={graph.graph.inputs[0]: (source, offset)},
            store_streams={},
            store_buffers={graph.graph.outputs[0]: (target, 0)},
            rows=ROWS,
            io_mode=mode,
        )
        size = source.entries
        source.entries = max(entries, size)
        for entry in range(source.entries):
            value = popxl.constant(np.full(2, entry, np.float32))
            ops.remote_store(source, entry, value)
        for row in rows:
            serial.graph.call(row)
        streams = [
            addons.host_store(ops.remote_load(target, row * STEPS + step))
            for row in rows
            for step in range(STEPS)
        ]
    with popxl.Session(ir, "cpu") as session:
        outputs = session.run()
    source.entries = size
    return np.array([outputs[stream][0] for stream in streams]).reshape(len(rows), STEPS), source


def _double(x: popxl.Tensor) -> popxl.Tensor:
    return x * 2.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("offset", "rule", "minimum"),
    [
        (0, lambda row: row, STEPS * ROWS),
        (1, lambda row: row + 1, STEPS * (1 + ROWS)),
        (None, lambda row: 0, STEPS),
        (lambda row: row * 0 + 1 - row, lambda row: 1 - row, STEPS * ROWS),
    ],
    ids=["same row", "next row", "first row", "function"],
)
def test_entries_of_rows(offset: Any, rule: Callable[[int], int], minimum: int, mode: str) -> None:
    values, source = run_rows(offset, [0, 1], mode)
    wanted = [[2 * (rule(row) * STEPS + step) for step in range(STEPS)] for row in (0, 1)]
    np.testing.assert_array_equal(values, wanted)
    assert source.entries == minimum


class Dropout(addons.Module):
    def build(self, x: popxl.Tensor, seed: popxl.Tensor) -> popxl.Tensor:
        return ops.dropout(x, seed, p=0.5)


def dropout_masks(mode: str) -> np.ndarray:
    ir = new_ir()
    with ir.main_graph, popxl.in_sequence():
        seed_spec = popxl.TensorSpec((2,), popxl.uint32)
        _, graph = Dropout().create_graph(SPEC, seed_spec)
        _, seed = graph.graph.inputs
        results = popxl.d2h_stream(SPEC.shape, SPEC.dtype, "y")
        serial = addons.batch_serialise(
            graph, STEPS, {}, {graph.graph.outputs[0]: results}, {}, seed, io_mode=mode
        )
        names = [t.name for t in serial.graph.graph.inputs]
        assert names == ["batch_serial_loop_index", "batch_serial_random_seed", "x"]
        first = popxl.constant(np.array([1, 2], np.uint32), popxl.uint32)
        ones = popxl.constant(np.ones(SPEC.shape, np.float32))
        serial.graph.call(0, first, ones)
    with popxl.Session(ir, "cpu") as session:
        return session.run()[results]


def test_every_step_gets_its_own_seed() -> None:
    # Each step splits the seed that the one before left; here all steps are in one graph.
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        seed = popxl.constant(np.array([1, 2], np.uint32), popxl.uint32)
        streams = []
        for _ in range(STEPS):
            this, seed = ops.split_random_seed(seed)
            ones = popxl.constant(np.ones(SPEC.shape, np.float32))
            streams.append(addons.host_store(ops.dropout(ones, this, p=0.5)))
    with popxl.Session(ir, "cpu") as session:
        outputs = session.run()
    wanted = np.stack([outputs[stream] for stream in streams])
    assert len({mask.tobytes() for mask in wanted}) == STEPS
    for mode in MODES:
        np.testing.assert_array_equal(dropout_masks(mode), wanted)


def torch_gradients_of_two_layers(dy: np.ndarray) -> list[np.ndarray]:
    """What goes in, 2 X, and both weights have gradients; 2 dy comes back."""
    weights = [torch.tensor(WEIGHT, requires_grad=True) for _ in range(ROWS)]
    first = torch.tensor(2 * X, requires_grad=True)
    y = torch_layer(torch_layer(first, weights[0]), weights[1])
    grads = torch.autograd.grad(y, [first, *weights], torch.tensor(2 * dy))
    return [grad.numpy() for grad in grads]


def serialise_rows(forward: Any, gradient: Any, x_buffer: Any, dx_buffer: Any, mode: str) -> Any:
    """Row r reads x from row r and writes row r + 1; its gradient goes the other way."""
    return addons.batch_serialise_fwd_and_grad(
        forward,
        gradient,
        forward.args,
        STEPS,
        load_handles={
            forward.graph.inputs[0]: (x_buffer, 0),
            gradient.graph.inputs[0]: (dx_buffer, 1),
        },
        store_streams={},
        store_buffers={
            forward.graph.outputs[0]: (x_buffer, 1),
            gradient.graph.outputs[0]: (dx_buffer, 0),
        },
        rows=ROWS,
        io_mode=mode,
    )


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_forward_and_gradient_over_two_layers(mode: str, recompute: bool) -> None:
    """Two layers of one graph in two rows: gradients of both weights, summed over the steps."""
    dy = RNG.normal(size=(STEPS, BATCH, SIZE)).astype(np.float32)
    ir = new_ir()
    with ir.main_graph, popxl.in_sequence():
        x_in = popxl.h2d_stream(SPEC.shape, SPEC.dtype, "x")
        dy_in = popxl.h2d_stream(SPEC.shape, SPEC.dtype, "dy")
        dx_out = popxl.d2h_stream(SPEC.shape, SPEC.dtype, "dx")
        identity = addons.GraphWithNamedArgs(ir.create_graph(_double, SPEC))
        factories, forward = Layer().create_graph(SPEC)
        x = forward.graph.inputs[0]
        grad_factories, gradient = addons.autodiff_with_accumulation(
            forward, forward.args.tensors, grads_required=[x]
        )
        if recompute:
            gradient = addons.recompute_graph(gradient)
        x_buffer = addons.batch_serial_buffer(x, STEPS, ROWS + 1)
        dx_buffer = addons.batch_serial_buffer(x, STEPS, ROWS + 1)
        forward_serial, gradient_serial = serialise_rows(
            forward, gradient, x_buffer, dx_buffer, mode
        )
        assert gradient_serial.graph.args.keys() == ["weight", "mean_accum_counter", "accum"]
        # Twice the host values go into row 0 of x and row 2 of dx.
        options: dict[str, Any] = {"store_streams": {}, "io_mode": mode}
        source, result = identity.graph.inputs[0], identity.graph.outputs[0]
        feed_x = addons.batch_serialise(
            identity, STEPS, {source: x_in}, store_buffers={result: (x_buffer, 0)}, **options
        )
        feed_dy = addons.batch_serialise(
            identity, STEPS, {source: dy_in}, store_buffers={result: (dx_buffer, 2)}, **options
        )
        options = {"store_streams": {result: dx_out}, "io_mode": mode}
        give_dx = addons.batch_serialise(
            identity, STEPS, {source: (dx_buffer, 0)}, store_buffers={}, **options
        )
        variables = [factories.init(f"layer{row}") for row in range(ROWS)]
        accums = [grad_factories.init(f"layer{row}") for row in range(ROWS)]
        feed_x.graph.call(0)
        for row in range(ROWS):
            forward_serial.graph.bind(variables[row]).call(row)
        feed_dy.graph.call(0)
        for row in reversed(range(ROWS)):
            accums[row].update(variables[row].copy())
            assert gradient_serial.graph.bind(accums[row]).call(row) == ()
        give_dx.graph.call(0)
    assert x_buffer.entries == dx_buffer.entries == (ROWS + 1) * STEPS
    session = popxl.Session(ir, "cpu")
    with session:
        outputs = session.run({x_in: X, dy_in: dy})
    grads = torch_gradients_of_two_layers(dy)
    np.testing.assert_allclose(outputs[dx_out], 2 * grads[0], rtol=1e-4, atol=1e-5)
    for row in range(ROWS):
        mean = grads[1 + row] / STEPS
        value = session.get_tensor_data(accums[row].accum.weight)
        np.testing.assert_allclose(value, mean, rtol=1e-4, atol=1e-5)
        assert session.get_tensor_data(accums[row].mean_accum_counter) == STEPS


def serialise_layer(**changes: Any) -> Any:
    """batch_serialise of a layer with some arguments changed."""
    ir = new_ir()
    ir._pb_ir.getSessionOptions().numIOTiles = changes.pop("io_tiles", 32)
    with ir.main_graph:
        _, graph = Layer().create_graph(SPEC)
        source = popxl.h2d_stream(SPEC.shape, SPEC.dtype, "x")
        loads = changes.pop("loads", lambda g: {g.graph.inputs[0]: source})(graph)
        arguments = {"steps": STEPS, "store_streams": {}, "store_buffers": {}, **changes}
        return addons.batch_serialise(graph, load_handles=loads, **arguments)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"rows": 0}, ValueError, "at least 1 row"),
        ({"steps": 0, "io_mode": "compute"}, ValueError, "at least 1 step"),
        ({"io_mode": "fast"}, ValueError, "io_mode must be one of compute, io"),
        ({"io_mode": "io", "io_tiles": 0}, ValueError, "numIOTiles is 0"),
        ({"io_mode": "io_overlapped", "io_tiles": 0}, ValueError, "numIOTiles is 0"),
        ({"loads": lambda g: {g.graph.inputs[0]: 3}}, TypeError, "given int: 3"),
        ({"loads": lambda g: {g.args.weight: 3}}, KeyError, "'weight' is a named argument"),
    ],
)
def test_what_cannot_be_serialised(
    changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        serialise_layer(**changes)


def test_one_step_cannot_overlap(caplog: pytest.LogCaptureFixture) -> None:
    serialise_layer(steps=1, io_mode="io_overlapped")
    assert "needs at least 2 steps" in caplog.text


def test_handles_of_other_graphs_are_ignored_and_tuples_converted() -> None:
    ir = new_ir()
    with ir.main_graph:
        _, graph = Layer().create_graph(SPEC)
        _, other = Layer().create_graph(SPEC)
        buffer = addons.batch_serial_buffer(SPEC, STEPS)
        loads: dict[popxl.Tensor, Any] = {
            graph.graph.inputs[0]: (buffer, 0),
            other.graph.inputs[0]: (buffer, None),
        }
        stores: dict[popxl.Tensor, Any] = {graph.graph.inputs[0]: (buffer, 0)}
        serial = batch_serialise_overlapped(graph, STEPS, loads, {}, stores)
        batch_serialise_non_overlapped(other, STEPS, loads, {}, {}, use_io_tiles=True)
    assert all(isinstance(handle, addons.RemoteHandle) for handle in loads.values())
    assert serial.stored_buffers == {}, "what was loaded from a buffer is stored already"


def test_every_output_gradient_needs_a_handle() -> None:
    ir = new_ir()
    with ir.main_graph:
        _, forward = Layer().create_graph(SPEC)
        _, gradient = addons.autodiff_with_accumulation(forward, forward.args.tensors)
        with pytest.raises(ValueError, match="has no load handle"):
            addons.batch_serialise_fwd_and_grad(
                forward, gradient, forward.args, STEPS, {}, {}, {}, io_mode="compute"
            )


def test_inputs_by_reference_keep_their_changes() -> None:
    class Count(addons.Module):
        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            total = self.add_variable_input("total", partial(np.zeros, ()), x.dtype, by_ref=True)
            ops.var_updates.accumulate_(total, ops.sum(x))
            return total + 0.0

    for mode in MODES:
        ir = new_ir()
        with ir.main_graph, popxl.in_sequence():
            source = popxl.h2d_stream(SPEC.shape, SPEC.dtype, "x")
            results = popxl.d2h_stream((), popxl.float32, "total")
            factories, graph = Count().create_graph(SPEC)
            serial = addons.batch_serialise(
                graph,
                STEPS,
                {graph.graph.inputs[0]: source},
                {graph.graph.outputs[0]: results},
                {},
                io_mode=mode,
            )
            state = factories.init()
            serial.graph.bind(state).call(0)
        session = popxl.Session(ir, "cpu")
        with session:
            totals = session.run({source: X})[results]
        wanted = np.cumsum(X.sum(axis=(1, 2)))
        np.testing.assert_allclose(totals, wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(session.get_tensor_data(state.total), wanted[-1], rtol=1e-4)
